//! The tree that every case starts from, and looks at it by other means than the calls under test.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::context::Context;
use crate::raw::{self, Guarded};

/// A symbolic link that leads nowhere.
pub const DANGLING: &str = "dangling";
/// What it names.
pub const MISSING: &str = "missing";
/// Length of `file`.
pub const FILE_BYTES: usize = 10_000;

/// The content of `file`.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// Makes the tree: `file` (10 000 bytes, mode 0644, attribute `user.k` = `value`), `other` (`other content`),
/// `sparse` (64 KiB, data in its second half), `dir` with `inside`, `empty`, `link` to `file`, `dangling`, `prog`.
pub fn make(dir: &Path) -> std::io::Result<()> {
    fs::write(dir.join("file"), pattern(FILE_BYTES))?;
    fs::set_permissions(dir.join("file"), fs::Permissions::from_mode(0o644))?;
    set_xattr(&dir.join("file"), "user.k", b"value");
    fs::write(dir.join("other"), "other content\n")?;
    let sparse = fs::File::create(dir.join("sparse"))?;
    sparse.set_len(65_536)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, &pattern(4096), 32_768)?;
    fs::create_dir(dir.join("dir"))?;
    fs::write(dir.join("dir/inside"), "inside\n")?;
    fs::create_dir(dir.join("empty"))?;
    symlink("file", dir.join("link"))?;
    symlink(MISSING, dir.join(DANGLING))?;
    fs::write(dir.join("prog"), "#!/bin/sh\nexit $(($1 + ADD))\n")?;
    fs::set_permissions(dir.join("prog"), fs::Permissions::from_mode(0o755))
}

/// Sets an extended attribute; false if the file system has none.
pub fn set_xattr(path: &Path, name: &str, value: &[u8]) -> bool {
    let [path, name] = [path.to_str().expect("a plain name"), name].map(c_string);
    let value_at = Guarded::new(value).address();
    let args = [path, name, value_at, value.len() as u64, 0];
    raw::sys(libc::SYS_lsetxattr, &args) == 0
}

/// An extended attribute of the name itself.
pub fn get_xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let [path, name] = [path.to_str().expect("a plain name"), name].map(c_string);
    let room = Guarded::new(&[0; 4096]);
    let args = [path, name, room.address(), 4096];
    let length = usize::try_from(raw::sys(libc::SYS_lgetxattr, &args)).ok()?;
    Some(room.bytes()[..length].to_vec())
}

/// Address of a string ended by NUL.
pub fn c_string(text: &str) -> u64 {
    Guarded::new(&[text.as_bytes(), &[0]].concat()).address()
}

/// A file's line in `/proc/self/fdinfo/FD`.
pub fn fd_info(fd: i64, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).expect("fdinfo");
    let line = text.lines().find(|l| l.split(':').next() == Some(key));
    let line = line.unwrap_or_else(|| panic!("{key} of {fd}: {text}"));
    line.split_once(':').expect("a key").1.trim().to_owned()
}

/// A line of `/proc/self/status`.
pub fn status(key: &str) -> String {
    status_of("self", key)
}

/// A line of `/proc/PID/status`.
pub fn status_of(pid: &str, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = text.lines().find(|l| l.split(':').next() == Some(key));
    let line = line.unwrap_or_else(|| panic!("{key} of {pid}: {text}"));
    line.split_once(':').expect("a key").1.trim().to_owned()
}

/// What `/proc/self/fd/FD` leads to.
pub fn fd_path(fd: i64) -> String {
    let link = fs::read_link(format!("/proc/self/fd/{fd}")).expect("a descriptor");
    link.to_string_lossy().into_owned()
}

/// An open descriptor, by the call that is not under test.
pub fn open(path: &str, flags: i32) -> i64 {
    let args = [libc::AT_FDCWD as u64, c_string(path), flags as u64, 0o644];
    raw::must(libc::SYS_openat, &args)
}

/// Checks that are made unless the case is being recorded.
impl Context {
    /// A file's content.
    pub fn has_content(&self, path: &str, content: &[u8]) {
        self.check(|| {
            let found = fs::read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
            let at = found.iter().zip(content).position(|(a, b)| a != b);
            assert!(at.is_none(), "{path} differs at {at:?}");
            assert_eq!(found.len(), content.len(), "length of {path}");
        });
    }

    /// A file's size.
    pub fn has_size(&self, path: &str, size: u64) {
        self.check(|| assert_eq!(fs::metadata(path).expect(path).len(), size, "{path}"));
    }

    /// Nothing is there.
    pub fn is_absent(&self, path: &str) {
        self.check(|| assert!(fs::symlink_metadata(path).is_err(), "{path} is there"));
    }

    /// Type and permission bits of the name itself.
    pub fn has_mode(&self, path: &str, mode: u32) {
        self.check(|| {
            let found = fs::symlink_metadata(path).expect(path).mode();
            assert_eq!(found, mode, "{path}: {found:o}, not {mode:o}");
        });
    }

    /// The descriptor leads to this name of the working directory, at this offset.
    pub fn fd_is(&self, fd: i64, name: &str, offset: u64) {
        self.check(|| {
            let here = std::env::current_dir().expect("a working directory");
            assert_eq!(fd_path(fd), here.join(name).to_string_lossy());
            self.fd_at(fd, offset);
        });
    }

    /// The descriptor's offset.
    pub fn fd_at(&self, fd: i64, offset: u64) {
        self.check(|| assert_eq!(fd_info(fd, "pos"), offset.to_string(), "offset of {fd}"));
    }

    /// Bits among the descriptor's flags.
    pub fn fd_has(&self, fd: i64, bits: i32, mask: i32) {
        self.check(|| {
            let flags = i64::from_str_radix(&fd_info(fd, "flags"), 8).expect("octal");
            assert_eq!(flags & i64::from(mask), i64::from(bits), "flags of {fd}: {flags:o}");
        });
    }

    /// The descriptor leads to something whose name in `/proc` begins so.
    pub fn fd_named(&self, fd: i64, prefix: &str) {
        self.check(|| assert!(fd_path(fd).starts_with(prefix), "{}", fd_path(fd)));
    }
}

/// Device and inode of the name itself.
pub fn identity(path: &str) -> (u64, u64) {
    let stat = fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    (stat.dev(), stat.ino())
}
