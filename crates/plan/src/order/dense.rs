//! What is remembered of things whose numbers are used again, and so are small.

/// Values by number; the default one for what was never touched, or forgotten.
#[derive(Debug, Default)]
pub(super) struct Dense<V>(Vec<V>);

impl<V: Default> Dense<V> {
    /// The value of a number.
    pub fn of(&mut self, number: u32) -> &mut V {
        let at = number as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, V::default);
        }
        &mut self.0[at]
    }

    /// Lets go of a number's value.
    pub fn forget(&mut self, number: u32) {
        if let Some(value) = self.0.get_mut(number as usize) {
            *value = V::default();
        }
    }
}
