//! The tree that the program finds.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use crate::context::Options;
use crate::rng::Rng;

const NOBODY: u32 = 65534;

/// Makes it in the directory.
pub fn tree(options: &Options) {
    let mut rng = Rng::new(options.seed, 0x7265);
    let dir = &options.dir;
    fs::create_dir_all(dir).expect("the directory");
    let mut made = vec![dir.clone()];
    for name in ["d", "e", "d/e", "d/g"] {
        fs::create_dir(dir.join(name)).expect("a directory");
        made.push(dir.join(name));
    }
    for name in ["a", "b", "d/a", "d/b", "d/e/c", "e/a"] {
        if rng.chance(75) {
            let size = rng.pick(&[0usize, 10, 4096, 10_000, 70_000]);
            let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8 ^ name.len() as u8).collect();
            fs::write(dir.join(name), bytes).expect("a file");
            made.push(dir.join(name));
        }
    }
    if rng.chance(50) && dir.join("a").exists() {
        fs::hard_link(dir.join("a"), dir.join("e/m")).expect("a link");
    }
    let sparse = dir.join("c");
    File::create(&sparse).and_then(|f| f.set_len(300_000)).expect("a sparse file");
    made.push(sparse);
    for (name, text) in [("l", "d/a"), ("e/l", "../d"), ("d/l", "l"), ("d/m", "nowhere")] {
        symlink(text, dir.join(name)).expect("a link");
    }
    symlink(dir.join("e"), dir.join("m")).expect("a link");
    for number in 0..rng.pick(&[0u64, 5, 300]) {
        File::create(dir.join(format!("d/g/file-{number}"))).expect("a file");
    }
    if options.user {
        for path in made {
            if rng.chance(85) {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("an owner");
            }
            if path.is_file() && rng.chance(20) {
                fs::set_permissions(&path, Permissions::from_mode(0o4755)).expect("a mode");
            }
        }
        chown(dir, Some(NOBODY), Some(NOBODY)).expect("an owner");
    }
}
