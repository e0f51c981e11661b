//! Open arrivals: they follow a distribution or a file, and their clients leave when they are
//! answered.
//!
//! Every worker draws all arrivals and sends its own, so that the same seed gives the same load for
//! any number of workers.

use super::client::Client;
use super::engine::Load;
use crate::error::Result;
use crate::workload::plan::Arrivals;

/// A timer with this bit belongs to a workload, without it to a client.
pub const SOURCE: u32 = 1 << 31;

impl Load<'_> {
    /// The next open arrival, if it belongs to this worker.
    pub(super) fn next_arrival(&mut self, number: usize, after: i64, first: bool) {
        let workload = &self.plan.workloads[number];
        let source = &mut self.sources[number];
        let mut at = after;
        let mut begin = first;
        let ends = workload.end.unwrap_or(self.plan.duration);
        loop {
            at = match &workload.arrivals {
                Arrivals::Batch { first, .. } if begin => workload.begin + first,
                Arrivals::Batch { period, .. } => at + period,
                Arrivals::Trace(trace) => trace
                    .opening()
                    .get(source.came as usize)
                    .map_or(i64::MAX, |time| workload.begin + time),
                arrivals => source.next_open(self.plan, arrivals, at, ends),
            };
            begin = false;
            if at >= ends {
                return;
            }
            let whole = matches!(workload.arrivals, Arrivals::Batch { .. });
            if whole || self.plan.is_mine(workload, source.came) {
                return self.timers.add(at, SOURCE | number as u32);
            }
            source.came += 1;
        }
    }

    pub(super) fn arrive(&mut self, number: usize, due: i64) -> Result<()> {
        let plan = self.plan;
        let workload = &plan.workloads[number];
        let (size, class) = match &workload.arrivals {
            Arrivals::Batch { size, .. } => (*size, None),
            Arrivals::Trace(trace) => (
                1,
                trace
                    .classes
                    .get(self.sources[number].came as usize)
                    .copied(),
            ),
            _ => (1, None),
        };
        for _ in 0..size {
            let came = self.sources[number].came;
            self.sources[number].came += 1;
            if plan.is_mine(workload, came) {
                let client = Client::new(plan, number, came, &self.sources[number]);
                let at = self.place(client);
                self.clients[at as usize].given = class;
                self.start(at, due)?;
            }
        }
        self.next_arrival(number, due, false);
        Ok(())
    }

    /// The place of a client that has left, or a new one.
    fn place(&mut self, mut client: Client) -> u32 {
        let Some(at) = self.gone.pop() else {
            self.clients.push(client);
            return (self.clients.len() - 1) as u32;
        };
        let old = &mut self.clients[at as usize];
        client.asked = old.asked;
        *old = client;
        at
    }
}
