//! What is learnt about one edge: how long a caller takes before, between and after its calls, how
//! many calls it makes, whether request keys stay the same downstream, and whether successive calls
//! share a connection.

use crate::record::{Visit, NO_TIME};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Delays below this are noise of the clock (captures have microseconds).
const SHORTEST_NS: i64 = 500;
/// Separate counts of calls; a visit with more has "many".
pub const CALLS_MAX: usize = 8;
/// Interactions with counts of their own: enough for path templates; the others share the edge's
/// counts.
const INTERACTIONS_MAX: usize = 4096;
/// Visits that a running estimate remembers: few enough to follow the load, and enough not to
/// follow one stall.
const MEMORY: f64 = 512.0;
/// A second, wide distribution besides the log-normal: a delay that a stall stretches is unlikely,
/// not impossible. Weight e^-4.
const WIDE_VARIANCE: f64 = 9.0;
/// Half of the logarithm of `WIDE_VARIANCE`.
const WIDE_WIDTH: f64 = 1.098_612_3;
const WIDE_COST: f64 = 4.0;
/// −ln of the share from which a number of calls is usual: one visit in twenty.
pub const USUAL: f64 = 3.0;
/// Share of the uniform prior, and its weight in visits, until a visit without a rival is seen:
/// until then every number of calls is usual.
const EVEN: f64 = 0.5;
const GUESS: f64 = 0.5;
/// ln of the square root of 2π.
const NORMAL: f64 = 0.918_938_5;

/// A delay: log-normal, with running mean and variance of its logarithm.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Delay {
    mean: f64,
    variance: f64,
    /// Half of the logarithm of `variance`.
    width: f64,
    weight: f64,
}

impl Delay {
    /// Without data: about `ns`, within a factor of e².
    pub fn about(ns: f64) -> Self {
        Delay {
            mean: ns.ln(),
            variance: 4.0,
            width: 0.5 * 4.0_f64.ln(),
            weight: 4.0,
        }
    }

    /// −ln of the density per nanosecond.
    pub fn cost(&self, ns: i64) -> f64 {
        let x = (ns.max(SHORTEST_NS) as f64).ln();
        let squared = (x - self.mean).powi(2);
        let narrow = squared / (2.0 * self.variance) + self.width;
        let wide = squared / (2.0 * WIDE_VARIANCE) + WIDE_WIDTH + WIDE_COST;
        x + NORMAL + narrow.min(wide)
    }

    pub fn learn(&mut self, ns: i64, weight: f64) {
        let x = (ns.max(SHORTEST_NS) as f64).ln();
        self.weight = (self.weight + weight).min(MEMORY);
        let step = weight / self.weight;
        let deviation = x - self.mean;
        self.mean += step * deviation;
        // Never more certain than a factor of e^0.3: a delay seen ten times is not a constant.
        self.variance = ((1.0 - step) * (self.variance + step * deviation * deviation)).max(0.09);
        self.width = 0.5 * self.variance.ln();
    }
}

/// How many calls a visit makes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Counts {
    seen: [f64; CALLS_MAX + 2],
    total: f64,
}

impl Counts {
    fn learn(&mut self, calls: usize, weight: f64) {
        self.seen[calls.min(CALLS_MAX + 1)] += weight;
        self.total += weight;
    }

    /// Shares, drawn towards `prior`.
    fn shares(&self, prior: &Shares) -> Shares {
        std::array::from_fn(|calls| {
            (self.seen[calls] + GUESS * prior[calls]) / (self.total + GUESS)
        })
    }
}

/// Shares of visits that make 0, 1, … calls; the last entry is "more".
type Shares = [f64; CALLS_MAX + 2];
const EVENLY: Shares = [1.0 / (CALLS_MAX + 2) as f64; CALLS_MAX + 2];

/// How often two visits share a property, if they belong together and by chance.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Likeness {
    equal: f64,
    pairs: f64,
    equal_by_chance: f64,
    pairs_by_chance: f64,
}

impl Likeness {
    /// No evidence until something is learnt.
    fn unknown() -> Self {
        Likeness {
            equal: 1.0,
            pairs: 2.0,
            equal_by_chance: 1.0,
            pairs_by_chance: 2.0,
        }
    }

    /// Logarithm of the likelihood ratio that the two belong together.
    fn gain(&self, equal: bool) -> f64 {
        let together = self.equal / self.pairs;
        let chance = self.equal_by_chance / self.pairs_by_chance;
        if equal {
            (together / chance).ln()
        } else {
            ((1.0 - together) / (1.0 - chance)).ln()
        }
    }

    fn gains(&self) -> Gains {
        [false, true].map(|equal| self.gain(equal))
    }

    fn learn(&mut self, equal: bool, weight: f64) {
        self.equal += weight * f64::from(equal);
        self.pairs += weight;
    }

    fn learn_chance(&mut self, equal: bool, weight: f64) {
        self.equal_by_chance += weight * f64::from(equal);
        self.pairs_by_chance += weight;
    }
}

/// What a property says if it differs, and if it is equal.
pub type Gains = [f64; 2];

/// The same of keys, which are not always known.
#[derive(Clone, Copy)]
pub struct KeyGains(Gains);

impl KeyGains {
    pub fn of(self, parent: u64, child: u64) -> f64 {
        if parent == 0 || child == 0 {
            return 0.0;
        }
        self.0[usize::from(parent == child)]
    }
}

/// No connection has this ordinal ([`crate::record::Visit::connection`]).
pub const NO_CONNECTION: u32 = 0;

/// A call in the form that the chain uses.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Call {
    /// [`NO_CONNECTION`] if the connection is not known from its opening on, and this is no transaction: all visits use
    /// pooled connections in turn.
    pub connection: u32,
    pub sent: i64,
    pub departure: i64,
    pub key: u64,
    /// It has no answer, or an answer after which a caller may try again.
    pub failed: bool,
}

impl Call {
    pub fn shares_connection(&self, other: &Call) -> bool {
        self.connection != NO_CONNECTION && self.connection == other.connection
    }
}

/// A visit in the form that the chain uses.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Frame {
    pub arrival: i64,
    /// First byte of the response, or its end if that is unknown.
    pub response: i64,
    pub departure: i64,
    pub interaction: u32,
    pub key: u64,
}

impl Frame {
    pub fn of(visit: &Visit) -> Frame {
        let known = |time: i64, otherwise: i64| if time == NO_TIME { otherwise } else { time };
        Frame {
            arrival: known(visit.arrival, visit.sent),
            response: known(visit.first_byte, visit.departure),
            departure: visit.departure,
            interaction: visit.interaction,
            key: visit.key,
        }
    }

    pub fn contains(&self, call: &Call) -> bool {
        self.arrival <= call.sent && call.sent <= call.departure && call.departure <= self.departure
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Model {
    head: Delay,
    gap: Delay,
    tail: Delay,
    /// The whole time of a visit without calls.
    without: Delay,
    counts: Counts,
    by_interaction: FxHashMap<u32, Counts>,
    /// Whether request keys stay the same downstream …
    keys: Likeness,
    key_before: u64,
    /// … and whether a caller's next call uses the same connection.
    connections: Likeness,
    last_call: Option<Call>,
    guess: Shares,
    /// Most calls of the sample had no owner: visits that were alone made none, and others make some now and then.
    pub seldom: bool,
    chains: f64,
    overlapping: f64,
    /// What [`Model::count_costs`] computed since the counts last changed.
    #[serde(skip)]
    costs: FxHashMap<u32, Shares>,
}

impl Default for Model {
    fn default() -> Self {
        Model {
            head: Delay::about(3e5),
            gap: Delay::about(3e5),
            tail: Delay::about(3e5),
            without: Delay::about(1e6),
            counts: Counts::default(),
            by_interaction: FxHashMap::default(),
            keys: Likeness::unknown(),
            key_before: 0,
            connections: Likeness::unknown(),
            last_call: None,
            guess: EVENLY,
            seldom: false,
            chains: 0.0,
            overlapping: 0.0,
            costs: FxHashMap::default(),
        }
    }
}

impl Model {
    /// Whether calls of one visit overlap, so that the caller does not block. A fifth of the visits
    /// that could show it is enough.
    pub fn is_parallel(&self) -> bool {
        self.overlapping > 0.2 * self.chains.max(5.0)
    }

    /// Sets the expected number of calls for each visit: the calls divided by the possible callers.
    /// If a system is never idle enough for a visit without a rival, there is no other evidence,
    /// and long visits would seem to make no calls.
    pub fn guess_mean(&mut self, calls_mean: f64) {
        let (whole, rest) = (calls_mean.floor(), calls_mean.fract());
        self.costs.clear();
        self.guess = EVENLY.map(|share| EVEN * share);
        for (calls, share) in [(whole, 1.0 - rest), (whole + 1.0, rest)] {
            self.guess[(calls as usize).min(CALLS_MAX + 1)] += (1.0 - EVEN) * share;
        }
    }

    /// −ln of the share of visits that make 0, 1, … calls; the last entry is "more".
    pub fn count_costs(&mut self, interaction: u32) -> Shares {
        if let Some(&known) = self.costs.get(&interaction) {
            return known;
        }
        let edge = self.counts.shares(&self.guess);
        let shares = self
            .by_interaction
            .get(&interaction)
            .map_or(edge, |counts| counts.shares(&edge));
        let costs = shares.map(|share| -share.max(1e-6).ln());
        if self.costs.len() < INTERACTIONS_MAX {
            self.costs.insert(interaction, costs);
        }
        costs
    }

    /// Whether visits with more calls than the separate counts are usual.
    pub fn makes_many(&mut self, interaction: u32) -> bool {
        self.count_costs(interaction)[CALLS_MAX + 1] < USUAL
    }

    pub fn calls_mean(&self) -> f64 {
        let seen = self
            .counts
            .seen
            .iter()
            .enumerate()
            .map(|(calls, seen)| calls as f64 * seen);
        seen.sum::<f64>() / self.counts.total.max(1e-9)
    }

    pub fn key_gains(&self) -> KeyGains {
        KeyGains(self.keys.gains())
    }

    pub fn connection_gains(&self) -> Gains {
        self.connections.gains()
    }

    pub fn head_cost(&self, frame: &Frame, first: &Call) -> f64 {
        self.head.cost(first.sent.saturating_sub(frame.arrival))
    }

    pub fn gap_cost(&self, before: &Call, after: &Call, gains: Gains) -> Option<f64> {
        let begin = if self.is_parallel() {
            before.sent
        } else {
            before.departure
        };
        let likeness = gains[usize::from(before.shares_connection(after))];
        (begin <= after.sent).then(|| self.gap.cost(after.sent.saturating_sub(begin)) - likeness)
    }

    pub fn tail_cost(&self, frame: &Frame, last: &Call) -> f64 {
        self.tail.cost(tail(frame, last))
    }

    pub fn no_call_cost(&self, frame: &Frame) -> f64 {
        self.without
            .cost(frame.response.saturating_sub(frame.arrival))
    }

    /// Learns from a visit with its calls, in the order in which they were sent. A certain
    /// assignment has the `weight` 1.
    pub fn learn(&mut self, frame: &Frame, calls: &[Call], weight: f64) {
        // Learning from a wrong choice with too few calls would lead to more such choices, so only
        // certain ones count.
        let weight_of_counts = if weight >= 1.0 { weight } else { 0.0 };
        if weight_of_counts > 0.0 {
            self.costs.clear();
        }
        let number = counted(calls);
        self.counts.learn(number, weight_of_counts);
        if self.by_interaction.len() < INTERACTIONS_MAX
            || self.by_interaction.contains_key(&frame.interaction)
        {
            self.by_interaction
                .entry(frame.interaction)
                .or_default()
                .learn(number, weight_of_counts);
        }
        let (Some(first), Some(last)) = (calls.first(), calls.last()) else {
            return self.without.learn(
                frame.response.saturating_sub(frame.arrival),
                weight_of_counts,
            );
        };
        self.head
            .learn(first.sent.saturating_sub(frame.arrival), weight);
        self.tail.learn(tail(frame, last), weight);
        if calls.len() > 1 && weight >= 1.0 {
            self.chains += 1.0;
            self.overlapping += f64::from(
                calls
                    .windows(2)
                    .any(|pair| pair[1].sent < pair[0].departure),
            );
        }
        let parallel = self.is_parallel();
        for pair in calls.windows(2) {
            let begin = if parallel {
                pair[0].sent
            } else {
                pair[0].departure
            };
            if begin <= pair[1].sent {
                self.gap.learn(pair[1].sent.saturating_sub(begin), weight);
            }
        }
        self.learn_likeness(frame, calls, weight);
    }

    fn learn_likeness(&mut self, frame: &Frame, calls: &[Call], weight: f64) {
        if weight >= 1.0 && frame.key != 0 {
            for call in calls.iter().filter(|call| call.key != 0) {
                self.keys.learn(frame.key == call.key, 1.0);
                if self.key_before != 0 {
                    self.keys.learn_chance(frame.key == self.key_before, 1.0);
                }
                self.key_before = call.key;
            }
        }
        for pair in calls.windows(2) {
            let shared = pair[0].shares_connection(&pair[1]);
            self.connections.learn(shared, weight);
        }
        if let (Some(first), Some(last)) = (calls.first(), calls.last()) {
            if let Some(before) = self.last_call {
                self.connections
                    .learn_chance(before.shares_connection(first), weight);
            }
            self.last_call = Some(*last);
        }
    }
}

/// How many calls these are: attempts that failed, and the one after them, count as one.
fn counted(calls: &[Call]) -> usize {
    let ends = |&(at, call): &(usize, &Call)| !call.failed || at + 1 == calls.len();
    calls.iter().enumerate().filter(ends).count()
}

/// From the last call to the response. A response that began before the last call is streamed, and
/// its end counts.
fn tail(frame: &Frame, last: &Call) -> i64 {
    let end = if last.departure <= frame.response {
        frame.response
    } else {
        frame.departure
    };
    end.saturating_sub(last.departure)
}
