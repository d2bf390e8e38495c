//! Random numbers (xorshift64*), the same for the same seed everywhere.

/// A generator.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// From a seed and what tells this one from its siblings.
    pub fn new(seed: u64, salt: u64) -> Rng {
        let mut rng = Rng((seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9)) | 1);
        for _ in 0..8 {
            rng.draw();
        }
        rng
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.draw() >> 33) % n
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
