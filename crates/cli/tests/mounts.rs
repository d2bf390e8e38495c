//! File systems that the recorded program mounts: files that they hold already, the same one mounted twice, and layers.

mod means;

use std::path::Path;
use std::process::Command;

use means::{has, in_kernel, mkdir, run};
use reprise_testkit::program;
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::{skip, tree};
use reprise_trace::{Loss, TraceReader};

const PREPARED: &str = "
truncate -s 8M img; mkdir pre pre/d mnt low up work all
echo preexisting > pre/f; echo deep > pre/d/g; ln -s d/g pre/l; echo two > pre/h; ln pre/h pre/same
mkfs.ext4 -q -F -d pre img; rm -r pre
echo lower > low/a; echo removed > low/b
";

const MOUNTS: &str = "
mount -o loop img mnt
cat mnt/f mnt/l mnt/h > seen; stat -c '%h %s %F' mnt/h mnt/same >> seen; echo more >> mnt/same; cat mnt/h >> seen
echo changed > mnt/f; mkdir mnt/new; echo n > mnt/new/x; mv mnt/d/g mnt/new/g; ls -l mnt > /dev/null
cp mnt/new/g out
umount mnt
ls mnt >> seen
mount -o loop img mnt
cat mnt/f mnt/new/g mnt/new/x >> seen; test -e mnt/d/g || echo moved >> seen
echo more >> mnt/new/x; rm -r mnt/d
umount mnt
mount -t overlay -o lowerdir=low,upperdir=up,workdir=work none all
cat all/a all/b >> seen; echo over > all/a; rm all/b; echo fresh > all/c; ls all >> seen
umount all
mount -t tmpfs -o mode=700 none all; echo t > all/t; cat all/t >> seen; stat -c %a all >> seen; umount all
";

/// What is in a place of a tree.
fn text(place: &Path) -> String {
    std::fs::read_to_string(place).unwrap_or_else(|e| panic!("{}: {e}", place.display()))
}

#[test]
fn what_is_mounted_holds_what_it_held_and_is_written_to() {
    if !is_root() || !["mkfs.ext4", "losetup"].into_iter().all(has) {
        return skip("programs that mount images", "root, mkfs.ext4 and losetup are needed");
    }
    let backends =
        if in_kernel("programs that mount", Scratch::new().path()) { &["ebpf", "ptrace"][..] } else { &["ptrace"] };
    for backend in backends {
        let scratch = Scratch::new();
        let (dir, work) = (scratch.path(), mkdir(scratch.path(), "w"));
        let shell =
            |script: &str| Command::new("sh").args(["-ec", script]).current_dir(&work).status().unwrap().success();
        if !shell(PREPARED) || !shell("mount -o loop img mnt && umount mnt") {
            return skip("programs that mount images", "images cannot be mounted here");
        }
        // Files of the beginning are older than the beginning.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let script = format!("cd {work}; set -e; {MOUNTS}");
        run(dir, &["record", "-q", "--backend", backend, "--tree", &work, "-o", "t", "--", "sh", "-c", &script])
            .ends(0);
        let ledger = TraceReader::open(&dir.join("t")).unwrap().ledger().clone();
        assert_eq!(ledger.total(Loss::Dropped), 0, "{backend}: {ledger:?}");
        let target = dir.join(mkdir(dir, "target"));
        let result = run(dir, &["replay", "t", "-t", "target", "-q", "--json"]).json();
        assert_eq!(result["diverged"], 0, "{backend}: {:#}", result["divergences"]);
        run(dir, &["verify", "--tree", "t", "target"]).ends(0);
        let here = Path::new(&work);
        let there = target.join(here.strip_prefix("/").unwrap());
        // These the kernel writes to by itself.
        program::succeed(
            Command::new("rm")
                .args(["-rf"])
                .args([here, &there].into_iter().flat_map(|root| ["img", "up", "work"].map(|name| root.join(name)))),
        );
        let differences = tree::differences(&tree::walk(here), &tree::walk(&there));
        assert!(differences.is_empty(), "{backend}: {differences:#?}");
        let stands = |number: u32, path: &str| text(&target.join(format!(".reprise-mounted-{number}")).join(path));
        assert_eq!([stands(1, "f"), stands(1, "h"), stands(1, "new/g")], ["changed\n", "two\nmore\n", "deep\n"]);
        assert_eq!((stands(2, "f"), stands(2, "new/x")), ("changed\n".into(), "n\nmore\n".into()), "{backend}");
        assert_eq!((stands(3, "a"), stands(3, "c"), stands(4, "t")), ("over\n".into(), "fresh\n".into(), "t\n".into()));
    }
}
