//! The program that Replayfs was measured with ("Pread", Replayfs, section 6): threads that read 1 KiB at random offsets, each of
//! a cached file of its own. Prints how long the reads of its slowest thread took, as JSON.
//!
//! `pread-load FILE THREADS READS [BYTES]`: reads per thread, bytes per read (1024); the files are FILE0, FILE1, ...

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::time::Instant;

use reprise_testkit::rng::Rng;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(default, |text| text.parse().expect("a number"));
    let path = args.first().expect("pread-load FILE THREADS READS [BYTES]");
    let (threads, reads, bytes) = (number(1, 2), number(2, 100_000), number(3, 1024));
    let barrier = Barrier::new(threads as usize);
    let longest_ns = std::thread::scope(|scope| {
        let begin = |thread| {
            let barrier = &barrier;
            scope.spawn(move || one(path, thread, reads, bytes, barrier))
        };
        let all: Vec<_> = (0..threads).map(begin).collect();
        all.into_iter().map(|thread| thread.join().expect("a thread")).max().unwrap_or(0)
    });
    println!("{{\"threads\": {threads}, \"reads\": {}, \"elapsed_ns\": {longest_ns}}}", threads * reads);
}

fn one(path: &str, thread: u64, reads: u64, bytes: u64, barrier: &Barrier) -> u64 {
    let file = File::open(format!("{path}{thread}")).expect("the file of this thread");
    let length = file.metadata().expect("the file of this thread").len();
    let mut room = vec![0u8; bytes as usize];
    let mut rng = Rng::new(1, thread);
    let offsets: Vec<u64> = (0..reads).map(|_| rng.below(length / bytes) * bytes).collect();
    barrier.wait();
    let begin = Instant::now();
    for offset in offsets {
        let n = file.read_at(&mut room, offset).expect("a read");
        assert_eq!(n as u64, bytes, "a short read");
    }
    begin.elapsed().as_nanos() as u64
}
