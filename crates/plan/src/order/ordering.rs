//! The rules in force, applied action by action.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use foldhash::fast::RandomState;
use reprise_model::{Interpretation, Resource, Touch};

use super::chain::{Chain, Names};
use super::dense::Dense;
use super::handoff::Stream;
use super::join::Joins;
use super::mode::{AioRule, FdRule, FileRule, HandoffRule, JoinRule, LockRule, Order, PathRule, Rules};
use super::needs::{Known, Needs, Point, Waits};
use super::range::Ranges;
use super::requests::Requests;
use super::rule::Rule;
use super::series::Series;
use super::stage::Stage;
use super::temporal::Temporal;

/// What is remembered of the resources.
#[derive(Debug, Default)]
struct Resources {
    /// By file: who had the last turn, where its actions keep their order.
    turns: Dense<Series>,
    /// By life of a descriptor, likewise.
    descriptors: States<Series>,
    /// By directory entry.
    entries: Dense<Chain>,
    chains: States<Chain>,
    stages: States<Stage>,
    ranges: States<Ranges>,
    streams: States<Stream>,
}

type States<V> = HashMap<Key, V, RandomState>;

/// A resource, quickly hashed and compared.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(Discriminant<Resource>, u64);

impl From<Resource> for Key {
    fn from(resource: Resource) -> Key {
        let number = match resource {
            Resource::File(n) | Resource::Content(n) | Resource::Size(n) | Resource::Attributes(n) => n.into(),
            Resource::Locks(n) | Resource::Names(n) | Resource::Entry(n) | Resource::Forgotten(n) => n.into(),
            Resource::Descriptor(n) | Resource::CloseOnExec(n) | Resource::Stream(n) => n.into(),
            Resource::Offset(n) | Resource::Flags(n) => n.into(),
            Resource::Mapping(n) | Resource::Table(n) | Resource::Directories(n) => n.into(),
            Resource::Process(n) => n.into(),
            Resource::Request(n) => n,
        };
        Key(discriminant(&resource), number)
    }
}

fn of<V: Default>(states: &mut States<V>, resource: Resource) -> &mut V {
    states.entry(resource.into()).or_default()
}

/// Turns touches into waits, action by action.
#[derive(Debug)]
pub struct Ordering {
    order: Order,
    /// The last action of each thread.
    last: Vec<Point>,
    /// What each thread has waited for already.
    known: Vec<Known>,
    /// When the action ended that started a thread, until its first action.
    started_ns: Vec<Option<u64>>,
    joins: Joins,
    requests: Requests,
    resources: Resources,
    /// The last action of all.
    latest: Option<Point>,
    temporal: Temporal,
    needs: Needs,
    explains: bool,
}

impl Ordering {
    /// For a trace of so many threads.
    pub fn new(order: Order, threads: usize) -> Ordering {
        let first = |thread| Point { thread: thread as u32, count: 0, end_ns: 0 };
        Ordering {
            order,
            last: (0..threads).map(first).collect(),
            known: vec![Known::default(); threads],
            started_ns: vec![None; threads],
            joins: Joins::new(threads),
            requests: Requests::default(),
            resources: Resources::default(),
            latest: None,
            temporal: Temporal::new(threads),
            needs: Needs::default(),
            explains: false,
        }
    }

    /// These threads are lanes, which perform the asynchronous requests of others.
    pub fn with_lanes(self, lane_of: Vec<Option<u32>>) -> Ordering {
        let orders = matches!(self.order, Order::Root(Rules { aio: AioRule::Stage, .. }));
        Ordering { requests: Requests::new(lane_of, orders), ..self }
    }

    /// From now on also the waits are told that earlier ones imply.
    pub fn explain(&mut self) {
        self.explains = true;
    }

    /// The waits of the next action of a thread. Actions must come in order of effect.
    pub fn next(&mut self, thread: u32, begin_ns: u64, end_ns: u64, touches: &[(Resource, Touch)]) -> Waits {
        let last = self.last[thread as usize];
        let own = Point { thread, count: last.count + 1, end_ns };
        let before = if last.count > 0 { Some(last.end_ns) } else { self.started_ns[thread as usize] };
        self.needs.begin(thread, before);
        let submitted = self.requests.next(own, begin_ns, &self.last, touches, &mut self.needs);
        match self.order {
            Order::Root(rules) => {
                if rules.join == JoinRule::Inferred {
                    self.joins.joined(last, begin_ns, &mut self.needs);
                }
                let by = By { own, submitter: self.requests.submitter(thread) };
                for &(resource, touch) in touches {
                    self.resources.touch(&rules, by, resource, touch, &mut self.needs);
                }
            }
            Order::Temporal => {
                self.temporal.completed_at(thread, begin_ns, &mut self.needs);
                self.temporal.ended(own);
            }
            Order::Think { threshold_ns } => {
                if let Some(instant) = begin_ns.checked_sub(threshold_ns) {
                    self.temporal.completed_at(thread, instant, &mut self.needs);
                }
                self.temporal.ended(own);
            }
            Order::Single => self.latest.into_iter().for_each(|p| self.needs.add(p, Rule::Single)),
            Order::None => {}
        }
        self.latest = Some(own);
        self.last[thread as usize] = own;
        let waits = self.needs.finish(&mut self.known[thread as usize], self.explains);
        Waits { submitted_after: submitted.map(|point| point.count), ..waits }
    }

    /// Takes in what else the last action of a thread was: what it started, ended and waited for, what it let go of.
    pub fn follow(&mut self, thread: u32, found: &Interpretation) {
        found.dead.iter().for_each(|resource| self.forget(*resource));
        if let Some(child) = found.spawned {
            self.started(thread, child);
        }
        if let Some(process) = found.ended_thread_of {
            self.joins.ended(self.last[thread as usize]);
            self.needs.reaped.ended(thread, process);
            self.known[thread as usize] = Known::default();
        }
        if let Some(process) = found.joined {
            self.needs.reaped.waited(process, self.last[thread as usize]);
        }
    }

    /// The action that came last of `parent` has started a thread.
    fn started(&mut self, parent: u32, child: u32) {
        let end_ns = self.last[parent as usize].end_ns;
        if let Some(started) = self.started_ns.get_mut(child as usize) {
            *started = Some(end_ns);
            self.joins.started(parent, child);
        }
    }

    /// Lets go of what is known of a resource that no later action touches.
    fn forget(&mut self, resource: Resource) {
        let Order::Root(rules) = self.order else { return };
        let Resources { turns, descriptors, entries, chains, stages, ranges, streams } = &mut self.resources;
        match resource {
            Resource::File(node) if rules.file == FileRule::Sequential => turns.forget(node),
            Resource::Descriptor(_) if rules.fd == FdRule::Sequential => {
                descriptors.remove(&resource.into());
                stages.remove(&resource.into());
            }
            Resource::Entry(entry) => entries.forget(entry),
            Resource::File(_) | Resource::Descriptor(_) => _ = stages.remove(&resource.into()),
            Resource::Content(_) | Resource::Size(_) | Resource::Attributes(_) => {
                if matches!(rules.file, FileRule::Range | FileRule::Sequential) {
                    chains.remove(&resource.into());
                    ranges.remove(&resource.into());
                }
            }
            Resource::Request(_) => {}
            Resource::Stream(_) => _ = streams.remove(&resource.into()),
            Resource::Locks(_)
            | Resource::Forgotten(_)
            | Resource::Names(_)
            | Resource::Offset(_)
            | Resource::Flags(_)
            | Resource::Mapping(_)
            | Resource::CloseOnExec(_)
            | Resource::Table(_)
            | Resource::Directories(_)
            | Resource::Process(_) => _ = chains.remove(&resource.into()),
        }
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy)]
struct By {
    own: Point,
    /// Set for an asynchronous request.
    submitter: Option<u32>,
}

impl Resources {
    fn touch(&mut self, rules: &Rules, by: By, resource: Resource, touch: Touch, needs: &mut Needs) {
        let own = by.own;
        needs.about(resource);
        match resource {
            Resource::File(node) => match rules.file {
                FileRule::None => {}
                FileRule::Stage | FileRule::Range => {
                    of(&mut self.stages, resource).touch(own, touch, Rule::FileStage, needs);
                }
                FileRule::Sequential => self.file_in_sequence(node, by, needs),
            },
            Resource::Content(node) | Resource::Size(node) | Resource::Attributes(node) => match rules.file {
                FileRule::None | FileRule::Stage => {}
                FileRule::Range => self.part_of_file(own, resource, touch, needs),
                FileRule::Sequential => {
                    self.file_in_sequence(node, by, needs);
                    // Requests in flight together still keep the order of the bytes that they have in common.
                    if by.submitter.is_some() && touch != Touch::Flush {
                        self.part_of_file(own, resource, touch, needs);
                    }
                }
            },
            Resource::Locks(node) => match (rules.file, rules.lock) {
                (FileRule::Sequential, _) => self.file_in_sequence(node, by, needs),
                (_, LockRule::Sequential) => of(&mut self.chains, resource).sequential(own, Rule::Lock, needs),
                (_, LockRule::None) => {}
            },
            Resource::Entry(_) | Resource::Names(_) | Resource::Forgotten(_) => match rules.path {
                PathRule::None => {}
                PathRule::StageName => {
                    let names = Names { stage: Rule::PathStage, name: Rule::PathName };
                    let chain = match resource {
                        Resource::Entry(entry) => self.entries.of(entry),
                        _ => of(&mut self.chains, resource),
                    };
                    chain.touch(own, touch, names, needs);
                }
            },
            Resource::Descriptor(_) => match rules.fd {
                FdRule::None => {}
                FdRule::Stage | FdRule::Offset => {
                    of(&mut self.stages, resource).touch(own, touch, Rule::FdStage, needs);
                }
                FdRule::Sequential => {
                    of(&mut self.descriptors, resource).next(own, by.submitter, Rule::FdSequential, needs);
                    // Also of requests in flight together one uses what another opens, before a third one closes it.
                    if by.submitter.is_some() {
                        of(&mut self.stages, resource).touch(own, touch, Rule::FdStage, needs);
                    }
                }
            },
            Resource::Offset(_) | Resource::Flags(_) | Resource::CloseOnExec(_) => match rules.fd {
                FdRule::None | FdRule::Stage => {}
                FdRule::Offset | FdRule::Sequential => {
                    of(&mut self.chains, resource).touch(own, touch, Names::both(Rule::FdOffset), needs);
                }
            },
            // See `requests`.
            Resource::Request(_) => {}
            Resource::Stream(_) => match rules.handoff {
                HandoffRule::None => {}
                HandoffRule::Stream => self.handoff(own, resource, touch, needs),
            },
            Resource::Mapping(_) | Resource::Table(_) | Resource::Directories(_) | Resource::Process(_) => {
                of(&mut self.chains, resource).touch(own, touch, Names::both(Rule::Process), needs);
            }
        }
    }

    /// Everything about a file is one series.
    fn file_in_sequence(&mut self, node: reprise_model::NodeId, by: By, needs: &mut Needs) {
        self.turns.of(node).next(by.own, by.submitter, Rule::FileSequential, needs);
    }

    fn part_of_file(&mut self, own: Point, resource: Resource, touch: Touch, needs: &mut Needs) {
        match touch {
            Touch::Read(from, to) => of(&mut self.ranges, resource).read(own, from, to, needs),
            Touch::Write(from, to) => of(&mut self.ranges, resource).write(own, from, to, needs),
            Touch::Flush if matches!(resource, Resource::Content(_)) => {
                of(&mut self.ranges, resource).flush(own, needs)
            }
            Touch::Flush
            | Touch::Look
            | Touch::Change
            | Touch::Add
            | Touch::Create
            | Touch::Destroy
            | Touch::Send(_)
            | Touch::Receive(_) => {
                of(&mut self.chains, resource).touch(own, touch, Names::both(Rule::FileRange), needs);
            }
        }
    }

    fn handoff(&mut self, own: Point, resource: Resource, touch: Touch, needs: &mut Needs) {
        let stream = of(&mut self.streams, resource);
        match touch {
            Touch::Send(bytes) => stream.send(own, bytes),
            Touch::Receive(bytes) => stream.receive(bytes, needs),
            Touch::Look
            | Touch::Change
            | Touch::Add
            | Touch::Create
            | Touch::Destroy
            | Touch::Read(..)
            | Touch::Write(..)
            | Touch::Flush => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "root";

    fn ordering(order: &str, threads: usize) -> Ordering {
        Ordering::new(order.parse().expect("an ordering"), threads)
    }

    fn waits(order: &mut Ordering, thread: u32, touches: &[(Resource, Touch)]) -> Vec<(u32, u64)> {
        order.next(thread, 0, 0, touches).edges.iter().map(|e| (e.wait.thread, e.wait.count)).collect()
    }

    #[test]
    fn looks_do_not_order_but_changes_do() {
        let mut o = ordering(ROOT, 4);
        let entry = Resource::Entry(7);
        assert_eq!(waits(&mut o, 0, &[(entry, Touch::Change)]), []);
        assert_eq!(waits(&mut o, 1, &[(entry, Touch::Look)]), [(0, 1)]);
        assert_eq!(waits(&mut o, 2, &[(entry, Touch::Look)]), [(0, 1)]);
        assert_eq!(waits(&mut o, 3, &[(entry, Touch::Change)]), [(0, 1), (1, 1), (2, 1)]);
        assert_eq!(waits(&mut o, 1, &[(entry, Touch::Look)]), [(3, 1)]);
    }

    #[test]
    fn names_of_a_directory_may_be_added_together_but_not_while_listed() {
        let mut o = ordering(ROOT, 3);
        let names = Resource::Names(1);
        assert_eq!(waits(&mut o, 0, &[(names, Touch::Add)]), []);
        assert_eq!(waits(&mut o, 1, &[(names, Touch::Add)]), []);
        assert_eq!(waits(&mut o, 2, &[(names, Touch::Look)]), [(0, 1), (1, 1)]);
        assert_eq!(waits(&mut o, 0, &[(names, Touch::Add)]), [(2, 1)]);
    }

    #[test]
    fn a_wait_is_not_repeated() {
        let mut o = ordering(ROOT, 2);
        let file = Resource::File(1);
        assert_eq!(waits(&mut o, 0, &[(file, Touch::Look)]), []);
        assert_eq!(waits(&mut o, 1, &[(file, Touch::Look)]), [(0, 1)]);
        assert_eq!(waits(&mut o, 1, &[(file, Touch::Look)]), []);
    }

    #[test]
    fn temporal_frees_what_overlapped() {
        let mut o = ordering("temporal", 3);
        let next = |o: &mut Ordering, thread, begin, end| {
            let waits = o.next(thread, begin, end, &[]);
            waits.edges.iter().map(|e| (e.wait.thread, e.wait.count)).collect::<Vec<_>>()
        };
        assert_eq!(next(&mut o, 0, 0, 10), []);
        assert_eq!(next(&mut o, 1, 5, 20), []);
        assert_eq!(next(&mut o, 2, 15, 30), [(0, 1)]);
        assert_eq!(next(&mut o, 2, 40, 50), [(1, 1)]);
    }

    #[test]
    fn think_frees_what_followed_at_once() {
        let mut o = ordering("think:10us", 2);
        assert_eq!(o.next(0, 0, 1_000, &[]).edges, []);
        assert_eq!(o.next(1, 10_999, 12_000, &[]).edges, []);
        assert_eq!(o.next(1, 13_000, 14_000, &[]).edges.len(), 1);
    }

    #[test]
    fn ready_is_the_last_of_all_dependencies_also_of_known_ones() {
        let mut o = ordering(ROOT, 2);
        let file = Resource::File(1);
        assert_eq!(o.next(0, 0, 100, &[(file, Touch::Look)]).ready_ns, None);
        assert_eq!(o.next(1, 50, 150, &[(file, Touch::Look)]).ready_ns, Some(100));
        assert_eq!(o.next(0, 160, 200, &[]).ready_ns, Some(100));
        o.started(0, 1);
        assert_eq!(o.next(1, 300, 310, &[]).ready_ns, Some(150));
    }

    #[test]
    fn an_action_does_not_wait_for_itself() {
        let mut o = ordering(ROOT, 1);
        let twice = [(Resource::File(1), Touch::Look), (Resource::Content(1), Touch::Read(0, 10))];
        assert_eq!(o.next(0, 50, 100, &twice).ready_ns, None);
        assert_eq!(o.next(0, 150, 200, &twice).ready_ns, Some(100));
    }

    #[test]
    fn each_rule_orders_its_resource_alone() {
        let file = [(Resource::File(1), Touch::Look), (Resource::Content(1), Touch::Read(0, 10))];
        let write = [(Resource::File(1), Touch::Look), (Resource::Content(1), Touch::Write(5, 6))];
        type Found = &'static [(u32, u64)];
        let expected: [(&str, Found, Found); 4] = [
            ("root:file=none", &[], &[]),
            ("root:file=stage", &[], &[]),
            ("root:file=range", &[], &[(0, 1), (1, 1)]),
            ("root:file=seq", &[(0, 1)], &[(1, 1)]),
        ];
        for (order, second_read, then_write) in expected {
            let mut o = ordering(order, 3);
            assert_eq!(waits(&mut o, 0, &file), []);
            assert_eq!(waits(&mut o, 1, &file), second_read, "{order}");
            assert_eq!(waits(&mut o, 2, &write), then_write, "{order}");
        }
    }
}
