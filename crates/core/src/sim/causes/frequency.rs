//! Dynamic voltage and frequency scaling: a governor reacts to the last period and is late for the
//! next (`lightning` 3.2: the clock rate rises when the burst is over, and falls before the next).

use super::super::plan::{Governor, Node};
use super::super::tables::Sink;
use super::super::Sim;

/// A CPU this busy over a period was saturated.
const SATURATED: f64 = 0.95;

pub struct State {
    /// P-state: index into the clock rates, slowest first.
    at: usize,
    busy: f64,
    /// The last reading.
    read: i64,
    /// Since when it was saturated below full speed.
    slow_since: Option<i64>,
}

impl State {
    pub fn new(node: &Node) -> Option<Self> {
        node.governor.as_ref().map(|governor| State {
            at: governor.start,
            busy: 0.0,
            read: 0,
            slow_since: None,
        })
    }
}

impl Governor {
    pub fn first_reading(&self) -> i64 {
        if self.first > 0 {
            self.first
        } else {
            self.period
        }
    }

    pub fn fastest(&self) -> f64 {
        self.hz.last().copied().unwrap_or(1.0)
    }
}

impl<S: Sink> Sim<'_, S> {
    /// Reads the utilisation, steps, and returns its next reading.
    pub(super) fn govern(&mut self, node: u32) -> i64 {
        let plan = self.plan;
        let (Some(settings), Some(state)) = (
            &plan.nodes[node as usize].governor,
            &mut self.causes.governors[node as usize],
        ) else {
            return 0;
        };
        let busy = self.cpus.busy_of_node(self.now, node);
        let cores = plan.nodes[node as usize].cores;
        let begin = state.read;
        let used = (busy - state.busy) / ((self.now - begin) as f64 * cores);
        (state.busy, state.read) = (busy, self.now);
        let (from, last) = (state.at, settings.hz.len() - 1);
        if used >= settings.up {
            state.at = if settings.up_at_once {
                last
            } else {
                (from + 1).min(last)
            };
        } else if used < settings.down {
            state.at = from.saturating_sub(1);
        }
        let to = state.at;
        let mut over = None;
        if used >= SATURATED && from < last {
            state.slow_since.get_or_insert(begin);
        } else {
            over = state.slow_since.take();
        }
        if let Some(since) = over {
            let name = plan.nodes[node as usize].name.clone();
            self.report.stall("frequency-step", name, since, begin);
        }
        if to != from {
            let (old, new) = (settings.hz[from], settings.hz[to]);
            self.cpus.set_speed(node, new / settings.fastest());
            let detail = format!("{:.2} → {:.2} GHz", old / 1e9, new / 1e9);
            self.event(
                self.monitor.place_of_node(node),
                "frequency_step",
                self.now,
                Some(detail),
            );
        }
        settings.period
    }

    /// It was saturated up to the last reading.
    pub(super) fn closes_governor(&mut self, node: u32) {
        let state = self.causes.governors[node as usize].as_mut();
        if let Some(since) = state.and_then(|state| state.slow_since.take()) {
            let name = self.plan.nodes[node as usize].name.clone();
            self.report.stall("frequency-step", name, since, self.now);
        }
    }

    /// The node's clock rate now, Hz, if known.
    pub(in super::super) fn hz(&self, node: usize) -> Option<f64> {
        let settings = self.plan.nodes[node].governor.as_ref()?;
        self.causes.governors[node]
            .as_ref()
            .map(|state| settings.hz[state.at])
    }
}
