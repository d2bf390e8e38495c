//! Folded stacks: the components of the path, then the call, then a number. Files that are alike fold into one line, so memory
//! grows with the number of files, not of actions.

use std::collections::BTreeMap;
use std::io::Write;

use reprise_trace::{Action, TraceReader};

use super::{ExportError, Exported, Weight, each, moved};

pub(super) fn write(
    trace: &TraceReader,
    weight: Weight,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let actions = each(trace, progress, &mut |action, file| {
        let sum = stacks.entry(stack(action, file.as_deref())).or_default();
        *sum = sum.saturating_add(weigh(action, weight));
        Ok(())
    })?;
    for (stack, sum) in stacks.iter().filter(|(_, sum)| **sum > 0) {
        writeln!(out, "{stack} {sum}")?;
    }
    Ok(Exported { actions, ..Exported::default() })
}

/// `srv;db;log;pwrite64`: a component that holds a separator has it escaped.
fn stack(action: &Action, file: Option<&str>) -> String {
    let file = file.unwrap_or("[no file]");
    let parts = file.split('/').filter(|part| !part.is_empty()).map(escaped);
    parts.chain([escaped(&action.call)]).collect::<Vec<_>>().join(";")
}

fn escaped(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for c in part.chars() {
        match c {
            ';' => out.push_str("\\x3b"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn weigh(action: &Action, weight: Weight) -> u64 {
    match weight {
        Weight::Calls => 1,
        Weight::Time => action.duration_ns,
        Weight::Bytes => moved(action),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_names_do_not_split_them() {
        let action = Action { call: "read".into(), ..Action::default() };
        assert_eq!(stack(&action, Some("/a;b/c\nd")), "a\\x3bb;c\\x0ad;read");
        assert_eq!(stack(&action, None), "[no file];read");
    }
}
