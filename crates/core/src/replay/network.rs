//! The programs at given capacities: arrivals, waiting, drops and departures.
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::choice::{Chooser, Choosing};
use super::path::{caller, Paths};
use super::pieces::Grid;
use super::program::{Program, Step, Visits};

/// How a server serves, and the most that it holds (0: any number).
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// So many jobs work at full speed at the same time: the cores, or more where jobs also sleep and wait.
    pub cores: f64,
    /// Jobs are served one after the other, and not all at once.
    pub in_turn: bool,
    /// In turn: visits whose call was answered come before those that are new.
    pub answers_first: bool,
    /// Workers; a visit holds one from its start to its departure.
    pub workers: u32,
    /// Places of the accept queue, for visits that wait for a worker, or for a stopped server to
    /// continue.
    pub accept: u32,
    /// Places for all visits inside.
    pub inside: u32,
    /// With less than this share of its speed, the server accepts nothing.
    pub still: f64,
    /// The thread that accepts connections waits until each job that runs has had so many
    /// nanoseconds of work (0: it goes first).
    pub slice: f64,
}

pub(super) const NOBODY: u32 = u32::MAX;
/// The time of what does not happen.
pub const NEVER: i64 = i64::MAX;

/// Columns about visits have a value for each visit.
#[derive(Clone)]
pub struct Network {
    pub visits: Visits,
    pub program: Program,
    /// Nanoseconds at full speed, a value a part.
    pub works: Vec<f64>,
    pub limits: Vec<Limits>,
    pub grid: Grid,
    /// Whether an attempt to reach its server can be lost.
    pub may_drop: Vec<bool>,
    /// For a root, the index of the root after whose answer its client sent it, or -1. The recorded
    /// time between the two is kept.
    pub follows: Vec<i64>,
    /// For a visit that its caller sent because an earlier one was slow or had failed, the index of that one, or -1;
    /// and how long its caller waited for it. If that one is answered sooner, this one is not sent.
    pub repeats: Vec<i64>,
    pub patience: Vec<i64>,
    /// When a lost attempt is repeated, counted from the first; after the last of these the sender
    /// gives up.
    pub schedule: Vec<i64>,
    /// The pool of each visit's call (an index of `pools`), or `u32::MAX`.
    pub pool: Vec<u32>,
    /// The number of connections of each pool.
    pub pools: Vec<u32>,
    /// The pool for which each visit's caller waited before it took another way (an index of
    /// `pools`), or `u32::MAX`. It waits as long as recorded where that pool is full again.
    pub held: Vec<u32>,
    /// The choice that its caller made (an index of `choices`), or `u32::MAX`.
    pub choice: Vec<u32>,
    /// The candidates of each choice: the server, and the pool of the calls to it.
    pub choices: Vec<Vec<(u32, u32)>>,
    /// The bytes of each visit's request and answer, which some policies count.
    pub bytes: Vec<u64>,
}

/// What held up each visit, in nanoseconds: its packets on their way to the server, and its worker after it took the
/// visit. An empty column holds up nothing.
#[derive(Clone, Default)]
pub struct Held {
    pub late: Vec<i64>,
    pub pause: Vec<i64>,
    /// What each visit needs, if not all of them need a place.
    pub needs: Vec<Needs>,
    /// How many nanoseconds each visit works at most at a time, if not all of them work as long as recorded.
    pub most: Vec<i64>,
    /// Roots that are sent at their time, whatever their clients wait for. The next request of such a client is sent at
    /// its own time, too.
    pub apart: Vec<bool>,
    /// Which calls are attempts that are made otherwise, if not all are made as recorded.
    pub attempts: Vec<Attempt>,
}

/// Whether and how a call is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    AsRecorded,
    Never,
    /// Its caller does not give it up.
    Patient,
}

/// What a visit needs of its server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A connection, a worker, and a core for its work.
    Place,
    /// A core, but neither a connection nor a worker.
    Core,
    /// Nothing: its work is a wait for something else.
    Nothing,
}

impl Held {
    pub(super) fn needs(&self, visit: u32) -> Needs {
        let needs = self.needs.get(visit as usize);
        needs.copied().unwrap_or(Needs::Place)
    }

    /// The work of a part of the visit, of which `recorded` is the recorded work.
    fn work(&self, visit: u32, recorded: f64) -> f64 {
        let most = self.most.get(visit as usize);
        most.map_or(recorded, |&most| recorded.min(most as f64))
    }

    fn is_apart(&self, visit: usize) -> bool {
        self.apart.get(visit).is_some_and(|&apart| apart)
    }

    pub(super) fn needs_place(&self, visit: u32) -> bool {
        self.needs(visit) == Needs::Place
    }

    pub(super) fn attempt(&self, visit: u32) -> Attempt {
        let attempt = self.attempts.get(visit as usize);
        attempt.copied().unwrap_or(Attempt::AsRecorded)
    }
}

/// When each visit was first sent, arrived and left (`NEVER`: not at all), and how many of its
/// attempts were lost.
pub struct Outcome {
    pub sent: Vec<i64>,
    pub arrival: Vec<i64>,
    pub departure: Vec<i64>,
    pub lost: Vec<u8>,
}

impl Network {
    /// Run it. `sent` is when each root is sent (`NEVER`: not at all), `capacity` the share of full
    /// speed by server and step, `choosing` how each choice is made.
    pub fn run(
        &self,
        capacity: &[Vec<f64>],
        sent: &[i64],
        choosing: &[Choosing],
        held: &Held,
    ) -> Outcome {
        let mut state = State::new(self, capacity, choosing, held);
        let waits = |visit: usize| {
            let chained = |before: usize| sent[before] < NEVER && !held.is_apart(before);
            !held.is_apart(visit) && usize::try_from(self.follows[visit]).is_ok_and(chained)
        };
        state.paths = Paths::of(&self.visits, held, sent, waits);
        let mut roots = Vec::new();
        for (visit, &time) in sent.iter().enumerate() {
            if self.visits.parent[visit] < 0 && time < NEVER && !waits(visit) {
                match self.pools.get(self.pool[visit] as usize) {
                    // A call whose parent is not known needs a connection as the others do.
                    Some(_) => state.at(time, Event::Sends(visit as u32)),
                    None => roots.push((state.is_sent(visit as u32, time), visit as u32)),
                }
            }
        }
        for (visit, &before) in self.follows.iter().enumerate() {
            if let (Ok(before), true) = (usize::try_from(before), sent[visit] < NEVER) {
                if waits(visit) {
                    state.next_of[before] = visit as u32;
                }
            }
        }
        // The first attempts of roots are known from the beginning. Among the events, they would
        // make each other one slower.
        roots.sort_by_key(|root| root.0);
        let mut roots = roots.into_iter().peekable();
        loop {
            let next = state.events.peek().map(|Reverse((time, ..))| *time);
            match roots.next_if(|root| next.is_none_or(|time| root.0 <= time)) {
                Some((time, visit)) => state.arrives(visit, time),
                None => match state.events.pop() {
                    Some(Reverse((time, _, event))) => state.happens(event, time),
                    None => return state.out,
                },
            }
        }
    }

    /// From sending to arriving, if no attempt was lost.
    fn latency(&self, visit: usize) -> i64 {
        let lasted = self.visits.arrival[visit] - self.visits.sent[visit];
        let was_lost = self
            .schedule
            .first()
            .is_some_and(|&first| lasted * 2 > first);
        if was_lost {
            0
        } else {
            lasted.max(0)
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Job {
    pub(super) end: f64,
    visit: u32,
}

impl Eq for Job {}
impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Job) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Job {
    fn cmp(&self, other: &Job) -> Ordering {
        other
            .end
            .total_cmp(&self.end)
            .then(other.visit.cmp(&self.visit))
    }
}

#[derive(Default)]
pub(super) struct Server {
    pub(super) jobs: BinaryHeap<Job>,
    /// Jobs that wait for their turn, with their work: those that go first, and the others.
    ahead: VecDeque<(u32, f64)>,
    line: VecDeque<(u32, f64)>,
    /// What one job has attained since the beginning.
    pub(super) attained: f64,
    now: i64,
    pub(super) in_service: u32,
    pub(super) accept_queue: VecDeque<u32>,
    /// What one job has attained when the thread that accepts has its next turn.
    pub(super) turn: f64,
    /// Whether that turn comes before the next completion.
    turns_first: bool,
    /// Completions that were scheduled for an earlier version are ignored.
    version: u32,
    pub(super) resumes: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Arrives(u32),
    Completes(u32, u32),
    Resumes(u32),
    /// A caller that waited for another pool sends its call.
    Sends(u32),
    /// What held up the worker of a visit is over.
    Proceeds(u32),
    /// The caller of a visit stops waiting for it.
    GivesUp(u32),
}

pub(super) struct State<'a> {
    pub(super) net: &'a Network,
    pub(super) capacity: &'a [Vec<f64>],
    pub(super) held: &'a Held,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    turn: u64,
    pub(super) servers: Vec<Server>,
    /// For each visit its next step, the visit that it waits for, and the root that its client
    /// sends after it.
    pub(super) next: Vec<u32>,
    pub(super) waits_for: Vec<u32>,
    pub(super) next_of: Vec<u32>,
    /// Whether its caller went on: with the answer, or without it.
    pub(super) back: Vec<bool>,
    pub(super) out: Outcome,
    /// Free connections, and the visits that wait for one.
    pub(super) pools: Vec<(u32, VecDeque<u32>)>,
    /// The server of each visit, and its pool.
    pub(super) place: Vec<u32>,
    pub(super) pool: Vec<u32>,
    pub(super) choosers: Vec<Chooser>,
    pub(super) paths: Paths,
}

impl<'a> State<'a> {
    fn new(
        net: &'a Network,
        capacity: &'a [Vec<f64>],
        choosing: &[Choosing],
        held: &'a Held,
    ) -> State<'a> {
        let n = net.visits.len();
        State {
            net,
            capacity,
            held,
            events: BinaryHeap::new(),
            turn: 0,
            servers: net
                .limits
                .iter()
                .map(|_| Server {
                    now: net.grid.begin(),
                    ..Server::default()
                })
                .collect(),
            next: net.program.first[..n].to_vec(),
            waits_for: vec![NOBODY; n],
            next_of: vec![NOBODY; n],
            back: vec![false; n],
            out: Outcome {
                sent: vec![NEVER; n],
                arrival: vec![NEVER; n],
                departure: vec![NEVER; n],
                lost: vec![0; n],
            },
            pools: net
                .pools
                .iter()
                .map(|&size| (size, VecDeque::new()))
                .collect(),
            place: net.visits.server.clone(),
            pool: net.pool.clone(),
            choosers: choosing
                .iter()
                .zip(&net.choices)
                .map(|(choosing, candidates)| Chooser::of(choosing, candidates.len()))
                .collect(),
            paths: Paths::default(),
        }
    }

    pub(super) fn at(&mut self, time: i64, event: Event) {
        self.turn += 1;
        self.events.push(Reverse((time, self.turn, event)));
    }

    pub(super) fn place(&self, visit: u32) -> usize {
        self.place[visit as usize] as usize
    }

    fn happens(&mut self, event: Event, time: i64) {
        match event {
            Event::Arrives(visit) => self.arrives(visit, time),
            Event::Completes(server, version) => self.completes(server, version, time),
            Event::Resumes(server) => self.takes_next(server as usize, time),
            Event::Sends(call) => self.takes_connection(call, time),
            Event::Proceeds(visit) => self.goes_on(visit, time),
            Event::GivesUp(visit) => self.gives_up(visit, time),
        }
    }

    /// The first attempt to reach the server of a visit.
    pub(super) fn attempts(&mut self, visit: u32, now: i64) {
        let arrives = self.is_sent(visit, now);
        self.at(arrives, Event::Arrives(visit));
    }

    /// When the first attempt arrives. A visit that is sent when it was recorded loses its own packet. Others lose one
    /// if the path loses packets at that time.
    fn is_sent(&mut self, visit: u32, now: i64) -> i64 {
        let i = visit as usize;
        self.out.sent[i] = now;
        self.will_give_up(visit, now);
        let late = if self.is_moved(i) {
            let caller = caller(&self.net.visits, &self.place, i);
            self.paths.loses((caller, self.place[i]), now)
        } else {
            self.held.late.get(i).copied().filter(|&late| late > 0)
        };
        now.saturating_add(late.unwrap_or_else(|| self.net.latency(i)))
    }

    /// Whether a visit may be sent at another time than in the recording.
    fn is_moved(&self, i: usize) -> bool {
        let before = usize::try_from(self.net.follows[i]).ok();
        self.net.visits.parent[i] >= 0 || before.is_some_and(|b| self.next_of[b] == i as u32)
    }

    fn arrives(&mut self, visit: u32, now: i64) {
        if self.is_needless(visit) {
            return self.leaves(visit, now);
        }
        if self.back[visit as usize] {
            return; // Its caller gave it up on its way.
        }
        let place = self.place(visit);
        let limits = self.net.limits[place];
        let needs_place = self.held.needs_place(visit);
        let none_left = limits.workers > 0 && self.servers[place].in_service >= limits.workers;
        let must_wait = (needs_place && none_left)
            || self.stops(place, now).is_some()
            || (self.net.may_drop[visit as usize] && self.has_no_turn(place, now));
        let server = &self.servers[place];
        let waiting = server.accept_queue.len() as u32;
        let is_full = (limits.inside > 0 && server.in_service + waiting >= limits.inside)
            || (must_wait && limits.accept > 0 && waiting >= limits.accept);
        if is_full && self.net.may_drop[visit as usize] && needs_place {
            return self.is_lost(visit, now);
        }
        self.out.arrival[visit as usize] = now;
        if must_wait {
            self.servers[place].accept_queue.push_back(visit);
            self.will_resume(place, now);
            if limits.slice > 0.0 {
                self.look_ahead(place);
            }
        } else {
            self.starts(visit, now);
            // Nobody accepts a visit on a kept connection.
            if self.net.may_drop[visit as usize] {
                self.ends_turn(place);
            }
        }
    }

    fn is_lost(&mut self, visit: u32, now: i64) {
        let lost = self.out.lost[visit as usize];
        self.out.lost[visit as usize] = lost.saturating_add(1);
        match self.net.schedule.get(lost as usize) {
            Some(&after) => {
                let again = self.out.sent[visit as usize]
                    .saturating_add(after)
                    .max(now + 1);
                self.at(again, Event::Arrives(visit));
            }
            None => self.leaves(visit, now),
        }
    }

    pub(super) fn starts(&mut self, visit: u32, now: i64) {
        let place = self.place(visit);
        self.servers[place].in_service += u32::from(self.held.needs_place(visit));
        match self.held.pause.get(visit as usize) {
            Some(&pause) if pause > 0 => {
                self.at(now.saturating_add(pause), Event::Proceeds(visit));
            }
            _ => self.goes_on(visit, now),
        }
    }

    pub(super) fn goes_on(&mut self, visit: u32, now: i64) {
        let i = visit as usize;
        while self.next[i] < self.net.program.first[i + 1] {
            let step = self.net.program.steps[self.next[i] as usize];
            self.next[i] += 1;
            match step {
                Step::Work(_) if self.waits_to_repeat(i) => {}
                Step::Work(part) if self.held.needs(visit) == Needs::Nothing => {
                    let waits = self.net.works[part as usize] as i64;
                    return self.at(now.saturating_add(waits), Event::Proceeds(visit));
                }
                Step::Work(part) if self.net.works[part as usize] >= 1.0 => {
                    let is_new = self.net.program.parts[part as usize].is_new();
                    let work = self.held.work(visit, self.net.works[part as usize]);
                    return self.works(visit, work, is_new, now);
                }
                Step::Work(_) => {}
                Step::Send(call) => self.sends(call, now),
                Step::Wait(call) if !self.back[call as usize] => {
                    self.waits_for[i] = call;
                    return;
                }
                Step::Wait(_) => {}
            }
        }
        let place = self.place(visit);
        self.servers[place].in_service -= u32::from(self.held.needs_place(visit));
        self.leaves(visit, now);
        self.takes_next(place, now);
    }

    fn works(&mut self, visit: u32, work: f64, is_new: bool, now: i64) {
        let place = self.place(visit);
        self.advance(place, now);
        let (server, limits) = (&mut self.servers[place], self.net.limits[place]);
        if limits.in_turn && server.jobs.len() as f64 >= limits.cores {
            let line = match limits.answers_first && !is_new {
                true => &mut server.ahead,
                false => &mut server.line,
            };
            return line.push_back((visit, work));
        }
        server.jobs.push(Job {
            end: server.attained + work,
            visit,
        });
        self.look_ahead(place);
    }

    pub(super) fn leaves(&mut self, visit: u32, now: i64) {
        self.out.departure[visit as usize] = now;
        if !self.back[visit as usize] {
            self.comes_back(visit, now);
        }
    }

    fn completes(&mut self, place: u32, version: u32, now: i64) {
        let place = place as usize;
        if self.servers[place].version != version {
            return;
        }
        self.advance(place, now);
        let server = &mut self.servers[place];
        if server.turns_first {
            server.attained = server.attained.max(server.turn);
            self.look_ahead(place);
            return self.takes_next(place, now);
        }
        let Some(job) = server.jobs.pop() else { return };
        server.attained = server.attained.max(job.end);
        let next = server.ahead.pop_front().or_else(|| server.line.pop_front());
        if let Some((visit, work)) = next {
            server.jobs.push(Job {
                end: server.attained + work,
                visit,
            });
        }
        self.look_ahead(place);
        self.goes_on(job.visit, now);
        // The job that has ended may be the last that the thread that accepts waited for.
        if self.net.limits[place].slice > 0.0 {
            self.takes_next(place, now);
        }
    }

    /// What each job at a server attains per nanosecond at full speed.
    fn share(&self, place: usize) -> f64 {
        (self.net.limits[place].cores / self.servers[place].jobs.len().max(1) as f64).min(1.0)
    }

    pub(super) fn advance(&mut self, place: usize, until: i64) {
        let (share, grid) = (self.share(place), self.net.grid);
        let server = &mut self.servers[place];
        while !server.jobs.is_empty() && server.now < until {
            let step = grid.at(server.now);
            let end = if grid.is_last(step) {
                until
            } else {
                until.min(grid.end_of(step)).max(server.now + 1)
            };
            server.attained += (end - server.now) as f64 * share * self.capacity[place][step];
            server.now = end;
        }
        server.now = server.now.max(until);
    }

    /// Schedule the next completion of a server.
    pub(super) fn look_ahead(&mut self, place: usize) {
        let (share, grid) = (self.share(place), self.net.grid);
        let server = &mut self.servers[place];
        server.version = server.version.wrapping_add(1);
        let version = server.version;
        let Some(job) = server.jobs.peek() else {
            return;
        };
        server.turns_first = !server.accept_queue.is_empty()
            && server.attained < server.turn
            && server.turn < job.end;
        let next = if server.turns_first {
            server.turn
        } else {
            job.end
        };
        let (mut left, mut now) = ((next - server.attained).max(0.0), server.now);
        loop {
            let step = grid.at(now);
            let rate = share * self.capacity[place][step];
            let room = if grid.is_last(step) {
                f64::INFINITY
            } else {
                (grid.end_of(step) - now) as f64 * rate
            };
            if left <= room {
                let takes = (left / rate).ceil();
                if takes < NEVER as f64 / 4.0 {
                    self.at(
                        now.saturating_add(takes as i64),
                        Event::Completes(place as u32, version),
                    );
                }
                return;
            }
            left -= room;
            now = grid.end_of(step);
        }
    }
}
