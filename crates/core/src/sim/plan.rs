//! What is simulated, with every name turned into an index: the form `tailrace.sim` lowers an experiment to (JSON).
//!
//! Times are whole nanoseconds since the begin of the run, work is nanoseconds of one core at full speed, sizes are bytes.
//! An index points into the list of its kind: `node` into `nodes`, `group` into `groups`, `server`, `entries` and
//! `candidates` into `servers`, `class` into `classes`, `program` into `programs`; `connector` into its server's own list.

pub use crate::workload::plan::{Arrivals, Chain, Choice, Time, Walk};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub seed: u64,
    /// Another replication draws from other streams.
    #[serde(default)]
    pub replication: u64,
    /// Begin of the run, ns since the Unix epoch.
    pub epoch: i64,
    /// Clients send nothing after this; what is under way is finished.
    pub duration: i64,
    /// Requests sent earlier, their visits, earlier samples and events that were over are not written (the ramp).
    #[serde(default)]
    pub record_from: i64,
    /// Sampling interval; 0: no samples.
    #[serde(default)]
    pub sample: i64,
    /// Work that a sampling costs each group that holds a server.
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
}

/// A machine: what shares its CPUs, its clock rate and its disk.
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

/// What guests see of the CPU time that they wanted and other groups got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steal {
    #[default]
    Hidden,
    /// As `cpu_steal`.
    Shown,
    /// As their own use of the CPU.
    Busy,
}

/// Steps through P-states by the use of the CPU in its last period (`lightning` 3.2: 500 ms, 1.12 to 2.26 GHz).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Governor {
    pub period: i64,
    /// Clock rates, slowest first; the last is full speed.
    pub hz: Vec<f64>,
    /// At or above this use: up; below `down`: down.
    pub up: f64,
    pub down: f64,
    /// Straight to the fastest instead of one step.
    #[serde(default)]
    pub up_at_once: bool,
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

/// The page cache (`vm.dirty_*`): every `period`, files that have been dirty for `expire` are written, and all of them as
/// soon as `background` bytes are dirty; from `limit` on whoever writes waits for the disk. While it writes, `blocks` of
/// the node's CPU time waits for I/O.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writeback {
    /// The first time it wakes: nodes do not in step. None: after a period, or drawn.
    #[serde(default)]
    pub first: Option<i64>,
    /// The ages that files have at the begin are drawn.
    #[serde(default)]
    pub drawn: bool,
    pub period: i64,
    pub expire: i64,
    pub background: f64,
    pub limit: f64,
    pub blocks: f64,
}

/// A logger that writes every `period` what it gathered since: `rate` bytes a second (`rpc-vs-async` IV-B: collectl, 30 s).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    pub period: i64,
    pub first: i64,
    pub bytes_per_second: f64,
    pub blocks: f64,
}

/// What the CPUs are shared between: a guest, a container or a process. Inside, all runnable threads get the same.
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
    /// A worker is held through calls to other servers (synchronous).
    pub holds: bool,
    /// Per process; 0: no limit.
    pub workers: u32,
    #[serde(default = "one_process")]
    pub processes: u32,
    /// A further process after all workers have been busy for a while.
    #[serde(default)]
    pub spawn: Option<Spawn>,
    /// Accepted, and waiting for a worker inside the server.
    #[serde(default)]
    pub light_queue: u32,
    /// Who waits inside for a worker goes by the rank of the request at the root, instead of in the order of arrival.
    #[serde(default)]
    pub lightest_first: bool,
    /// Of listen(): one more fits into the accept queue.
    pub backlog: u32,
    /// By class; none: that class never comes here.
    pub programs: Vec<Option<u32>>,
    #[serde(default)]
    pub connectors: Vec<Connector>,
    #[serde(default)]
    pub heap: Option<Heap>,
    /// Bytes that a visit leaves in the logs (the page cache of its node), and how many files they are spread over.
    #[serde(default)]
    pub log_bytes: f64,
    #[serde(default = "one_file")]
    pub logs: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    pub processes_max: u32,
    /// So long all workers must have been busy.
    pub after: i64,
    /// The new process serves after it has done this much work.
    pub work: i64,
    /// It ends again when so long no more workers were busy than the others have (Apache's MaxSpareThreads); 0: never.
    #[serde(default)]
    pub retire_after: i64,
}

/// A collected heap. A collection stops the server's threads and works `base` + `per_live`·(visits inside), on as many of
/// the group's cores as it has threads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heap {
    pub young_bytes: f64,
    pub bytes_per_visit: f64,
    /// Share of the young generation that is allocated at the begin.
    #[serde(default)]
    pub filled: f64,
    pub young: Collection,
    /// After so many young collections an old one (0: never).
    #[serde(default)]
    pub old_every: u32,
    /// And instead of a young one whenever more visits than this are inside (0: never).
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
    /// The first class of its servlet, which share their pools. Default: itself.
    #[serde(default)]
    pub servlet: Option<u32>,
}

/// One step of what a server does for a class.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Step {
    Compute(Time),
    /// Neither worker nor CPU is given up by a synchronous server; only time passes.
    Wait(Time),
    Call(Call),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub connector: u32,
    pub class: u32,
    /// How many; a fraction is the chance of one more.
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
    /// Connections are kept: no SYN, nothing to drop.
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
    /// A candidate that cannot be connected to is in error for so long, and calls go to another; 0: they fail.
    #[serde(default)]
    pub recover: i64,
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
    /// Cross-tier priority: light before heavy, and no heavy one while more than this many light ones hold or want one.
    #[serde(default)]
    pub priority: Option<u32>,
}

/// Which candidate a call goes to. The first four are mod_jk's.
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
    /// Shortest queue of the server itself, as it was at the last look.
    ShortestQueue {
        every: i64,
    },
}

/// What a call does that finds its candidate's pool empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Endpoint {
    /// Waits in line.
    #[default]
    Wait,
    /// mod_jk's original: looks again every `step` until `timeout`, its worker held, the candidate's state untouched;
    /// then the candidate is busy and another is chosen.
    Poll { step: i64, timeout: i64 },
    /// The papers' modified one: the candidate is busy at once and another is chosen.
    Skip,
}

/// The sender of a SYN.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Syn {
    /// Repeats, after the first attempt.
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
    /// Clients are spread over these in turn.
    pub entries: Vec<u32>,
    pub arrivals: Arrivals,
    pub choice: Choice,
    /// Objects fetched one after another when a page has come.
    #[serde(default)]
    pub embedded: Vec<u32>,
    /// They are fetched and not counted: a page has come when it has come itself.
    #[serde(default)]
    pub embedded_apart: bool,
    #[serde(default)]
    pub kept: bool,
    #[serde(default)]
    pub syn: Syn,
    /// The client gives up waiting (0: never), and asks again so many times after `retry_pause`.
    #[serde(default)]
    pub timeout: i64,
    #[serde(default)]
    pub retries: u32,
    #[serde(default)]
    pub retry_pause: i64,
    /// A second request is sent when the first has not answered by then (0: never); the first answer wins.
    #[serde(default)]
    pub hedge: i64,
    #[serde(default)]
    pub begin: i64,
    #[serde(default)]
    pub end: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    pub begin: i64,
    pub end: i64,
    /// How it is named in the truth.
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
