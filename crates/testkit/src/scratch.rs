//! Scratch directories, and scratch file systems in sparse files on loop devices.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fresh directory, removed with everything in it at the end.
pub struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// Below `TMPDIR`, else below `/var/tmp`, which unlike `/tmp` is rarely in memory.
    pub fn new() -> Scratch {
        let base = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
        Scratch::below(Path::new(&base))
    }

    /// Below this directory.
    pub fn below(base: &Path) -> Scratch {
        let dir = tempfile::Builder::new()
            .prefix("reprise-test-")
            .tempdir_in(base)
            .unwrap_or_else(|e| panic!("{}: {e}", base.display()));
        Scratch { dir }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves it on disk, for looking at after a failure.
    pub fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

/// Kinds of file system that a loop device can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ext4.
    Ext4,
    /// XFS, with reference-linked files. At least 300 MiB.
    Xfs,
    /// Btrfs. At least 110 MiB.
    Btrfs,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Ext4, Kind::Xfs, Kind::Btrfs];

    /// As `mount -t` names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
        }
    }

    /// The smallest size that every `mkfs` of it accepts, in bytes.
    pub fn least_bytes(self) -> u64 {
        match self {
            Kind::Ext4 => 8 << 20,
            Kind::Xfs => 320 << 20,
            Kind::Btrfs => 128 << 20,
        }
    }

    fn make(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Kind::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            Kind::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Kind::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fresh file system on a loop device, unmounted and removed at the end.
pub struct LoopFs {
    scratch: Scratch,
    mounted: bool,
}

impl LoopFs {
    /// Makes and mounts one of this size; the error is the reason to [`crate::skip`] the test for.
    pub fn new(kind: Kind, bytes: u64) -> Result<LoopFs, String> {
        LoopFs::with_options(kind, bytes, "")
    }

    /// The same, with mount options (`ro` is possible with [`LoopFs::remount`] only, after filling it).
    pub fn with_options(kind: Kind, bytes: u64, options: &str) -> Result<LoopFs, String> {
        let scratch = Scratch::new();
        let image = scratch.path().join("image");
        let made = File::create(&image).and_then(|file| file.set_len(bytes));
        made.map_err(|e| format!("{}: {e}", image.display()))?;
        let mut fs = LoopFs { scratch, mounted: false };
        let (program, flags) = kind.make();
        run(Command::new(program).args(flags).arg(&image))?;
        let dir = fs.scratch.path().join("fs");
        std::fs::create_dir(&dir).map_err(|e| e.to_string())?;
        let options = ["loop", options].join(",");
        run(Command::new("mount").args(["-t", kind.name(), "-o", options.trim_end_matches(',')]).args([&image, &dir]))?;
        fs.mounted = true;
        Ok(fs)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.scratch.path().join("fs")
    }

    /// Changes mount options, as `remount,ro`.
    pub fn remount(&self, options: &str) -> Result<(), String> {
        let options = format!("remount,{options}");
        run(Command::new("mount").args(["-o", &options]).arg(self.path()))
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        if !self.mounted {
            return;
        }
        // Another process that forks may hold a descriptor for a moment; after that, let go of it lazily.
        for attempt in 0..10 {
            if run(Command::new("umount").arg(self.path())).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20 << attempt.min(4)));
        }
        if let Err(e) = run(Command::new("umount").arg("-l").arg(self.path())) {
            eprintln!("testkit: {e}");
        }
    }
}

/// Runs a command to its end; the error names it and what it said.
pub fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{program} cannot be run: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {}, {}", output.status, said.trim()))
}

/// Whether the test runs as root.
pub fn is_root() -> bool {
    crate::raw::sys(libc::SYS_geteuid, &[]) == 0
}
