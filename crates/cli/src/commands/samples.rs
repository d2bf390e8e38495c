//! Samples of the environment while a replay runs, taken where its progress is watched: no thread of their own.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reprise_capture::SAMPLE_EVERY;
use reprise_capture::environment::{Children, Observation, Observer, Surroundings};
use reprise_replay::emit::Around;

/// Samples held in memory; beyond it every second one goes, and half as many are taken from then on.
const MOST: usize = 8192;

/// The samples of a run.
pub(super) struct Samples {
    observer: Observer,
    every: Duration,
    /// One instant on both clocks: that of the day may be set while the replay runs.
    begin: (Instant, SystemTime),
    last: Option<Instant>,
    /// Their times count from the epoch.
    taken: Vec<Observation>,
}

impl Samples {
    /// None yet; the replay's workers are children of this process, and write to `target`.
    pub fn new(target: &Path) -> Samples {
        Samples {
            observer: Observer::new(Children).with_target(target),
            every: SAMPLE_EVERY,
            begin: (Instant::now(), SystemTime::now()),
            last: None,
            taken: Vec::new(),
        }
    }

    /// Takes one if it is time to, or if it is the last.
    pub fn take(&mut self, is_last: bool) {
        // The caller's tick is as long as the interval, and may be a little early.
        let due = self.last.is_none_or(|last| last.elapsed() >= self.every * 9 / 10);
        if !due && !is_last {
            return;
        }
        self.last = Some(Instant::now());
        let now = self.begin.1 + self.begin.0.elapsed();
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        self.taken.push(self.observer.observe(now));
        if self.taken.len() >= MOST {
            self.every *= 2;
            thin(&mut self.taken);
        }
    }

    /// For the trace of a replay that began then.
    pub fn around(&self, started_ns: u64) -> Around {
        let Surroundings { facts, mounts, queues } = Surroundings::look();
        let mut around = Around { facts, mounts, queues, ..Around::default() };
        for seen in &self.taken {
            let since = |ns: u64| ns.saturating_sub(started_ns);
            let mut environment = seen.environment.clone();
            environment.time_ns = since(environment.time_ns);
            around.environment.push(environment);
            for device in &seen.devices {
                let mut device = device.clone();
                device.time_ns = since(device.time_ns);
                around.devices.push(device);
            }
        }
        around
    }
}

/// Leaves every second one, which takes over what only the one before it says of a device.
fn thin(taken: &mut Vec<Observation>) {
    let mut left = Vec::with_capacity(taken.len() / 2 + 1);
    let mut all = std::mem::take(taken).into_iter();
    while let Some(first) = all.next() {
        let Some(mut second) = all.next() else {
            left.push(first);
            break;
        };
        for mut device in first.devices {
            if second.devices.iter().all(|d| d.device != device.device) {
                device.time_ns = second.environment.time_ns;
                second.devices.push(device);
            }
        }
        left.push(second);
    }
    *taken = left;
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprise_trace::{DeviceSample, Environment};

    #[test]
    fn totals_survive_thinning() {
        let device = |time_ns, device, reads| DeviceSample { time_ns, device, reads, ..DeviceSample::default() };
        let at = |time_ns, devices| Observation { environment: Environment { time_ns, ..Default::default() }, devices };
        let mut taken = vec![
            at(1, vec![device(1, 7, 10), device(1, 8, 1)]),
            at(2, vec![device(2, 7, 11)]),
            at(3, vec![device(3, 8, 2)]),
        ];
        thin(&mut taken);
        assert_eq!(taken.iter().map(|o| o.environment.time_ns).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(taken[0].devices, [device(2, 7, 11), device(2, 8, 1)]);
    }
}
