//! The simulated system, with every name turned into an index: the plan to which `tailrace.sim`
//! lowers an experiment (JSON).
//!
//! Times are whole nanoseconds since the begin of the run, work is nanoseconds of one core at full
//! speed, sizes are bytes. An index refers to the list of its kind: `node` to `nodes`, `group` to
//! `groups`, `server`, `entries` and `candidates` to `servers`, `class` to `classes`, `program` to
//! `programs`; `connector` to its server's own list.

pub use crate::workload::plan::{Arrivals, Chain, Choice, Time, Trace, Walk};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub seed: u64,
    /// Each replication draws from other streams.
    #[serde(default)]
    pub replication: u64,
    /// Begin of the run, ns since the Unix epoch.
    pub epoch: i64,
    /// Clients send nothing after this; requests under way are finished.
    pub duration: i64,
    /// Requests sent earlier, their visits, and earlier samples and events are not written (the
    /// ramp).
    #[serde(default)]
    pub record_from: i64,
    /// Sampling interval; 0: no samples.
    #[serde(default)]
    pub sample: i64,
    /// Work of one sampling in each group that holds a server.
    #[serde(default)]
    pub sample_work: i64,
    /// One way, between any two hosts.
    #[serde(default)]
    pub latency: i64,
    pub nodes: Vec<Node>,
    pub groups: Vec<Group>,
    pub servers: Vec<Server>,
    pub classes: Vec<Class>,
    #[serde(default)]
    pub programs: Vec<Vec<Step>>,
    pub workloads: Vec<Workload>,
    #[serde(default)]
    pub stalls: Vec<Stall>,
    #[serde(default)]
    pub capacities: Vec<Capacity>,
    /// How many tiers, and parts of a visit there, the factors of a trace distinguish.
    #[serde(default)]
    pub tiers: u32,
}

/// A machine with its CPUs, clock rate and disk.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    pub cores: f64,
    #[serde(default)]
    pub steal: Steal,
    #[serde(default)]
    pub governor: Option<Governor>,
    #[serde(default)]
    pub disk: Option<Disk>,
}

/// How guests account for CPU time that they wanted and other groups got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steal {
    #[default]
    Hidden,
    /// As `cpu_steal`.
    Shown,
    /// As their own busy time.
    Busy,
}

/// Steps through P-states by the utilisation of the CPU in its last period (`lightning` 3.2: 500
/// ms, 1.12 to 2.26 GHz).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Governor {
    pub period: i64,
    /// Clock rates, slowest first; the last is full speed.
    pub hz: Vec<f64>,
    /// At or above this utilisation: up; below `down`: down.
    pub up: f64,
    pub down: f64,
    /// Straight to the fastest instead of one step.
    #[serde(default)]
    pub up_at_once: bool,
    /// The first reading; 0: after a period.
    #[serde(default)]
    pub first: i64,
    /// The P-state at the begin.
    #[serde(default)]
    pub start: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub bytes_per_second: f64,
    #[serde(default)]
    pub writeback: Option<Writeback>,
    #[serde(default)]
    pub flush: Option<Flush>,
}

/// The page cache (`vm.dirty_*`): every `period`, files that have been dirty for `expire` are
/// written, and all of them as soon as `background` bytes are dirty; from `limit` on, writers wait
/// for the disk. During a write, `blocks` of the node's CPU time waits for I/O.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writeback {
    /// The first wake-up, so that nodes are not in step. None: after a period, or drawn.
    #[serde(default)]
    pub first: Option<i64>,
    /// The ages of files at the begin are drawn.
    #[serde(default)]
    pub drawn: bool,
    pub period: i64,
    pub expire: i64,
    pub background: f64,
    pub limit: f64,
    pub blocks: f64,
}

/// A logger that writes every `period` what it has gathered: `rate` bytes a second (`rpc-vs-async`
/// IV-B: collectl, 30 s).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    pub period: i64,
    pub first: i64,
    pub bytes_per_second: f64,
    pub blocks: f64,
}

/// A unit that shares the CPUs with others: a guest, a container or a process. Inside, all runnable
/// threads get the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    pub node: u32,
    #[serde(default = "one")]
    pub weight: f64,
    /// Cores it may use at once (virtual CPUs).
    pub cores: f64,
    #[serde(default)]
    pub quota: Option<Quota>,
    #[serde(default)]
    pub inflation: Option<Inflation>,
}

/// CFS bandwidth control: `quota` of CPU time in each `period`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    pub quota: i64,
    pub period: i64,
    /// What earlier periods left unused, up to this much, may be used in addition (`cpu.max.burst`).
    #[serde(default)]
    pub burst: i64,
    /// When the first period ends; none: after a whole one.
    #[serde(default)]
    pub first: Option<i64>,
}

/// Work grows with runnable threads n (cache misses, context switches): times 1 + slope·(n − free)^power for n > free.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inflation {
    pub free: f64,
    pub slope: f64,
    pub power: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub name: String,
    pub group: u32,
    /// Its tier, of those that the factors of a trace distinguish.
    #[serde(default)]
    pub tier: u32,
    /// The same for the work before the first call; none: as for the rest.
    #[serde(default)]
    pub first: Option<u32>,
    /// A worker is held during calls to other servers (synchronous).
    pub holds: bool,
    /// Per process; 0: no limit.
    pub workers: u32,
    #[serde(default = "one_process")]
    pub processes: u32,
    /// A further process after all workers have been busy for a while.
    #[serde(default)]
    pub spawn: Option<Spawn>,
    /// Accepted requests that wait for a worker inside the server.
    #[serde(default)]
    pub light_queue: u32,
    /// Requests that wait inside for a worker go by the rank of the request at the root, instead of
    /// in the order of arrival.
    #[serde(default)]
    pub lightest_first: bool,
    /// The newest of the requests that wait inside gets a worker first.
    #[serde(default)]
    pub newest_first: bool,
    /// How many requests may be inside, adapted to their response times.
    #[serde(default)]
    pub limit: Option<Limit>,
    /// The argument of listen(): one more fits into the accept queue.
    pub backlog: u32,
    /// By class; none: that class never reaches this server.
    pub programs: Vec<Option<u32>>,
    #[serde(default)]
    pub connectors: Vec<Connector>,
    #[serde(default)]
    pub heap: Option<Heap>,
    /// Bytes that a visit writes to the logs (the page cache of its node), and the number of files
    /// they are spread over.
    #[serde(default)]
    pub log_bytes: f64,
    #[serde(default = "one_file")]
    pub logs: u32,
}

/// Requests beyond the limit are refused at once. It stays between `min` and `max`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub initial: u32,
    pub min: u32,
    pub max: u32,
    pub kind: Adaptive,
}

/// How a limit adapts to each visit's response time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Adaptive {
    /// One more after an answer within `timeout`, and `backoff` times as many after a later one.
    Aimd { timeout: i64, backoff: f64 },
    /// In proportion to the long-term mean of `window` response times over the last one, where
    /// `tolerance` times the mean counts as normal, plus `queue`; of each change, a share of
    /// `smoothing` is made.
    Gradient {
        tolerance: f64,
        queue: f64,
        smoothing: f64,
        window: u32,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    pub processes_max: u32,
    /// How long all workers must have been busy.
    pub after: i64,
    /// The new process serves after this much work.
    pub work: i64,
    /// It ends when for this long no more workers were busy than the others have (Apache's
    /// MaxSpareThreads); 0: never.
    #[serde(default)]
    pub retire_after: i64,
}

/// A collected heap. A collection stops the server's threads and works `base` + `per_live`·(visits
/// inside), on as many of the group's cores as it has threads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heap {
    pub young_bytes: f64,
    pub bytes_per_visit: f64,
    /// Share of the young generation that is allocated at the begin.
    #[serde(default)]
    pub filled: f64,
    pub young: Collection,
    /// After this many young collections comes an old one (0: never).
    #[serde(default)]
    pub old_every: u32,
    /// It also replaces a young one if more visits than this are inside (0: never).
    #[serde(default)]
    pub old_above: u32,
    #[serde(default)]
    pub old: Option<Collection>,
    pub threads: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    pub base: i64,
    pub per_live: i64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    pub name: String,
    #[serde(default)]
    pub bytes_in: u64,
    #[serde(default)]
    pub bytes_out: u64,
    /// For cross-tier priority: light goes before heavy.
    #[serde(default)]
    pub light: bool,
    /// For servers that take the lightest first: a lower rank goes before a higher one.
    #[serde(default)]
    pub rank: u32,
    /// The first class of its servlet; classes of one servlet share their pools. Default: itself.
    #[serde(default)]
    pub servlet: Option<u32>,
    /// Its clients connect and send nothing: a worker that takes such a connection waits until its client leaves, `wait`
    /// after it connected. It is not a request: an event says how long its client was silent.
    #[serde(default)]
    pub silent: bool,
}

/// One step of a server's program for a class.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Step {
    Compute(Time),
    /// Only time passes: a synchronous server keeps its worker and uses no CPU.
    Wait(Time),
    Call(Call),
    /// All of these calls begin at once, and the visit waits for all of them.
    Join(Vec<Call>),
}

impl Step {
    pub fn calls(&self) -> &[Call] {
        match self {
            Step::Compute(_) | Step::Wait(_) => &[],
            Step::Call(call) => std::slice::from_ref(call),
            Step::Join(calls) => calls,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub connector: u32,
    pub class: u32,
    /// How many; a fraction is the probability of one more.
    #[serde(default = "one")]
    pub count: f64,
    /// All at once instead of one after another.
    #[serde(default)]
    pub parallel: bool,
    /// To every candidate, in parallel (write all).
    #[serde(default)]
    pub all: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connector {
    pub candidates: Vec<u32>,
    /// Connections are kept: there is no SYN, so none can be dropped.
    #[serde(default)]
    pub kept: bool,
    #[serde(default)]
    pub pool: Option<Pool>,
    #[serde(default)]
    pub policy: Policy,
    #[serde(default)]
    pub endpoint: Endpoint,
    #[serde(default)]
    pub syn: Syn,
    /// Calls are queries for names: one datagram each, on a kept connection. What gets lost is
    /// repeated as `syn` says.
    #[serde(default)]
    pub datagrams: bool,
    /// A candidate that cannot be connected to stays in error for this long, and calls go to
    /// another; 0: the calls fail.
    #[serde(default)]
    pub recover: i64,
    /// A call without an answer is sent a second time after so long; 0: never.
    #[serde(default)]
    pub hedge: i64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub size: u32,
    /// One pool for each process of the caller, each servlet of the caller's visits, each candidate.
    #[serde(default)]
    pub per_process: bool,
    #[serde(default)]
    pub per_servlet: bool,
    #[serde(default)]
    pub per_candidate: bool,
    /// Taken at the first call of a visit and kept to its end, instead of for each call.
    #[serde(default)]
    pub for_visit: bool,
    /// Cross-tier priority: light before heavy, and no heavy one while more than this many light
    /// ones hold a connection or wait for one.
    #[serde(default)]
    pub priority: Option<u32>,
}

/// The policy that chooses a call's candidate. The first four are mod_jk's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Policy {
    TotalRequest,
    TotalTraffic,
    CurrentLoad,
    Sessions,
    #[default]
    RoundRobin,
    Random,
    LeastConnections,
    PowerOfTwo,
    /// Peak exponentially weighted response time × outstanding; decays over this time.
    PeakEwma {
        decay: i64,
    },
    /// Shortest queue of the server itself, at the last reading.
    ShortestQueue {
        every: i64,
    },
    /// Of a few drawn candidates, the fastest without unusually many requests inside.
    Prequal,
}

/// What a call does if its candidate's pool is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Endpoint {
    /// Waits in line.
    #[default]
    Wait,
    /// mod_jk's original: tries again every `step` until `timeout`, holding its worker, without
    /// changing the candidate's state; then the candidate is busy and another is chosen.
    Poll { step: i64, timeout: i64 },
    /// The papers' modified version: the candidate is busy at once and another is chosen.
    Skip,
}

/// The sender of a SYN.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Syn {
    /// Times of the repetitions, after the first attempt.
    pub repeats: Vec<i64>,
    pub give_up: i64,
    /// Repeats of the first data when the last ACK of the handshake met a full accept queue (the second drop mode).
    #[serde(default)]
    pub data_repeats: Vec<i64>,
}

impl Default for Syn {
    /// Linux since 6.5 (`tcp_syn_linear_timeouts` = 4).
    fn default() -> Self {
        let seconds = [1, 2, 3, 4, 5, 7, 11, 19, 35, 67];
        Syn {
            repeats: seconds.iter().map(|s| s * 1_000_000_000).collect(),
            give_up: 131_000_000_000,
            data_repeats: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    /// Clients are assigned to these in turn.
    pub entries: Vec<u32>,
    pub arrivals: Arrivals,
    pub choice: Choice,
    /// Objects fetched one after another when a page has arrived.
    #[serde(default)]
    pub embedded: Vec<u32>,
    /// They are fetched and not counted: a page is complete when it has arrived itself.
    #[serde(default)]
    pub embedded_apart: bool,
    #[serde(default)]
    pub kept: bool,
    #[serde(default)]
    pub syn: Syn,
    /// The client gives up waiting (0: never), and repeats this many times after `retry_pause`.
    #[serde(default)]
    pub timeout: i64,
    #[serde(default)]
    pub retries: u32,
    #[serde(default)]
    pub retry_pause: i64,
    /// A second request is sent when the first has not been answered by then (0: never); the first
    /// answer wins.
    #[serde(default)]
    pub hedge: i64,
    /// The second request goes to the next of the entries.
    #[serde(default)]
    pub hedge_elsewhere: bool,
    /// A request and its repetitions count as one.
    #[serde(default)]
    pub retried_as_one: bool,
    /// Repetitions come from a bucket: each first attempt adds this share of one, each repetition
    /// takes one. None: no such limit.
    #[serde(default)]
    pub retry_budget: Option<f64>,
    #[serde(default)]
    pub begin: i64,
    #[serde(default)]
    pub end: Option<i64>,
}

/// The recorded speed of a group, as a share of its full one: `left` of it from each time to the next.
/// With nothing left it accepts no connection, as a frozen one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    pub group: u32,
    pub times: Vec<i64>,
    pub left: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    pub begin: i64,
    pub end: i64,
    /// Its name in the truth.
    pub kind: String,
    pub effect: Effect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Effect {
    /// The group runs at this share of its speed (a lower clock rate).
    Slow { group: u32, left: f64 },
    /// The group does not run at all, uses no CPU and accepts no connection (SIGSTOP).
    Freeze { group: u32 },
    /// The node's CPUs wait for the disk, this share of them.
    Iowait { node: u32, blocks: f64 },
    /// Another group's threads run without end (a neighbour).
    Burn { group: u32, threads: u32 },
    /// All threads of the group wait for pages that are reclaimed or read back from the disk.
    Memory { group: u32 },
    /// A worker that takes a visit of these classes (empty: of any) waits for a lock until the stall
    /// ends.
    Lock { server: u32, classes: Vec<u32> },
    /// The processes of the server end, and new ones begin.
    Restart { server: u32 },
    /// The network loses this share of what these servers (empty: all senders) send to a server.
    PacketLoss {
        server: u32,
        senders: Vec<u32>,
        share: f64,
    },
}

fn one() -> f64 {
    1.0
}

fn one_file() -> u32 {
    1
}

fn one_process() -> u32 {
    1
}
