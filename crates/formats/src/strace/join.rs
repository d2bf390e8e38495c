//! Calls put together from their lines: unfinished and resumed, torn apart by output.
//!
//! Goals: every line is accounted for exactly once; memory in proportion to the calls in flight. Non-goals: meaning.

use std::collections::HashMap;

use memchr::memmem;

use super::account::{Account, Place, Reason};
use super::lexer::{Arguments, End, split};
use super::line::{Body, Prefix, parse};
use super::names::known;
use super::outcome::{Outcome, outcome};

/// Lines of output that may stand between the two ends of a call that was torn apart.
const PATIENCE: u32 = 64;
/// Lines that one call may take.
const MOST_LINES: usize = 4;

/// Lines that one call took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Places {
    places: [Place; MOST_LINES],
    count: usize,
}

impl Places {
    /// One line.
    pub fn one(place: Place) -> Places {
        let mut out = Places::default();
        out.add(place);
        out
    }

    fn add(&mut self, place: Place) {
        if let Some(slot) = self.places.get_mut(self.count) {
            *slot = place;
        }
        self.count += 1;
    }

    fn with(mut self, place: Place) -> Places {
        self.add(place);
        self
    }

    /// They are in the trace.
    pub fn understood(self, account: &mut Account) {
        account.understood += self.count as u64;
    }

    /// They are not.
    pub fn counted(self, account: &mut Account, reason: Reason) {
        for i in 0..self.count {
            account.count(reason, self.places[i.min(MOST_LINES - 1)]);
        }
    }
}

/// The beginning of a call.
#[derive(Debug, Default)]
pub struct Beginning {
    /// Its name.
    pub name: Vec<u8>,
    /// What followed its parenthesis.
    pub text: Vec<u8>,
    /// When it began.
    pub begin_ns: u64,
    places: Places,
}

#[derive(Debug)]
struct Torn {
    tid: i32,
    beginning: Beginning,
    patience: u32,
}

/// A call that has returned.
#[derive(Debug)]
pub struct Returned<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its arguments.
    pub args: Arguments<'a>,
    /// Its result.
    pub outcome: Outcome<'a>,
    /// When it began.
    pub begin_ns: u64,
    /// When it returned, if the log says so otherwise than by a duration.
    pub end_ns: u64,
    /// Its lines.
    pub places: Places,
}

/// What a line comes to.
// A call is what almost every line comes to: it is not put on the heap.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Event<'a> {
    /// Nothing more; it is accounted for.
    Nothing,
    /// A call of this thread has returned.
    Call(i32, Returned<'a>),
    /// A thread has ended: with this code, or by this signal.
    Ended(i32, Option<i32>, Option<i32>),
    /// A thread goes on as the first of its process, which ended.
    Superseded(i32, i32),
    /// strace took hold of a process with so many threads.
    Attached(i32, u32),
    /// strace let a thread go.
    Detached(i32),
}

/// Puts calls together.
#[derive(Debug, Default)]
pub struct Joiner {
    begun: HashMap<i32, Beginning>,
    torn: Option<Torn>,
    spare: Vec<Beginning>,
    whole: Beginning,
}

impl Joiner {
    /// The call that a thread is in.
    pub fn inside(&self, tid: i32) -> Option<&Beginning> {
        self.begun.get(&tid)
    }

    /// Whether a call waits for its rest.
    pub fn is_torn(&self) -> bool {
        self.torn.is_some()
    }

    /// A line without a prefix that continues a torn call, perhaps.
    pub fn continue_torn<'a>(&'a mut self, line: &[u8], place: Place, account: &mut Account) -> Option<Event<'a>> {
        let mut torn = self.torn.take()?;
        let text = line.trim_ascii();
        let tail = text.strip_prefix(b")").filter(|t| outcome(t).is_some());
        let begin = torn.beginning.text.len();
        if tail.is_none() {
            torn.beginning.text.push(b'\n');
        }
        torn.beginning.text.extend_from_slice(text);
        let whole = match split(&torn.beginning.text) {
            (_, End::Unfinished(at, _)) => {
                // A message of strace's own stood between a call and the mark that it is unfinished.
                torn.beginning.text.truncate(at);
                torn.beginning.places.add(place);
                self.begin(torn.tid, torn.beginning, account);
                return Some(Event::Nothing);
            }
            (_, End::Closed(at)) => outcome(&torn.beginning.text[at..]).is_some(),
            _ => false,
        };
        if tail.is_none() && !whole {
            torn.beginning.text.truncate(begin);
            torn.patience -= 1;
            let looks_like_output =
                matches!(parse(line).1, Body::Other(_) | Body::Blank | Body::Remark | Body::Summary);
            if looks_like_output && torn.patience > 0 {
                account.count(Reason::Foreign, place);
                self.torn = Some(torn);
                return Some(Event::Nothing);
            }
            torn.beginning.places.counted(account, Reason::Torn);
            self.release(torn.beginning);
            return None;
        }
        let tid = torn.tid;
        self.whole = torn.beginning;
        self.whole.places.add(place);
        let end_ns = self.whole.begin_ns;
        let whole = &self.whole;
        let (args, end) = split(&whole.text);
        let rest = match end {
            End::Closed(at) => &whole.text[at..],
            // What the program printed holds a quote or a bracket: the arguments before it are whole.
            End::Unfinished(..) | End::Open => &whole.text[(begin + 1).min(whole.text.len())..],
        };
        let Some(outcome) = outcome(rest) else {
            whole.places.counted(account, Reason::Torn);
            return Some(Event::Nothing);
        };
        let returned =
            Returned { name: &whole.name, args, outcome, begin_ns: whole.begin_ns, end_ns, places: whole.places };
        Some(Event::Call(tid, returned))
    }

    /// A line that was taken apart.
    pub fn line<'a>(
        &'a mut self,
        tid: i32,
        body: Body<'a>,
        at: (Place, u64, bool),
        account: &mut Account,
    ) -> Event<'a> {
        let (place, now, ended) = at;
        let understood = |account: &mut Account, event| {
            account.understood += 1;
            event
        };
        match body {
            Body::Call(name, text) => self.call(tid, (name, text), at, account),
            Body::Resumed(name, text) => self.resumed(tid, (name, text), (place, now), account),
            Body::Exited(code) => {
                self.cut_off(tid, account);
                understood(account, Event::Ended(tid, Some(code), None))
            }
            Body::Killed(signal) => {
                self.cut_off(tid, account);
                understood(account, Event::Ended(tid, None, Some(signal)))
            }
            Body::Superseded(by) => {
                self.cut_off(tid, account);
                if let Some(beginning) = self.begun.remove(&by) {
                    self.begun.insert(tid, beginning);
                }
                understood(account, Event::Superseded(tid, by))
            }
            Body::Attached(tid, threads) => understood(account, Event::Attached(tid, threads)),
            Body::Detached(tid) => understood(account, Event::Detached(tid)),
            Body::Signal(_) | Body::Message | Body::Stack | Body::Blank | Body::Remark => {
                understood(account, Event::Nothing)
            }
            Body::Summary => {
                account.count(Reason::Summary, place);
                Event::Nothing
            }
            Body::Other(text) => {
                if let Some(tid) = self.headless(text, place) {
                    return self.resume(tid, text, (place, now), account);
                }
                account.count(if ended { Reason::Foreign } else { Reason::CutOff }, place);
                Event::Nothing
            }
        }
    }

    /// `-z` prints the end of a call, or its last arguments too, without saying whose it is: of the one that began last.
    fn headless(&self, text: &[u8], place: Place) -> Option<i32> {
        let (tid, last) = self.begun.iter().max_by_key(|(_, b)| b.places.places[0].line)?;
        if text.starts_with(b")") && outcome(&text[1..]).is_some() {
            return Some(*tid);
        }
        let began = last.places.places[0];
        let asks_for_more = matches!(last.text.last(), Some(b',') | None) || text.starts_with(b",");
        if !asks_for_more || (began.log, began.line + 1) != (place.log, place.line) {
            return None;
        }
        let whole = [&last.text, b" ".as_slice(), text].concat();
        match split(&whole) {
            (_, End::Closed(at)) => outcome(&whole[at..]).map(|_| *tid),
            _ => None,
        }
    }

    fn call<'a>(
        &'a mut self,
        tid: i32,
        (name, text): (&'a [u8], &'a [u8]),
        (place, now, ended): (Place, u64, bool),
        account: &mut Account,
    ) -> Event<'a> {
        let (args, end) = split(text);
        // A thread that begins another call has left the torn one.
        if let Some(torn) = self.torn.take_if(|torn| torn.tid == tid || end == End::Open) {
            torn.beginning.places.counted(account, Reason::Torn);
        }
        match end {
            End::Closed(at) => match outcome(&text[at..]) {
                Some(outcome) => {
                    let places = Places::one(place);
                    Event::Call(tid, Returned { name, args, outcome, begin_ns: now, end_ns: now, places })
                }
                None => {
                    account.count(if ended { Reason::Result } else { Reason::CutOff }, place);
                    Event::Nothing
                }
            },
            End::Unfinished(at, after) => {
                if text[after..].starts_with(b")") && outcome(&text[after + 1..]).is_some() {
                    return self.never_returned(tid, (name, args), (place, now), account);
                }
                let beginning = self.beginning(name, text[..at].trim_ascii_end(), now, place);
                self.begin(tid, beginning, account);
                Event::Nothing
            }
            End::Open if !ended => {
                account.count(Reason::CutOff, place);
                Event::Nothing
            }
            End::Open => {
                let beginning = self.beginning(name, without_message(text), now, place);
                self.torn = Some(Torn { tid, beginning, patience: PATIENCE });
                Event::Nothing
            }
        }
    }

    /// A thread is within a call; one that it was in before never returned.
    fn begin(&mut self, tid: i32, beginning: Beginning, account: &mut Account) {
        if let Some(forgotten) = self.begun.insert(tid, beginning) {
            forgotten.places.counted(account, Reason::NeverReturned);
            self.release(forgotten);
        }
    }

    /// `exit_group(0 <unfinished ...>) = ?`: an exit is understood, another call came to nothing.
    fn never_returned<'a>(
        &mut self,
        tid: i32,
        (name, args): (&'a [u8], Arguments<'a>),
        (place, now): (Place, u64),
        account: &mut Account,
    ) -> Event<'a> {
        if matches!(name, b"exit" | b"exit_group" | b"_exit") {
            let (outcome, places) = (Outcome::default(), Places::one(place));
            return Event::Call(tid, Returned { name, args, outcome, begin_ns: now, end_ns: now, places });
        }
        account.count(Reason::NeverReturned, place);
        Event::Nothing
    }

    fn resumed<'a>(
        &'a mut self,
        tid: i32,
        (name, text): (&'a [u8], &'a [u8]),
        at: (Place, u64),
        account: &mut Account,
    ) -> Event<'a> {
        match self.begun.get(&tid) {
            Some(beginning) if beginning.name == name => self.resume(tid, text, at, account),
            _ => self.never_began(tid, (name, text), at, account),
        }
    }

    /// The rest of the call that a thread is in.
    fn resume<'a>(&'a mut self, tid: i32, text: &[u8], (place, now): (Place, u64), account: &mut Account) -> Event<'a> {
        let Some(mut beginning) = self.begun.remove(&tid) else { return Event::Nothing };
        // Old versions wrote a space behind the comma and one before what follows.
        let glue =
            matches!(beginning.text.last(), Some(b',') | None) || text.starts_with(b",") || text.starts_with(b")");
        if !glue {
            beginning.text.push(b' ');
        }
        beginning.text.extend_from_slice(text);
        beginning.places.add(place);
        let (_, end) = split(&beginning.text);
        if let End::Unfinished(at, _) = end {
            // A call may be interrupted by lines of other threads again and again.
            beginning.text.truncate(at);
            self.begun.insert(tid, beginning);
            return Event::Nothing;
        }
        let done = std::mem::replace(&mut self.whole, beginning);
        self.release(done);
        let whole = &self.whole;
        let (args, end) = split(&whole.text);
        let result = match end {
            End::Closed(at) => outcome(&whole.text[at..]).ok_or(Reason::Result),
            End::Unfinished(..) | End::Open => Err(Reason::CutOff),
        };
        match result {
            Ok(outcome) => {
                let (begin_ns, places) = (whole.begin_ns, whole.places);
                Event::Call(tid, Returned { name: &whole.name, args, outcome, begin_ns, end_ns: now, places })
            }
            Err(reason) => {
                whole.places.counted(account, reason);
                Event::Nothing
            }
        }
    }

    /// The end of a call that began before the log. That a process was made is worth knowing all the same.
    fn never_began<'a>(
        &mut self,
        tid: i32,
        (name, text): (&'a [u8], &'a [u8]),
        (place, now): (Place, u64),
        account: &mut Account,
    ) -> Event<'a> {
        let makes = matches!(name, b"clone" | b"clone3" | b"fork" | b"vfork" | b"exit_group" | b"exit");
        if let ((args, End::Closed(at)), true) = (split(text), makes)
            && let Some(outcome) = outcome(&text[at..])
        {
            let name: &[u8] = if args.named(b"flags").is_some() || name.starts_with(b"exit") { name } else { b"fork" };
            let places = Places::one(place);
            return Event::Call(tid, Returned { name, args, outcome, begin_ns: now, end_ns: now, places });
        }
        account.count(Reason::NeverBegan, place);
        Event::Nothing
    }

    /// The thread ended inside a call.
    fn cut_off(&mut self, tid: i32, account: &mut Account) {
        if let Some(beginning) = self.begun.remove(&tid) {
            let exits = beginning.name.starts_with(b"exit") || beginning.name == b"_exit";
            match exits {
                true => beginning.places.understood(account),
                false => beginning.places.counted(account, Reason::NeverReturned),
            }
            self.release(beginning);
        }
    }

    fn beginning(&mut self, name: &[u8], text: &[u8], begin_ns: u64, place: Place) -> Beginning {
        let mut out = self.spare.pop().unwrap_or_default();
        out.name.clear();
        out.name.extend_from_slice(name);
        out.text.clear();
        out.text.extend_from_slice(text);
        (out.begin_ns, out.places) = (begin_ns, Places::default().with(place));
        out
    }

    fn release(&mut self, beginning: Beginning) {
        if self.spare.len() < 64 && beginning.text.capacity() < 1 << 16 {
            self.spare.push(beginning);
        }
    }

    /// The log is over.
    pub fn finish(&mut self, account: &mut Account) {
        let torn = self.torn.take().map(|t| (t.beginning, Reason::Torn));
        let begun = self.begun.drain().map(|(_, b)| (b, Reason::NeverReturned));
        let mut rest: Vec<_> = begun.chain(torn).collect();
        rest.sort_by_key(|(b, _)| b.places.places[0].line);
        for (beginning, reason) in rest {
            beginning.places.counted(account, reason);
        }
    }
}

/// Old versions printed `Process 5 attached` or `Process 5 suspended` into the middle of a call.
fn without_message(text: &[u8]) -> &[u8] {
    let says =
        |at: usize| [&b" attached"[..], b" suspended"].iter().any(|word| memmem::find(&text[at..], word).is_some());
    match memmem::rfind(text, b"Process ") {
        Some(at) if says(at) => text[..at].trim_ascii_end(),
        _ => text,
    }
}

/// A line of strace that output without an end of line stands before: what follows the output.
pub fn behind_output(line: &[u8]) -> Option<(Prefix, Body<'_>)> {
    for at in memmem::find_iter(line, b"[pid ").take(4) {
        let (prefix, body) = parse(&line[at..]);
        if matches!(body, Body::Call(name, _) if known(name).is_some()) || matches!(body, Body::Resumed(..)) {
            return Some((prefix, body));
        }
    }
    for open in memchr::memchr_iter(b'(', line).take(4) {
        let begin =
            line[..open].iter().rposition(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).map_or(0, |at| at + 1);
        for at in begin..open.saturating_sub(2) {
            if known(&line[at..open]).is_some() {
                let text = &line[open + 1..];
                let (_, end) = split(text);
                let whole = matches!(end, End::Closed(at) if outcome(&text[at..]).is_some());
                if whole || matches!(end, End::Unfinished(..)) {
                    return Some((Prefix::default(), Body::Call(&line[at..open], text)));
                }
            }
        }
    }
    None
}
