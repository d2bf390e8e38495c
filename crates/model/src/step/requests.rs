//! Calls that submit asynchronous requests, and fetch their completions.

use reprise_calls::ArgKind;
use reprise_trace::payload::{Side, split, vector_lengths};

use super::Step;
use crate::touch::Resource;
use crate::world::World;

impl World {
    pub(super) fn asynchronous(&mut self, s: &mut Step<'_>) {
        self.use_descriptors(s);
        let numbers = |kind: ArgKind, side: Side, bytes: &[u8]| {
            let part = s.call.position(|k| k == kind).and_then(|i| split(s.call, side, bytes)[i]);
            part.map(vector_lengths).unwrap_or_default()
        };
        let submitted = numbers(ArgKind::Submits, Side::Input, &s.action.input);
        let reaped = numbers(ArgKind::Reaps, Side::Output, &s.action.output);
        submitted.into_iter().for_each(|request| s.out.create(Resource::Request(request)));
        reaped.into_iter().for_each(|request| s.out.look(Resource::Request(request)));
    }
}
