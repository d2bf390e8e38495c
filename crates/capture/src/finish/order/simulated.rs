//! What simulations of overlapping calls have in common: the calls as they would be recorded, put into order.

use reprise_initial::{Links, Seen, World};

use super::super::decode::Pending;
use super::super::window::Window;
use super::super::window_tests::item;
use super::{Reaches, Teller};

/// Where all of them begin.
pub const TOP: &str = "/top";

/// A call that was simulated.
pub trait Simulated: Clone {
    /// As it would be recorded.
    fn pending(&self) -> Pending;

    /// When it was over.
    fn end_ns(&self) -> u64;
}

/// The calls, given as they were over, in the order that is found.
pub fn ordered<C: Simulated>(calls: &[C]) -> Vec<C> {
    let mut world = World::new(Box::new(Links::default()));
    let seat = world.begin(1, Some(TOP.as_bytes()));
    let (mut teller, mut window, mut out) = (Teller::default(), Window::default(), Vec::new());
    let mut reaches = Reaches::default();
    for call in calls {
        let (pending, end_ns) = (call.pending(), call.end_ns());
        let times = [end_ns, pending.action.begin_ns, end_ns];
        window.push(item(pending.tid, times, reaches.of(&pending), call.clone()));
    }
    while let Some(placed) = window.pop(true, &mut |call| teller.told(&mut world, seat, &|_| None, &call.pending())) {
        let pending = placed.what.pending();
        let (call, result, decoded) = (pending.call, pending.action.result, pending.decoded());
        world.observe(&Seen { seat, call, decoded: &decoded, result });
        out.push(placed.what);
    }
    out
}
