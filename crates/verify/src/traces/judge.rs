//! One action and its replay: what of it is the same.
//!
//! Goals: like compared with like, by the check that the call's row asks for, from the two rows alone. Non-goals: what the
//! replay says of itself, excuses.

use reprise_calls::{Call, Check, Effect, Returns, errno_name};
use reprise_trace::payload::{Side, split};
use reprise_trace::{Action, ReadError};

use super::contents::{Contents, content, names};
use super::metadata::{Attributes, Field};

/// What differs; the order is the severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Missing,
    Outcome,
    Content,
    Listing,
    Metadata,
    Value,
    Links,
    Owner,
    Names,
    Lock,
    Noted,
    Extra,
}

/// A difference.
#[derive(Debug)]
pub(super) struct Difference {
    pub kind: Kind,
    /// In words without values.
    pub cause: String,
    /// With both values.
    pub text: String,
    /// What names the machine's own devices; for excuses.
    pub device: bool,
}

/// The opinion on one action.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub difference: Option<Difference>,
    /// What differs and is the machine's own.
    pub own: Vec<&'static str>,
    /// Why something could not be compared.
    pub uncompared: Option<&'static str>,
}

impl Verdict {
    pub fn differs(kind: Kind, cause: impl Into<String>, text: impl Into<String>) -> Verdict {
        let difference = Difference { kind, cause: cause.into(), text: text.into(), device: false };
        Verdict { difference: Some(difference), ..Verdict::default() }
    }

    pub fn uncompared(why: &'static str) -> Verdict {
        Verdict { uncompared: Some(why), ..Verdict::default() }
    }
}

/// A result in words: a number, or the name of an error.
pub(super) fn result_text(result: i64) -> String {
    if !(-4095..0).contains(&result) {
        return result.to_string();
    }
    let known = i32::try_from(-result).ok().and_then(errno_name);
    known.map_or_else(|| format!("error {}", -result), str::to_owned)
}

/// Success, or the same error.
pub(super) fn outcome(found: i64, wanted: i64) -> Option<Verdict> {
    if found >= 0 && wanted >= 0 || found == wanted {
        return None;
    }
    let word = |r: i64| {
        if r >= 0 { "success".to_owned() } else { result_text(r) }
    };
    let text = format!("returned {}, traced {}", result_text(found), result_text(wanted));
    Some(Verdict::differs(Kind::Outcome, format!("{} instead of {}", word(found), word(wanted)), text))
}

/// Compares an action that was issued. Listings are compared as far as their outcome goes: see `Listings`.
pub(super) fn judge(
    call: &Call,
    wanted: &Action,
    found: &Action,
    contents: &mut Contents,
) -> Result<Verdict, ReadError> {
    if call.check == Check::Nothing {
        return Ok(Verdict::default());
    }
    if let Some(verdict) = outcome(found.result, wanted.result) {
        return Ok(verdict);
    }
    if wanted.result < 0 {
        return Ok(Verdict::default());
    }
    Ok(match call.check {
        Check::Nothing | Check::Outcome | Check::Listing => Verdict::default(),
        Check::Value => value(call, wanted, found),
        Check::Content => match value(call, wanted, found) {
            Verdict { difference: None, .. } => content(wanted, found, contents)?,
            differs => differs,
        },
        Check::Metadata => metadata(call, wanted, found),
        Check::Names => names(wanted, found, contents)?,
    })
}

fn value(call: &Call, wanted: &Action, found: &Action) -> Verdict {
    if call.effect == Effect::Control {
        match wanted.args[1] & 0xffff_ffff {
            // F_DUPFD, F_DUPFD_CLOEXEC; F_GETOWN, F_GETSIG, F_GETOWN_EX: numbers of this machine.
            0 | 1030 | 9 | 11 | 16 => return Verdict::default(),
            // F_GETLK, F_OFD_GETLK.
            5 | 36 => return lock(call, wanted, found),
            _ => {}
        }
    }
    let compared = match call.returns {
        Returns::Zero | Returns::Count | Returns::Offset | Returns::Value => true,
        Returns::Fd | Returns::Address | Returns::Process | Returns::Never => false,
    };
    if !compared || found.result == wanted.result {
        return Verdict::default();
    }
    let cause = match call.returns {
        Returns::Count if found.result < wanted.result => "fewer bytes",
        Returns::Count => "more bytes",
        Returns::Offset => "another position",
        _ => "another result",
    };
    Verdict::differs(Kind::Value, cause, format!("returned {}, traced {}", found.result, wanted.result))
}

fn lock(call: &Call, wanted: &Action, found: &Action) -> Verdict {
    const UNLOCKED: [u8; 2] = (libc::F_UNLCK as u16).to_le_bytes();
    let structure = |a: &Action| split(call, Side::Output, &a.output)[2].map(<[u8]>::to_vec);
    let Some(a) = structure(wanted) else {
        return Verdict::default();
    };
    let Some(b) = structure(found) else {
        return Verdict::uncompared("locks are not in the replay's trace");
    };
    // Type, whence, start and length; where nothing is in the way only the type is filled in.
    if a.get(..2) == b.get(..2) && (a.starts_with(&UNLOCKED) || a.get(..24) == b.get(..24)) {
        let holder = if a.get(24..28) == b.get(24..28) { vec![] } else { vec!["process numbers"] };
        return Verdict { own: holder, ..Verdict::default() };
    }
    Verdict::differs(Kind::Lock, "another lock in the way", "another lock in the way")
}

fn metadata(call: &Call, wanted: &Action, found: &Action) -> Verdict {
    let structure = |a: &Action| {
        let output = split(call, Side::Output, &a.output);
        output.iter().flatten().next().and_then(|bytes| Attributes::decode(bytes))
    };
    let Some(wanted) = structure(wanted) else {
        return Verdict::default();
    };
    let Some(found) = structure(found) else {
        return Verdict::uncompared("attributes are not in the replay's trace");
    };
    let differences = Attributes::differences(&found, &wanted);
    let own = Attributes::own_differences(&found, &wanted);
    let Some(&(field, _, traced)) = differences.first() else {
        return Verdict { own, ..Verdict::default() };
    };
    let text = differences
        .iter()
        .map(|(f, a, b)| format!("{} {}, traced {}", f.word(), f.show(*a), f.show(*b)))
        .collect::<Vec<_>>()
        .join("; ");
    let kind = match field {
        Field::Kind | Field::Size | Field::Mode | Field::DeviceNumber => Kind::Metadata,
        Field::Links => Kind::Links,
        Field::Owner | Field::Group => Kind::Owner,
    };
    let device = field == Field::Kind && matches!(traced as u32, libc::S_IFCHR | libc::S_IFBLK);
    let difference = Difference { kind, cause: format!("another {}", field.word()), text, device };
    Verdict { difference: Some(difference), own, uncompared: None }
}

/// Device and inode that a call of the `stat` family saw.
pub(super) fn identity(call: &Call, action: &Action) -> Option<(u64, u64)> {
    let output = split(call, Side::Output, &action.output);
    Attributes::decode(output.iter().flatten().next()?)?.identity
}
