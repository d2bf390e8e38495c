//! Wrong rows, for seeing that a case notices.

use reprise_calls::{Arg, ArgKind, Call, Struct};

/// The row with argument `at` and the next exchanged, and all references to them.
pub(super) fn exchanged(row: &Call, at: usize) -> &'static Call {
    let moved = |of: u8| match usize::from(of) {
        i if i == at => of + 1,
        i if i == at + 1 => of - 1,
        _ => of,
    };
    let mut args: Vec<Arg> = row.args.to_vec();
    args.swap(at, at + 1);
    for arg in &mut args {
        arg.kind = match arg.kind {
            ArgKind::InData(of) => ArgKind::InData(moved(of)),
            ArgKind::OutData(of) => ArgKind::OutData(moved(of)),
            ArgKind::InVector(of) => ArgKind::InVector(moved(of)),
            ArgKind::OutVector(of) => ArgKind::OutVector(moved(of)),
            ArgKind::In(Struct::Sized(of)) => ArgKind::In(Struct::Sized(moved(of))),
            ArgKind::InOut(Struct::CloneArgs(of)) => ArgKind::InOut(Struct::CloneArgs(moved(of))),
            ArgKind::In(Struct::Messages(of)) => ArgKind::In(Struct::Messages(moved(of))),
            ArgKind::Out(Struct::Messages(of)) => ArgKind::Out(Struct::Messages(moved(of))),
            ArgKind::In(Struct::Words(of)) => ArgKind::In(Struct::Words(moved(of))),
            other => other,
        };
    }
    Box::leak(Box::new(Call { args: Box::leak(args.into_boxed_slice()), ..*row }))
}
