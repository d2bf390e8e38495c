//! The ordering modes, and how they are written.
//!
//! Goals: every combination of ROOT's Table 2 that means anything, one text for each. Non-goals: applying them.

use std::fmt;
use std::str::FromStr;

/// A closed set of values of one key, with their texts.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal $(| $alias:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            const TEXTS: &[&str] = &[$($text),+];

            fn text(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            fn parse(text: &str) -> Option<$name> {
                match text { $($text $(| $alias)* => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

choice! {
    /// What keeps actions on one file in order.
    FileRule {
        /// Nothing.
        None = "none",
        /// Uses come after the making and before the removal.
        Stage = "stage",
        /// As `Stage`, and bytes, size and attributes are met as they were left.
        Range = "range",
        /// All actions on the file.
        Sequential = "seq" | "stage+seq",
    }
}

choice! {
    /// What keeps actions on one name in order.
    PathRule {
        /// Nothing.
        None = "none",
        /// Uses come after the making and before the removal; what stands under a name later comes later.
        StageName = "stage+name" | "name+stage",
    }
}

choice! {
    /// What keeps actions on one descriptor in order.
    FdRule {
        /// Nothing.
        None = "none",
        /// Uses come after the opening and before the closing.
        Stage = "stage",
        /// As `Stage`, and what moves an offset or depends on it keeps its order.
        Offset = "stage+offset" | "offset",
        /// All actions on the descriptor.
        Sequential = "stage+seq" | "seq",
    }
}

choice! {
    /// What keeps asynchronous requests in order.
    AioRule {
        /// Nothing.
        None = "none",
        /// A request is submitted before its completion is fetched.
        Stage = "stage",
    }
}

choice! {
    /// Whether data that passes through pipes and sockets orders threads.
    HandoffRule {
        /// It does not.
        None = "none",
        /// What was received had been sent.
        Stream = "stream",
    }
}

choice! {
    /// Whether locks order threads.
    LockRule {
        /// They do not.
        None = "none",
        /// Locking calls on one file keep their order.
        Sequential = "seq",
    }
}

choice! {
    /// Whether the ends of threads are waited for by the thread that started them.
    JoinRule {
        /// They are not.
        None = "none",
        /// Where it looks as if they were: see `join.rs`.
        Inferred = "inferred",
    }
}

/// One rule for each kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Files.
    pub file: FileRule,
    /// Names.
    pub path: PathRule,
    /// Descriptors.
    pub fd: FdRule,
    /// Asynchronous requests.
    pub aio: AioRule,
    /// Pipes and sockets.
    pub handoff: HandoffRule,
    /// Locks.
    pub lock: LockRule,
    /// Ends of threads.
    pub join: JoinRule,
}

impl Default for Rules {
    /// ROOT's default.
    fn default() -> Self {
        Rules {
            file: FileRule::Sequential,
            path: PathRule::StageName,
            fd: FdRule::Sequential,
            aio: AioRule::Stage,
            handoff: HandoffRule::Stream,
            lock: LockRule::Sequential,
            join: JoinRule::Inferred,
        }
    }
}

impl Rules {
    /// The default of what is not named: free reading by range would mean nothing if one descriptor's actions kept their order.
    fn with(settings: &[(String, String)]) -> Result<Rules, String> {
        let mut rules = Rules::default();
        if settings.iter().any(|(key, value)| key == "file" && value == "range") {
            rules.fd = FdRule::Offset;
        }
        for (key, value) in settings {
            rules.set(key, value)?;
        }
        Ok(rules)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        fn take<T>(place: &mut T, found: Option<T>, key: &str, value: &str, known: &[&str]) -> Result<(), String> {
            let wrong = || format!("'{value}' is no rule for {key}; choose {}", known.join(", "));
            *place = found.ok_or_else(wrong)?;
            Ok(())
        }
        match key {
            "file" => take(&mut self.file, FileRule::parse(value), key, value, FileRule::TEXTS),
            "path" => take(&mut self.path, PathRule::parse(value), key, value, PathRule::TEXTS),
            "fd" => take(&mut self.fd, FdRule::parse(value), key, value, FdRule::TEXTS),
            "aio" => take(&mut self.aio, AioRule::parse(value), key, value, AioRule::TEXTS),
            "handoff" => take(&mut self.handoff, HandoffRule::parse(value), key, value, HandoffRule::TEXTS),
            "lock" => take(&mut self.lock, LockRule::parse(value), key, value, LockRule::TEXTS),
            "join" => take(&mut self.join, JoinRule::parse(value), key, value, JoinRule::TEXTS),
            other => {
                Err(format!("'{other}' is nothing that is ordered; choose file, path, fd, aio, handoff, lock or join"))
            }
        }
    }

    fn pairs(&self) -> [(&'static str, &'static str); 7] {
        [
            ("file", self.file.text()),
            ("path", self.path.text()),
            ("fd", self.fd.text()),
            ("aio", self.aio.text()),
            ("handoff", self.handoff.text()),
            ("lock", self.lock.text()),
            ("join", self.join.text()),
        ]
    }
}

impl fmt::Display for Rules {
    /// All rules: `file=seq,path=stage+name,…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.pairs().iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&texts.join(","))
    }
}

/// How a replay is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By resources, as ROOT does.
    Root(Rules),
    /// An action waits for every action that had completed when it began.
    Temporal,
    /// As `Temporal`, but for what had completed at least so many nanoseconds before (hfplayer's inference: what follows
    /// sooner was not caused by it).
    Think {
        /// The threshold.
        threshold_ns: u64,
    },
    /// One action at a time, in order of effect.
    Single,
    /// Each thread for itself.
    None,
}

/// hfplayer's own threshold.
const THINK_NS: u64 = 10_000;

impl Default for Order {
    /// ROOT's rules, with bytes instead of files in order: as right as they are, and nearer to the concurrency that programs
    /// have (docs/RESULTS.md, "How well a replay predicts the time on another storage system").
    fn default() -> Self {
        Order::Root(Rules { file: FileRule::Range, fd: FdRule::Offset, ..Rules::default() })
    }
}

impl Order {
    /// ROOT's rules.
    pub fn root() -> Order {
        Order::Root(Rules::default())
    }

    /// Every rule in force, as text.
    pub fn rules_text(&self) -> String {
        match self {
            Order::Root(rules) => rules.to_string(),
            Order::Temporal | Order::Think { .. } | Order::Single | Order::None => self.to_string(),
        }
    }
}

impl FromStr for Order {
    type Err = String;
    fn from_str(text: &str) -> Result<Order, String> {
        match text {
            "root" => return Ok(Order::root()),
            "temporal" => return Ok(Order::Temporal),
            "think" => return Ok(Order::Think { threshold_ns: THINK_NS }),
            "single" => return Ok(Order::Single),
            "none" => return Ok(Order::None),
            _ => {}
        }
        if let Some(threshold) = text.strip_prefix("think:") {
            let threshold_ns = threshold.strip_suffix("us").and_then(|us| us.parse::<u64>().ok());
            let threshold_ns = threshold_ns.and_then(|us| us.checked_mul(1000));
            let wrong = || format!("'{threshold}' is no threshold; write think:10us");
            return Ok(Order::Think { threshold_ns: threshold_ns.ok_or_else(wrong)? });
        }
        let settings = match text.strip_prefix("root:") {
            Some(settings) => settings,
            None if text.contains('=') => text,
            None => {
                return Err(format!(
                    "'{text}' is no ordering; choose root, root:KEY=RULE,…, temporal, think, single or none"
                ));
            }
        };
        let settings: Vec<(String, String)> = settings
            .split(',')
            .map(|setting| match setting.split_once('=') {
                Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
                None => Err(format!("'{setting}' is no setting; write KEY=RULE, for example file=range")),
            })
            .collect::<Result<_, _>>()?;
        Ok(Order::Root(Rules::with(&settings)?))
    }
}

impl fmt::Display for Order {
    /// The shortest text that means the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Root(rules) if *rules == Rules::default() => f.write_str("root"),
            Order::Root(rules) => {
                let mut usual = Rules::default();
                if rules.file == FileRule::Range {
                    (usual.file, usual.fd) = (FileRule::None, FdRule::Offset);
                }
                let differs = rules.pairs().into_iter().zip(usual.pairs()).filter(|(own, usual)| own != usual);
                let texts: Vec<String> = differs.map(|((key, value), _)| format!("{key}={value}")).collect();
                write!(f, "root:{}", texts.join(","))
            }
            Order::Temporal => f.write_str("temporal"),
            Order::Think { threshold_ns: THINK_NS } => f.write_str("think"),
            Order::Think { threshold_ns } => write!(f, "think:{}us", threshold_ns / 1000),
            Order::Single => f.write_str("single"),
            Order::None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_written_and_read_again() {
        for file in FileRule::TEXTS {
            for path in PathRule::TEXTS {
                for fd in FdRule::TEXTS {
                    for aio in AioRule::TEXTS {
                        let text = format!("root:file={file},path={path},fd={fd},aio={aio}");
                        let order: Order = text.parse().expect(&text);
                        assert!(text.ends_with(order.rules_text().split(",handoff").next().unwrap_or_default()));
                        assert_eq!(order.to_string().parse(), Ok(order), "{order}");
                    }
                }
            }
        }
        for text in ["root", "root:file=range", "temporal", "think", "think:50us", "single", "none"] {
            assert_eq!(text.parse::<Order>().map(|o| o.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, word) in [
            ("rot", "no ordering"),
            ("root:file", "KEY=RULE"),
            ("root:file=some", "stage, range, seq"),
            ("root:files=seq", "file, path"),
            ("think:5", "think:10us"),
        ] {
            let error = text.parse::<Order>().expect_err(text);
            assert!(error.contains(word), "{error}");
        }
    }
}
