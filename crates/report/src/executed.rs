//! What threads are called: by the program that they execute, which recorders see only after they have met the thread.

use reprise_calls::Effect;
use reprise_trace::{Action, Name};

/// The name of the program that an action makes a thread execute, if it does.
pub fn executed(action: &Action) -> Option<String> {
    let call = reprise_calls::by_name(&action.call)?;
    if call.effect != Effect::Execute || action.result != 0 {
        return None;
    }
    let name = action.path.as_ref()?.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())?;
    Some(Name(name.to_vec()).to_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_succeeds_counts() {
        let mut action = Action { call: "execve".into(), path: Some(Name::from("/usr/bin/cat")), ..Action::default() };
        assert_eq!(executed(&action).as_deref(), Some("cat"));
        action.result = -2;
        assert_eq!(executed(&action), None);
        let other = Action { call: "openat".into(), path: Some(Name::from("/usr/bin/cat")), ..Action::default() };
        assert_eq!(executed(&other), None);
    }
}
