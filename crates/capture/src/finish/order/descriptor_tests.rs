//! What a process that begins, and a write whose number was closed meanwhile, tell.

use reprise_calls::by_name;
use reprise_initial::{Links, Seat, Seen, World};
use reprise_trace::payload::append;
use reprise_trace::{Action, Name};

use super::super::decode::Pending;
use super::super::queue::Reach;
use super::super::search::{Candidate, States};
use super::super::told::{Change, Found, Told};
use super::{Reaches, Teller};
use crate::spool::record::Object;

const FD: u64 = 4;

fn file(fd: u64, inode: u64, flags: i32) -> Object {
    let mode = libc::S_IFREG | 0o644;
    Object { id: 100 + inode, device: 1, inode, fd: fd as i32, mode, flags: flags as u32, ..Object::default() }
}

fn pending(name: &str, args: [u64; 6], result: i64, objects: Vec<Object>) -> Pending {
    let call = by_name(name).expect("a row");
    Pending {
        action: Action { args, result, begin_ns: 1_000, duration_ns: 1_000_000, ..Action::default() },
        tid: 1,
        objects: objects.into(),
        ..Pending::of_lane(call, 0)
    }
}

struct Order {
    world: World,
    seat: Seat,
    teller: Teller,
    states: States,
}

impl Order {
    fn new() -> Order {
        let mut world = World::new(Box::new(Links::default()));
        let seat = world.begin_with(0, Some(b"/"), Vec::new());
        Order { world, seat, teller: Teller::default(), states: States::default() }
    }

    fn told(&mut self, pending: &Pending) -> Told {
        self.teller.told(&mut self.world, self.seat, &|_| None, pending)
    }

    fn settle(&mut self, pending: Pending) {
        let told = self.told(&pending);
        self.states.settle(&Candidate { tid: 1, begin_ns: 0, end_ns: 1, told: told.into() });
        self.teller.took_place(self.seat, &pending);
    }
}

#[test]
fn a_copy_of_descriptors_tells_who_had_opened_and_closed_by_then() {
    let mut order = Order::new();
    let opens = |fd: u64| pending("dup", [0; 6], fd as i64, vec![file(fd, 1, 0)]);
    order.settle(opens(FD));
    // 0, of which it is a duplicate, is open.
    let copied =
        |order: &Order, open: u64| order.states.permit(&order.teller.born(order.seat, &[open | 1, 0, 0, 0], None));
    assert!(copied(&order, 1 << FD));
    assert!(!copied(&order, 0), "it was open");
    order.settle(pending("close", [FD, 0, 0, 0, 0, 0], 0, vec![]));
    assert!(!copied(&order, 1 << FD), "it was closed");
    assert!(copied(&order, 0));
    order.settle(opens(FD));
    order.settle(pending("close_range", [FD - 1, FD + 1, 0, 0, 0, 0], 0, vec![]));
    assert!(!copied(&order, 1 << FD), "it was closed, with its neighbours");
}

/// It is not in the copy: that is made before.
#[test]
fn a_descriptor_of_the_child_is_its_makers_from_then_on() {
    let mut order = Order::new();
    let mut makes = pending("clone", [0x1000, 0, 0x7f00, 0, 0, 0], 77, vec![]);
    append(&mut makes.action.output, Some(&(FD as u32).to_le_bytes()));
    let born = order.teller.born(order.seat, &[1, 0, 0, 0], Some(&makes));
    let settle = |order: &mut Order, told: Told| {
        order.states.settle(&Candidate { tid: 1, begin_ns: 0, end_ns: 1, told: told.into() })
    };
    order.settle(pending("close", [FD, 0, 0, 0, 0, 0], 0, vec![]));
    assert!(settle(&mut order, born.clone()).is_none(), "its number was free");
    assert!(settle(&mut order, born).is_none(), "what is there now is not known");
    order.settle(pending("dup", [0; 6], FD as i64, vec![file(FD, 1, 0)]));
    let taken = order.teller.born(order.seat, &[1, 0, 0, 0], Some(&makes));
    assert!(settle(&mut order, taken).is_some(), "a file has its number");
}

/// A thread of the kernel's own looks a number up when it begins with a request: others may have used the number anew by then.
#[test]
fn a_request_had_the_file_that_it_says() {
    let mut order = Order::new();
    let request = |inode: u64| {
        let pending = pending("pwrite64", [FD, 0, 100, 0, 0, 0], 100, vec![file(FD, inode, 0)]);
        Pending { action: Action { request: Some(7), ..pending.action }, ..pending }
    };
    let can_be = |order: &mut Order, inode: u64| {
        let told = order.told(&request(inode));
        order.states.permit(&told)
    };
    assert!(can_be(&mut order, 2), "what the number means is not known");
    order.settle(pending("dup", [0; 6], FD as i64, vec![file(FD, 1, 0)]));
    assert_eq!([1, 2].map(|inode| can_be(&mut order, inode)), [true, false]);
    order.settle(pending("close", [FD, 0, 0, 0, 0, 0], 0, vec![]));
    order.settle(pending("dup", [0; 6], FD as i64, vec![file(FD, 2, 0)]));
    assert_eq!([1, 2].map(|inode| can_be(&mut order, inode)), [false, true]);
}

/// The size of a file that a write which waited left: of the file that it was given, not of another that was opened since.
#[test]
fn a_write_whose_number_was_closed_meanwhile_wrote_to_its_file() {
    let mut order = Order::new();
    let (mine, other) = (file(FD, 1, libc::O_APPEND), file(FD, 2, 0));
    order.settle(pending("dup", [0; 6], FD as i64, vec![mine]));
    for seen in [vec![], vec![other]] {
        let told = order.told(&pending("write", [FD, 0, 100, 0, 0, 0], 100, seen));
        let size = |c: &&super::Condition| c.change == Change::More(100) && c.found == Found::Anything;
        assert_eq!(told.all.iter().filter(size).count(), 1, "{told:?}");
    }
    // Nothing of the sort where what was seen is what it had, or where it had no time to wait.
    let at_end = Object { position: 100, size: 100, ..mine };
    let told = order.told(&pending("write", [FD, 0, 100, 0, 0, 0], 100, vec![at_end]));
    assert!(told.all.iter().any(|c| c.change == Change::To(100) && c.found == Found::Exactly(0)), "{told:?}");
    let mut short = pending("write", [FD, 0, 100, 0, 0, 0], 100, vec![Object { position: 100, size: 100, ..other }]);
    short.action.duration_ns = 1_000;
    assert!(order.told(&short).all.iter().any(|c| c.change == Change::UpTo(100)));
}

/// Others see what it wrote long before it returns.
#[test]
fn a_write_that_waits_for_the_device_takes_effect_when_it_begins() {
    let takes_effect = |name: &str, args, flags| {
        let pending = pending(name, args, 100, vec![file(FD, 1, flags)]);
        match super::takes_effect_ns(&pending) {
            at if at == pending.action.begin_ns => "at once",
            at if at == pending.end_ns() => "in the end",
            _ => "in between",
        }
    };
    let plain = [FD, 0, 100, 0, 0, 0];
    assert_eq!(takes_effect("pwrite64", plain, libc::O_WRONLY), "in the end");
    assert_eq!(takes_effect("pwrite64", plain, libc::O_WRONLY | libc::O_DSYNC), "at once");
    assert_eq!(takes_effect("write", plain, libc::O_WRONLY | libc::O_SYNC), "at once");
    assert_eq!(takes_effect("pread64", plain, libc::O_RDWR | libc::O_DSYNC), "in the end");
    // What goes past the page cache is there when the device has it.
    assert_eq!(takes_effect("pwrite64", plain, libc::O_WRONLY | libc::O_DSYNC | libc::O_DIRECT), "in the end");
    for (flags, when) in [(0, "in the end"), (libc::RWF_DSYNC, "at once"), (libc::RWF_SYNC, "at once")] {
        assert_eq!(takes_effect("pwritev2", [FD, 0, 1, 0, 0, flags as u64], libc::O_WRONLY), when);
    }
}

/// The kernel gives the memory of an open file, by which that is known, to the next one.
#[test]
fn what_is_opened_begins_at_0_whatever_had_its_number_before() {
    let mut order = Order::new();
    let at = |position| vec![Object { position, ..file(FD, 1, 0) }];
    let read = |bytes: i64| pending("read", [FD, 0, bytes as u64, 0, 0, 0], bytes, at(bytes));
    order.settle(pending("open", [0; 6], FD as i64, at(0)));
    order.settle(read(56));
    order.settle(pending("close", [FD, 0, 0, 0, 0, 0], 0, Vec::new()));
    order.settle(pending("open", [0; 6], FD as i64, at(0)));
    let told = order.told(&read(42));
    let offset = told.all.iter().find(|c| c.change == Change::More(42)).expect("where it read");
    assert_eq!(order.states.get(offset), Some(0));
}

/// Who ends a number makes those begin elsewhere that come later; who began there before had what it named.
#[test]
fn paths_and_files_begin_at_numbers_that_others_close() {
    let mut order = Order::new();
    let ends = order.told(&pending("close", [FD, 0, 0, 0, 0, 0], 0, Vec::new())).moves;
    let mut below = pending("mkdirat", [FD, 0, 0, 0, 0, 0], 0, Vec::new());
    below.action.path = Some(Name::from(&b"x"[..]));
    let mut elsewhere = pending("mkdirat", [FD, 0, 0, 0, 0, 0], 0, Vec::new());
    elsewhere.action.path = Some(Name::from(&b"/x"[..]));
    let synced = pending("fsync", [FD, 0, 0, 0, 0, 0], 0, Vec::new());
    let mut begins = |pending: &Pending| order.told(pending).begins_at.contains(&ends);
    assert!(ends.is_some() && begins(&below) && begins(&synced) && !begins(&elsewhere));
}

/// What calls tell and change is within what is said of them before they are asked.
#[test]
fn calls_change_no_more_than_they_are_said_to() {
    let mut order = Order::new();
    order.settle(pending("dup", [0; 6], FD as i64, vec![file(FD, 1, 0)]));
    let mut changing = 0;
    for call in reprise_calls::all() {
        for (result, objects) in [1, 0, -9].into_iter().flat_map(|r| [(r, vec![]), (r, vec![file(FD, 1, 0)])]) {
            let mut pending = pending(call.name, [FD, 0, 1, 1, 0, 0], result, objects);
            pending.action.path = call.paths().next().map(|_| Name::from("/a"));
            let told = order.told(&pending);
            let changes = told.all.iter().any(|c| c.change != Change::Nothing);
            assert!(!changes || Reaches::default().of(&pending).changes(), "{}: {told:?}", call.name);
            changing += usize::from(changes);
        }
    }
    assert!(changing > 20, "{changing}");
}

#[test]
fn what_a_call_may_concern() {
    let mut reaches = Reaches::default();
    let mut reach = |name: &str, args: [u64; 3], result: i64, objects: &[Object]| {
        let [a, b, c] = args;
        reaches.of(&pending(name, [a, b, c, 0, 0, 0], result, objects.to_vec()))
    };
    let (open, other) = ([file(FD, 1, 0)], [file(FD, 2, 0)]);
    let (socket, none) = ([Object { mode: libc::S_IFSOCK, ..open[0] }], []);
    let write = reach("pwrite64", [FD, 0, 10], 10, &open);
    assert!(write.changes() && write != Reach::All && write == reach("write", [FD, 0, 10], 10, &open));
    assert_ne!(write, reach("write", [FD, 0, 10], 10, &other), "another file");
    let read = reach("pread64", [FD, 0, 10], 10, &open);
    assert!(!read.changes() && read != Reach::Numbers && read == reach("fsync", [FD, 0, 0], 0, &open));
    assert!(reach("read", [FD, 0, 10], 10, &open) == write && reach("lseek", [FD, 0, 0], 0, &open) == write);
    assert_eq!(reach("recvfrom", [FD, 0, 10], 10, &socket), Reach::Numbers);
    assert_eq!(reach("write", [FD, 0, 10], 10, &socket), Reach::Numbers);
    assert_eq!(reach("openat", [FD, 0, 0], 5, &open), Reach::All);
    // Where a write went whose file is not seen, or whose number was closed meanwhile, is not known.
    assert_eq!(reach("pwrite64", [FD, 0, 10], 10, &none), Reach::All);
    assert_eq!(reach("close", [FD + 1, 0, 0], 0, &none), Reach::All);
    assert_eq!(reach("pwrite64", [FD, 0, 10], 10, &open), write);
    assert_eq!(reach("close", [FD, 0, 0], 0, &none), Reach::All);
    assert_eq!(reach("pwrite64", [FD, 0, 10], 10, &open), Reach::All);
    assert_eq!(reach("pread64", [FD, 0, 10], 10, &open), read);
}

/// Whether a lock of an open file is free is told by the end of its last number, in whatever table that is.
#[test]
fn a_lock_ends_with_the_last_number_of_its_open_file() {
    let mut order = Order::new();
    let whole = |fd: u64, inode: u64| {
        pending("flock", [fd, libc::LOCK_EX as u64, 0, 0, 0, 0], 0, vec![Object { inode: 7, ..file(fd, inode, 0) }])
    };
    let opened =
        |fd: u64, inode: u64| pending("open", [0; 6], fd as i64, vec![Object { inode: 7, ..file(fd, inode, 0) }]);
    let close =
        |fd: u64, inode: u64| pending("close", [fd, 0, 0, 0, 0, 0], 0, vec![Object { inode: 7, ..file(fd, inode, 0) }]);
    let is_free = |order: &mut Order| {
        let told = order.told(&whole(9, 90));
        told.impossible(|condition| condition.known.flatten()).is_none()
    };
    for [ends_with_the_child, runs_another] in [[false, false], [true, false], [true, true]] {
        order.settle(opened(FD, 1));
        order.settle(whole(FD, 1));
        assert!(!is_free(&mut order));
        let child = order.world.fork(order.seat, 0);
        order.teller.forked(order.seat, child);
        if ends_with_the_child {
            order.settle(close(FD, 1));
            assert!(!is_free(&mut order), "the child has it, too");
        }
        if runs_another {
            // Which of its numbers are closed then nobody tells.
            order.teller.took_place(child, &pending("execve", [0; 6], 0, vec![]));
        }
        assert!(order.world.end(child));
        order.teller.ended(child);
        if !ends_with_the_child {
            assert!(!is_free(&mut order), "its maker has it");
            order.settle(close(FD, 1));
        }
        assert!(is_free(&mut order));
    }
}

/// What is moved inside the kernel tells where its source ends, as what is read does.
#[test]
fn what_is_moved_tells_how_much_there_was() {
    const ASKED: u64 = 100;
    let mut order = Order::new();
    let (source, target) = (Object { position: 12, size: 12, ..file(FD, 1, 0) }, file(FD + 1, 2, 0));
    let mut tells = |name, args, result, objects: Vec<Object>, cell: Option<u64>| {
        let mut moves = pending(name, args, result, objects);
        if let Some(at) = cell {
            append(&mut moves.action.input, Some(&at.to_le_bytes()));
        }
        let told = order.told(&moves);
        let size = told.all.iter().find(|c| c.thing == super::content::size_of(&source)).expect("its size");
        let offset = told.all.iter().find(|c| c.thing == super::thing(super::Thing::Offset, source.id, 0));
        (size.found, size.change, offset.map(|c| c.change))
    };
    let both = || vec![target, source];
    let sendfile = [FD + 1, FD, 0, ASKED, 0, 0];
    let (same, more) = (Change::Nothing, |n| Some(Change::More(n)));
    assert_eq!(tells("sendfile", sendfile, 5, both(), None), (Found::Exactly(12), same, more(5)));
    assert_eq!(tells("sendfile", sendfile, 0, both(), None), (Found::AtMost(12), same, more(0)));
    let whole = [FD + 1, FD, 0, 5, 0, 0];
    assert_eq!(tells("sendfile", whole, 5, both(), None), (Found::AtLeast(12), same, more(5)));
    // A pipe may be full.
    let pipe = Object { mode: libc::S_IFIFO, ..target };
    assert_eq!(tells("splice", [FD, 0, FD + 1, 0, ASKED, 0], 5, vec![source, pipe], None).0, Found::AtLeast(12));
    // From where the call says, and not where its file stands.
    let ranges = [FD, 0x7000, FD + 1, 0, ASKED, 0];
    assert_eq!(tells("copy_file_range", ranges, 5, both(), Some(3)), (Found::Exactly(8), same, None));
    let itself = vec![source, Object { inode: 1, ..target }];
    assert_eq!(tells("copy_file_range", ranges, 5, itself, Some(3)).0, Found::Anything);
}

/// What a file without a size gave that the program made was in it before it was emptied; elsewhere the kernel shows its state.
#[test]
fn what_was_read_of_a_file_that_is_empty_by_now_tells_its_size() {
    const FLAGS: u64 = (libc::O_CREAT | libc::O_EXCL) as u64;
    let mut order = Order::new();
    let mut found = |inode| {
        let read = pending("read", [FD, 0, 100, 0, 0, 0], 5, vec![Object { position: 5, ..file(FD, inode, 0) }]);
        let told = order.told(&read);
        let size = told.all.iter().find(|c| c.thing == super::content::size_of(&read.objects[0])).expect("its size");
        if inode == 1 {
            let mut makes = pending("open", [0, FLAGS, 0o644, 0, 0, 0], FD as i64, vec![file(FD, 1, 0)]);
            makes.action.path = Some(Name(b"/made".to_vec()));
            let decoded = makes.decoded();
            order.world.observe(&Seen { seat: order.seat, call: makes.call, decoded: &decoded, result: FD as i64 });
        }
        size.found
    };
    assert_eq!(found(1), Found::Anything, "nothing is known of it");
    assert_eq!(found(1), Found::Exactly(5), "it was made");
    assert_eq!(found(2), Found::Anything);
}
