//! The requests inside the system: each stay in a server, from the caller's wish to its answer.

use crate::rng::Stream;

/// No stay, no pool, no client.
pub const NONE: u32 = u32::MAX;

/// The end of a stay, as an index into the names of statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    #[default]
    Ok,
    /// Something that it needed was not available.
    Failed,
    /// Every SYN was lost.
    TimedOut,
    /// Its client stopped waiting.
    Abandoned,
}

pub const STATUSES: [&str; 4] = ["ok", "503", "timeout", "abandoned"];

#[derive(Clone, Debug)]
pub struct Stay {
    pub visit: u64,
    /// The visit at the root.
    pub request: u64,
    pub stream: Stream,
    pub sent: i64,
    /// Before it: below 0.
    pub arrival: i64,
    pub start: i64,
    /// When the current calls began, and how long earlier ones took.
    pub calling_since: i64,
    pub downstream: i64,
    /// The caller's stay, which may be gone once this one is `abandoned`; at the root [`NONE`], and
    /// `client` is the sender, whose number in the tables is `asker`.
    pub parent: u32,
    /// The caller's visit and server, for the tables.
    pub caller_visit: u64,
    pub caller: u32,
    /// The class of the request that this stay is made for.
    pub asked_for: u32,
    /// When the call is sent a second time, unless it was answered; 0: never.
    pub hedges: i64,
    /// The same call, sent to another candidate, or [`NONE`]. Both count as one.
    pub other: u32,
    pub client: u32,
    pub asker: u32,
    /// The row of its request among the factors of all traces, or [`NONE`].
    pub row: u32,
    /// The next stay in its line, or the next free place.
    pub next: u32,
    pub server: u32,
    pub class: u32,
    /// The next step, as an index into the steps of all programs.
    pub step: u32,
    /// Current calls.
    pub out: u32,
    /// The step of the caller that made it, and how many calls of this step follow it.
    pub by: u32,
    pub after: u32,
    pub process: u32,
    /// The caller's connector and candidate that this stay was called through, and the pooled connection it uses.
    pub connector: u32,
    pub candidate: u32,
    pub pool: u32,
    /// A pooled connection held to the end of this stay, and to which candidate.
    pub held: u32,
    pub held_candidate: u32,
    /// Candidates of a call that were unavailable when it began, or found so later.
    pub tried: u32,
    /// It has found all of them unavailable before, and has still tried those in error.
    pub tried_again: bool,
    pub forced: bool,
    /// When it began to try for a free connection now and then.
    pub since: i64,
    /// How many were inside its server when a limit admitted it; 0: no limit did.
    pub abreast: u32,
    pub drops: u8,
    pub data_drops: u8,
    pub status: Status,
    pub kept: bool,
    /// Has a worker.
    pub works: bool,
    /// Has written to the log.
    pub logged: bool,
    /// It was sent to its server.
    pub flew: bool,
    /// It counts as a light one that holds a connection or waits for one: as a call, and for the
    /// calls it makes.
    pub counted: bool,
    pub counted_to_the_end: bool,
    /// Its client or its caller stopped waiting.
    pub abandoned: bool,
    /// Goes into the tables.
    pub recorded: bool,
    /// Calls under way.
    pub flying: u32,
}

impl Stay {
    #[inline(always)]
    fn new(request: u64, stream: Stream, class: u32, parent: u32) -> Self {
        Stay {
            visit: 0,
            request,
            stream,
            sent: 0,
            arrival: -1,
            start: 0,
            calling_since: 0,
            downstream: 0,
            parent,
            caller_visit: 0,
            caller: NONE,
            asked_for: class,
            hedges: 0,
            other: NONE,
            client: NONE,
            asker: 0,
            row: NONE,
            next: NONE,
            server: NONE,
            class,
            step: 0,
            out: 0,
            by: 0,
            after: 0,
            process: 0,
            connector: 0,
            candidate: 0,
            pool: NONE,
            held: NONE,
            held_candidate: 0,
            tried: 0,
            tried_again: false,
            forced: false,
            since: 0,
            abreast: 0,
            drops: 0,
            data_drops: 0,
            status: Status::Ok,
            kept: false,
            works: false,
            logged: false,
            flew: false,
            counted: false,
            counted_to_the_end: false,
            abandoned: false,
            recorded: false,
            flying: 0,
        }
    }

    #[inline]
    pub fn is_root(&self) -> bool {
        self.parent == NONE
    }
}

#[derive(Default)]
pub struct Stays {
    all: Vec<Stay>,
    free: u32,
    open: usize,
}

impl Stays {
    pub fn new() -> Self {
        Stays {
            all: Vec::new(),
            free: NONE,
            open: 0,
        }
    }

    /// All stays in the system.
    pub fn open(&self) -> usize {
        self.open
    }

    /// A new stay: its number, and its place.
    #[inline(always)]
    pub fn add(
        &mut self,
        request: u64,
        stream: Stream,
        class: u32,
        parent: u32,
    ) -> (u32, &mut Stay) {
        self.open += 1;
        if self.free == NONE {
            self.free = self.all.len() as u32;
            self.all.push(Stay::new(0, stream, 0, NONE));
        }
        let number = self.free;
        let place = &mut self.all[number as usize];
        self.free = place.next;
        *place = Stay::new(request, stream, class, parent);
        (number, place)
    }

    #[inline]
    pub fn remove(&mut self, number: u32) {
        self.open -= 1;
        let place = &mut self.all[number as usize];
        (place.next, place.hedges) = (self.free, 0);
        self.free = number;
    }
}

impl std::ops::Index<u32> for Stays {
    type Output = Stay;
    #[inline]
    fn index(&self, number: u32) -> &Stay {
        &self.all[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Stays {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Stay {
        &mut self.all[number as usize]
    }
}

/// Lines of stays, one for each rank: the first of the lowest rank is next, or the last of it.
pub struct Ranked {
    lines: Vec<Line>,
    len: u32,
    newest_first: bool,
}

impl Ranked {
    pub fn new(ranks: u32, newest_first: bool) -> Self {
        Ranked {
            lines: vec![Line::default(); ranks as usize],
            len: 0,
            newest_first,
        }
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are ranks.
    #[inline]
    pub fn ranks(&self) -> bool {
        self.lines.len() > 1
    }

    #[inline]
    pub fn push(&mut self, stays: &mut Stays, number: u32, rank: u32) {
        let line = &mut self.lines[rank as usize];
        if self.newest_first {
            line.push_first(stays, number);
        } else {
            line.push(stays, number);
        }
        self.len += 1;
    }

    #[inline]
    pub fn pop(&mut self, stays: &Stays) -> Option<u32> {
        let next = self.lines.iter_mut().find_map(|line| line.pop(stays))?;
        self.len -= 1;
        Some(next)
    }
}

/// A line of stays, first in, first out; the links are in the stays.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Line {
    fn default() -> Self {
        Line {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }
}

impl Line {
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub fn push(&mut self, stays: &mut Stays, number: u32) {
        stays[number].next = NONE;
        if self.len == 0 {
            self.head = number;
        } else {
            stays[self.tail].next = number;
        }
        self.tail = number;
        self.len += 1;
    }

    pub fn push_first(&mut self, stays: &mut Stays, number: u32) {
        if self.len == 0 {
            return self.push(stays, number);
        }
        stays[number].next = self.head;
        self.head = number;
        self.len += 1;
    }

    #[inline]
    pub fn pop(&mut self, stays: &Stays) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let number = self.head;
        self.head = stays[number].next;
        self.len -= 1;
        Some(number)
    }
}
