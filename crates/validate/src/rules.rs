//! The settings that runs must share to be comparable: schedulers and queues of devices, options of mounts, write-back, governor.

use std::collections::BTreeMap;

/// Settings by name.
pub type Rules = BTreeMap<String, String>;

/// What is not as it was: `NAME: VALUE, now VALUE`.
pub(crate) fn changes(before: &Rules, now: &Rules) -> Vec<String> {
    let shown = |value: Option<&String>| value.map_or("not there".to_owned(), Clone::clone);
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    let changed = names.filter(|name| before.get(*name) != now.get(*name));
    changed.map(|name| format!("{name}: {}, now {}", shown(before.get(name)), shown(now.get(name)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_with_both_values() {
        let rules = |of: &[(&str, &str)]| of.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect::<Rules>();
        let before = rules(&[("vda scheduler", "[none] kyber"), ("vda nr_requests", "256"), ("mount", "rw")]);
        assert_eq!(changes(&before, &before), [""; 0]);
        let now = rules(&[("vda scheduler", "none [kyber]"), ("mount", "rw"), ("governor", "powersave")]);
        let said = [
            "vda nr_requests: 256, now not there",
            "vda scheduler: [none] kyber, now none [kyber]",
            "governor: not there, now powersave",
        ];
        assert_eq!(changes(&before, &now), said);
    }
}
