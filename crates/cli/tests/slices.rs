//! Slices and trees as of any moment, of real programs: what a replay leaves behind is the oracle of what the model says.

mod means;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use means::{Said, has, mkdir, record, run};
use reprise_calls::brought::{brings, stand_in};
use reprise_testkit::program;
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::{again, skip, tree};
use reprise_trace::{Process, TraceReader};
use serde_json::Value;

/// The moment when so many tenths of the actions were over. A machine that stood still for a while leaves parts of the time empty.
fn part(actions: u64, tenths: u64) -> String {
    format!("action:{}", actions * tenths / 10)
}

/// A recorded program, its working directory as it left it, and the directory for all that is made of it.
struct Recorded {
    scratch: Scratch,
    name: String,
    work: PathBuf,
}

impl Recorded {
    fn script(script: &str) -> Recorded {
        let scratch = Scratch::new();
        let work = scratch.path().join("work");
        std::fs::create_dir(&work).unwrap();
        record(scratch.path(), "t.reprise", &format!("cd work\n{script}"));
        Recorded { scratch, name: "t.reprise".into(), work }
    }

    fn random(seed: u64) -> Recorded {
        let generator = program::sibling("random-program").expect("a test in a target directory");
        let scratch = Scratch::new();
        let work = scratch.path().join("work");
        let place = work.join("1/2/tree");
        let seed = seed.to_string();
        program::succeed(Command::new(&generator).args(["--prepare", &seed]).arg(&place));
        let texts = [&work, &generator, &place].map(|p| p.to_str().expect("UTF-8").to_owned());
        // Which of overlapping calls came first is known for certain.
        let options = ["record", "-q", "--backend", "ptrace", "-o", "t.reprise", "--tree", &texts[0], "--"];
        run(scratch.path(), &[&options[..], &[&texts[1], &seed, &texts[2]]].concat()).ends(0);
        Recorded { scratch, name: "t.reprise".into(), work }
    }

    /// Threads and processes that share tables or directories, each in its way (`tests/programs/kin.c`).
    fn kin(rounds: u32) -> Recorded {
        let scratch = Scratch::new();
        let work = mkdir(scratch.path(), "work");
        program::built("kin", scratch.path());
        let rounds = rounds.to_string();
        run(scratch.path(), &["record", "-q", "-o", "t.reprise", "--", "./kin", &work, "threads", &rounds]).ends(0);
        Recorded { name: "t.reprise".into(), work: work.into(), scratch }
    }

    fn dir(&self) -> &Path {
        self.scratch.path()
    }

    fn actions(&self) -> u64 {
        self.run(&["info", "--json", &self.name]).json()["actions"].as_u64().expect("a number")
    }

    fn run(&self, args: &[&str]) -> Said {
        run(self.dir(), args)
    }

    /// Cuts a slice; what was said of it.
    fn slice(&self, name: &str, args: &[&str]) -> Value {
        let words = [&["slice", &self.name, "-o", name, "-q", "--json"], args].concat();
        self.run(&words).ends(0).json()
    }

    /// Replays a trace, which must go well; the target.
    fn replay(&self, trace: &str) -> PathBuf {
        let target = format!("{trace}.target");
        mkdir(self.dir(), &target);
        let said = self.run(&["replay", trace, "--target", &target, "-q", "--json"]);
        let result = said.json();
        assert_eq!((&result["diverged"], said.code), (&Value::from(0), Some(0)), "{trace}: {said:#?}");
        assert_eq!(result["actions"], result["planned"], "{trace}: {said:#?}");
        self.run(&["verify", "--tree", trace, &target]).ends(0);
        self.dir().join(target)
    }

    /// The program's own part of a replayed or extracted tree.
    fn walk(&self, root: &Path) -> BTreeMap<PathBuf, tree::Node> {
        let there = root.join(self.work.strip_prefix("/").expect("an absolute path"));
        if there.exists() { tree::walk(&there) } else { BTreeMap::new() }
    }

    #[track_caller]
    fn same(&self, expected: &Path, found: &Path, what: &str) {
        let differences = tree::differences(&self.walk(expected), &self.walk(found));
        assert!(differences.is_empty(), "{what} ({}): {differences:#?}", self.dir().display());
    }

    /// Cuts in two: each half replays, and leaves or finds the same tree at the cut.
    fn cut(&self, at: u64, whole: &Path) {
        let moment = format!("action:{at}");
        let [before, after, extracted] = ["a", "b", "x"].map(|part| format!("{}.{at}.{part}", self.name));
        self.slice(&before, &["--to", &moment]);
        let left = self.replay(&before);
        mkdir(self.dir(), &extracted);
        self.run(&["tree", &self.name, "--at", &moment, "--extract", &extracted, "-q"]).ends(0);
        self.same(&left, &self.dir().join(extracted), &format!("the tree at {at}"));
        self.slice(&after, &["--from", &moment]);
        let right = self.replay(&after);
        self.same(whole, &right, &format!("the final tree, from {at}"));
    }

    /// Cuts at so many places, evenly.
    fn cuts(&self, count: u64) {
        let whole = self.replay(&self.name);
        let expected = tree::walk(&self.work);
        let differences = tree::differences(&expected, &self.walk(&whole));
        assert!(differences.is_empty(), "the whole: {differences:#?}");
        let actions = self.actions();
        (1..=count).map(|i| actions * i / (count + 1)).for_each(|at| self.cut(at, &whole));
    }
}

const PIPELINE: &str = "
umask 027
echo one > a; mkdir d; echo two > d/b; chmod 640 d/b
(cd d; cat ../a | sort | tee c > e; echo in-sub >> ../a) &
exec 5<>f 6>>log; echo hello >&5; rm f
wait
cat d/b >&5
for i in 1 2 3; do echo $i >> a; echo $i >&6; done
mv d/b d/z; ln a d/hard; ln -s z d/soft
( while read x; do echo $x; done ) < a > g
(echo x >&6; echo y >&6); echo z >&6
rm -r d; exec 6>&-
";

#[test]
fn a_pipeline_is_cut_anywhere() {
    Recorded::script(PIPELINE).cuts(12);
}

#[test]
fn random_programs_are_cut_anywhere() {
    if !is_root() {
        return skip("slices of random programs", "their trees have foreign owners");
    }
    let seeds = match std::env::var("REPRISE_SEEDS").ok().and_then(|s| {
        let (from, to) = s.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    }) {
        Some(seeds) => seeds,
        None => 1..7,
    };
    for seed in seeds {
        println!("seed {seed}");
        // Each recording is another one; a rare one cannot be replayed exactly, as a whole or in part (`random_programs`).
        again::until_well(|| Recorded::random(seed).cuts(3));
    }
}

#[test]
fn what_is_shared_is_shared_behind_a_cut() {
    if !has("cc") {
        return skip("slices of threads that share", "there is no C compiler (cc)");
    }
    let recorded = Recorded::kin(3);
    recorded.cuts(9);
    // All six act behind a cut among the turns: two processes, and the four that are one's threads or copies of its table.
    // Counted from the end (a round is some 70 actions), since the beginning depends on where the loader has to look.
    recorded.slice("half", &["--from", &format!("action:{}", recorded.actions() - 100)]);
    let half = TraceReader::open(&recorded.dir().join("half")).unwrap();
    let rows = half.processes().unwrap();
    let of = |column: fn(&Process) -> Option<u32>| rows.iter().map(column).collect::<Vec<_>>();
    assert_eq!(of(|p| p.directories_of).iter().flatten().count(), 2, "main, places, walker: {rows:#?}");
    assert_eq!(of(|p| p.descriptors_of).iter().flatten().count(), 3, "main, numbers, holder; walker, guest: {rows:#?}");
    // What is shared is one thing in each half of the half as well.
    let of_half = Recorded { name: "half".into(), ..recorded };
    let whole = of_half.replay("half");
    of_half.cut(of_half.actions() / 2, &whole);
}

/// What was mapped before a cut is mapped behind it (`tests/programs/holds.c`).
#[test]
fn what_is_mapped_is_mapped_behind_a_cut() {
    if !has("cc") {
        return skip("slices of programs that hold mappings", "there is no C compiler (cc)");
    }
    let scratch = Scratch::new();
    let work = mkdir(scratch.path(), "work");
    program::built("holds", scratch.path());
    record(scratch.path(), "t.reprise", &format!("seq 6 | ./holds {work} >/dev/null"));
    let recorded = Recorded { name: "t.reprise".into(), work: work.into(), scratch };
    recorded.cuts(9);
    // In the last rounds; counted from the end, since the beginning depends on where the loader has to look.
    recorded.slice("end", &["--from", &format!("action:{}", recorded.actions() - 200)]);
    mkdir(recorded.dir(), "there");
    let result = recorded.run(&["replay", "end", "--target", "there", "-q", "--json"]).ends(0).json();
    assert_eq!(result["skipped"], 0, "{result:#?}");
    let end = TraceReader::open(&recorded.dir().join("end")).unwrap();
    // Five files as a whole, one of them memory, and 96 pages by themselves, of two processes.
    let shared = end.mappings().unwrap().iter().filter(|m| m.flags == 1).count();
    assert_eq!(shared, 202, "{:#?}", end.mappings().unwrap());
}

/// What was made in memory is so behind a cut, too, and is sealed as it was.
#[test]
fn files_in_memory_are_sealed_behind_a_cut() {
    const PROGRAM: &str = "
import fcntl, mmap, os
FUTURE_WRITE = 16
WRITTEN = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
def made(name, flags):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | flags)
    os.write(fd, name.encode() * 1000)
    return fd
def refused(call, *given):
    try:
        call(*given)
        assert False
    except PermissionError:
        pass
sealed, mapped = (made(name, os.MFD_ALLOW_SEALING) for name in ('sealed', 'mapped'))
free, never = made('free', os.MFD_ALLOW_SEALING), made('never', 0)
stores = mmap.mmap(mapped, 4096)
for fd, seals in ((sealed, WRITTEN), (mapped, FUTURE_WRITE)):
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
for turn in range(30):
    refused(os.write, sealed, b'x')
    refused(os.pwrite, mapped, b'x', 0)
    refused(os.ftruncate, sealed, turn)
    stores[turn] = turn
    os.pwrite(free, b'here', turn)
    told = [fcntl.fcntl(fd, fcntl.F_GET_SEALS) for fd in (sealed, mapped, free, never)]
    assert told == [WRITTEN, FUTURE_WRITE, 0, fcntl.F_SEAL_SEAL]
    assert os.pread(sealed, 6, 600) == b'sealed'
    with open('out', 'ab') as out:
        out.write(os.pread(mapped, 40, 0) + os.pread(free, 40, 0))
fcntl.fcntl(free, fcntl.F_ADD_SEALS, WRITTEN)
refused(os.write, free, b'x')
";
    if !has("/usr/bin/python3") {
        return skip("slices of programs that seal files", "there is no /usr/bin/python3");
    }
    Recorded::script(&format!("cat > ../p.py << 'END'\n{PROGRAM}END\n/usr/bin/python3 -S -E -B ../p.py")).cuts(7);
}

/// What stands for file systems that the program mounted does so in a slice, too, whichever of the calls are in it.
#[test]
fn what_was_mounted_has_its_place_behind_a_cut() {
    if !has("python3") {
        return skip("slices of programs that mount", "there is no python3");
    }
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs/corners.py");
    let recorded = Recorded::script(&format!("python3 {SCRIPT} brought"));
    let trace = TraceReader::open(&recorded.dir().join(&recorded.name)).unwrap();
    let actions = trace.actions().map(|action| action.expect("an action"));
    let brought: Vec<u64> = actions
        .filter(|a| reprise_calls::by_name(&a.call).is_some_and(|c| brings(c, &a.args)))
        .map(|a| a.seq)
        .collect();
    let &[_, first, _, last] = &brought[..] else {
        return skip("slices of programs that mount", "mounting is not permitted");
    };
    for (name, from, there) in
        [("first", first, [(1, "d/e/x"), (2, "bound"), (3, "d")].as_slice()), ("last", last, &[(1, "d")])]
    {
        recorded.slice(name, &["--from", &format!("action:{from}")]);
        let target = recorded.replay(name);
        for (number, path) in there {
            let stands = target.join(String::from_utf8(stand_in(*number)).unwrap());
            assert!(stands.join(path).exists(), "{name}: {}", stands.display());
        }
        assert_eq!(target.join(String::from_utf8(stand_in(2)).unwrap()).exists(), name == "first");
    }
    // What a path below the place needs is there, wherever it was.
    recorded.slice("path", &["--path", &recorded.work.join("n").display().to_string()]);
    recorded.replay("path");
}

const SQL: &str = "
sqlite3 db 'create table t(a,b); insert into t values(1,zeroblob(9000));'
sqlite3 db 'pragma journal_mode=wal; insert into t values(2,zeroblob(90000)); select count(*) from t;' > out
sqlite3 db 'begin; update t set a=a+1; commit; delete from t where a=2; vacuum;'
";

#[test]
fn sqlite_is_cut_anywhere() {
    if !has("sqlite3") {
        return skip("slices of sqlite", "there is no sqlite3");
    }
    Recorded::script(SQL).cuts(8);
}

#[test]
fn what_is_chosen_replays_with_what_it_depends_on() {
    let recorded = Recorded::script(PIPELINE);
    let all = recorded.actions();
    let mut supporting = 0;
    for process in 0..8 {
        let name = format!("p{process}");
        let said = recorded.slice(&name, &["--process", &process.to_string()]);
        let (kept, support) = (said["actions"].as_u64().unwrap(), said["supporting"].as_u64().unwrap());
        assert!(kept < all && kept > support, "{said}");
        supporting += support;
        recorded.replay(&name);
    }
    assert!(supporting > 0, "processes that share files depend on each other");
    let place = recorded.work.join("d");
    for (name, path) in [("d", place.as_path()), ("a", &recorded.work.join("a")), ("w", &recorded.work)] {
        let said = recorded.slice(name, &["--path", path.to_str().unwrap()]);
        assert!(said["actions"].as_u64().unwrap() < all, "{said}");
        recorded.replay(name);
    }
    recorded.slice("c", &["--call", "openat,rename", "--from", &part(all, 3)]);
    recorded.replay("c");
    recorded.run(&["info", "d"]).ends(0);
}

#[test]
fn strictly_chosen_actions_miss_what_others_did() {
    let script = "
echo 1 > f
(echo two > f; mkdir d) & wait
read x < f; [ $x = two ] && rmdir d && sh -c 'echo $0' done
";
    let recorded = Recorded::script(script);
    let whole = recorded.slice("all", &["--process", "0"]);
    let strict = recorded.slice("strict", &["--process", "0", "--strict"]);
    let missing = strict["missing"].as_u64().unwrap();
    assert!(missing > 0 && whole["supporting"].as_u64() > strict["supporting"].as_u64(), "{whole} {strict}");
    recorded.replay("all");
    mkdir(recorded.dir(), "t");
    recorded.run(&["replay", "strict", "--target", "t", "-q"]).ends(1);
}

#[test]
fn a_slice_is_a_trace_that_says_of_what() {
    let recorded = Recorded::script(PIPELINE);
    let id = recorded.run(&["info", "--json", "t.reprise"]).json()["id"].clone();
    let actions = recorded.actions();
    recorded.slice("half", &["--from", &part(actions, 2), "--to", &part(actions, 8)]);
    let info = recorded.run(&["info", "--json", "half"]).json();
    assert_eq!(info["facts"]["slice_of"], id, "{info:#}");
    recorded.run(&["info", "--check", "half"]).ends(0);
    // A slice of a slice is the same part, told from its own beginning.
    let middle = part(info["actions"].as_u64().unwrap(), 5);
    let said = recorded.run(&["slice", "half", "-o", "quarter", "--from", &middle, "-q", "--json"]).ends(0).json();
    assert!(said["actions"].as_u64().unwrap() > 0);
    recorded.replay("quarter");
}

#[test]
fn trees_are_printed() {
    let recorded = Recorded::script("umask 022; echo hello > f; mkdir d; ln f d/g; ln -s nowhere d/l");
    let place = recorded.work.to_str().unwrap().to_owned();
    let said = recorded.run(&["tree", "t.reprise", "--path", &place, "--json", "-q"]);
    let rows: Vec<Value> = said.ends(0).out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let names: Vec<&str> = rows.iter().map(|r| r["path"].as_str().unwrap().strip_prefix(&place).unwrap()).collect();
    assert_eq!(names, ["", "/d", "/d/g", "/d/l", "/f"]);
    assert_eq!(
        (&rows[2]["blake3"], &rows[2]["mode"]),
        (&blake3::hash(b"hello\n").to_hex().as_str().into(), &"0644".into())
    );
    assert_eq!((&rows[3]["type"], &rows[3]["target"]), (&"symlink".into(), &"nowhere".into()));
    assert_eq!(rows[4]["link_of"], rows[2]["path"]);
    let early = recorded.run(&["tree", "t.reprise", "--at", "begin", "--path", &place, "-q"]);
    assert_eq!(early.ends(0).out.lines().count(), 1);
    let long = recorded.run(&["tree", "t.reprise", "--long", "-q"]);
    assert!(long.ends(0).out.contains(" -> nowhere") && long.out.contains("-rw-r--r--"), "{long:#?}");
}

#[test]
fn what_cannot_be_cut_is_said() {
    let recorded = Recorded::script("echo x > f");
    for (args, words) in [
        (&["--from", "1h"][..], &["beyond the trace"][..]),
        (&["--from", "action:99999999"], &["beyond the trace", "actions"]),
        (&["--from", "50%", "--to", "50%"], &["nothing lies between"]),
        (&["--from", "80%", "--to", "20%"], &["nothing lies between"]),
        (&["--thread", "77"], &["no thread 77"]),
        (&["--process", "pid:1"], &["no process pid:1"]),
        (&["--path", "/no/such/place"], &["was chosen by --path /no/such/place"]),
        (&["--path", "relative"], &["no absolute path"]),
        (&["--call", "frobnicate"], &["frobnicate"]),
    ] {
        let words_of = [&["slice", "t.reprise", "-o", "x", "-q"], args].concat();
        recorded.run(&words_of).fails(2, words);
        assert!(!recorded.dir().join("x").exists(), "{args:?}");
    }
    recorded.run(&["slice", "t.reprise", "-o", "x", "--from", "noon"]).ends(2);
    recorded.run(&["slice", "t.reprise", "-o", "t.reprise"]).fails(2, &["t.reprise"]);
    recorded.run(&["tree", "t.reprise", "--at", "1h"]).fails(2, &["beyond the trace"]);
    recorded.run(&["tree", "nothing"]).fails(3, &["nothing"]);
    recorded.run(&["tree", "t.reprise", "--extract", "."]).fails(5, &["not empty"]);
}

/// Access lists give modes, and those that a directory has for what is made in it take the place of the mask.
#[test]
fn access_lists_make_modes() {
    const LISTED: &str = "
        echo listed > a; chmod 600 a; cp -p a b
        mkdir d; setfacl -d -m u::7,g::5,o::5 d
        (umask 077; mkdir d/x; echo in > d/x/f; ln -s f d/x/l)
        setfacl -m u:65534:rwx a; chmod 640 a; echo more > c; setfacl -m u::rw,g::rw,o::- c
        mkdir e; setfacl -d -m u::rwx,u:65534:rx,g::rx,o::rx e; (umask 0; mkdir e/y; : > e/y/f); chmod 750 e/y; setfacl -k e
        umask 027; : > e/g; echo done";
    if !has("setfacl") {
        return skip("access_lists_make_modes", "no setfacl");
    }
    let place = Scratch::new();
    std::fs::write(place.path().join("f"), "").unwrap();
    if !Command::new("setfacl").args(["-m", "u:65534:r"]).arg(place.path().join("f")).status().unwrap().success() {
        return skip("access_lists_make_modes", "no access lists here");
    }
    let recorded = Recorded::script(LISTED);
    let modes = |work: &Path| {
        let below = ["a", "b", "c", "d", "d/x", "d/x/f", "e", "e/y", "e/y/f", "e/g"];
        let mode = |name: &&str| work.join(name).symlink_metadata().unwrap().mode();
        below.map(|name| format!("{name} {:o}", mode(&name))).join(" ")
    };
    let wanted = modes(&recorded.work);
    assert!(wanted.contains("d/x 40755 d/x/f 100644"), "{wanted}");
    let target = mkdir(recorded.dir(), "target");
    recorded.run(&["replay", "t.reprise", "--target", "target", "-q"]).ends(0);
    recorded.run(&["verify", "--tree", "t.reprise", "target"]).ends(0);
    let there = |target: &str| recorded.dir().join(target).join(recorded.work.strip_prefix("/").unwrap());
    assert_eq!(modes(&there(&target)), wanted);
    // Lists that say the same of the mode are told apart all the same.
    for (option, list, file) in [("-k", "", "d"), ("-x", "u:65534", "e/y/f")] {
        let mut change = Command::new("setfacl");
        change.arg(option).args(Some(list).filter(|list| !list.is_empty())).arg(there(&target).join(file));
        assert!(change.status().unwrap().success());
    }
    let said = recorded.run(&["verify", "--tree", "t.reprise", "target", "--json"]);
    assert_eq!(said.ends(1).json()["diverged"], 2, "{said:#?}");
    // A slice of nothing has the tree that was there in the end; lists, too.
    mkdir(recorded.dir(), "extracted");
    recorded.run(&["tree", "t.reprise", "--at", &part(recorded.actions(), 10), "--extract", "extracted"]).ends(0);
    assert_eq!(modes(&there("extracted")), wanted);
    let lists = |work: &Path| {
        let output = Command::new("getfacl").args(["-R", "-n", "."]).current_dir(work).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(lists(&there("extracted")), lists(&recorded.work));
}
