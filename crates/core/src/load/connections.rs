//! The connections of a worker, and the kernel's names for them.
//!
//! A socket is used for one connection after another: with many connections, creating and closing
//! sockets costs more than connecting them.

use super::client::NONE;
use super::response::Response;
use super::socket;
use rustc_hash::FxHashMap;
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use std::net::IpAddr;

pub struct Connection {
    pub fd: OwnedFd,
    pub route: Route,
    /// The client; [`NONE`]: finished.
    pub client: u32,
    /// Left for the server to close.
    pub left: bool,
    /// The events registered with epoll.
    pub heard: EventFlags,
    pub connected: bool,
    /// The other end sends no more.
    pub ended: bool,
    /// Bytes of the request that the kernel has taken.
    pub taken: usize,
    /// SYNs that were lost.
    pub drops: u8,
    /// Segments that were repeated before the request.
    pub repeated: u32,
    pub response: Response,
}

/// A place is reused, each time with the next `turn`, which identifies events of an earlier use.
#[derive(Default)]
struct Place {
    turn: u32,
    /// The turn in which the socket was registered with epoll.
    told: u32,
    connection: Option<Connection>,
}

/// What a socket can be reused for: a target of the same family, from the same source address.
pub type Route = (bool, Option<IpAddr>);

/// The most idle sockets: enough for all answers that come at once, and few compared with the limit
/// of a process.
const RESTING_MAX: usize = 1024;

#[derive(Default)]
pub struct Connections {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Sockets whose connections are over, ready for reuse, and their number.
    resting: FxHashMap<Route, Vec<u32>>,
    rest: usize,
}

impl Connections {
    /// Sockets that are connected or connecting.
    pub fn open(&self) -> usize {
        self.places.len() - self.free.len() - self.rest
    }

    /// Sockets in all.
    pub fn sockets(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn add(&mut self, fd: OwnedFd, route: Route, client: u32) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        place.turn = place.turn.wrapping_add(1);
        place.told = place.turn;
        place.connection = Some(Connection {
            fd,
            route,
            client,
            left: false,
            heard: EventFlags::empty(),
            connected: false,
            ended: false,
            taken: 0,
            drops: 0,
            repeated: 0,
            response: Response::default(),
        });
        at
    }

    /// An idle socket, for a new connection.
    pub fn wake(&mut self, route: Route, client: u32) -> Option<u32> {
        let at = self.resting.get_mut(&route)?.pop()?;
        self.rest -= 1;
        let place = self.places.get_mut(at as usize)?;
        place.turn = place.turn.wrapping_add(1);
        let connection = place.connection.as_mut()?;
        connection.client = client;
        connection.connected = false;
        connection.ended = false;
        connection.taken = 0;
        connection.response.clear();
        Some(at)
    }

    /// The connection is over on both sides; its socket can be connected again.
    pub fn rest(&mut self, at: u32) {
        let enough = self.rest == RESTING_MAX;
        let Some(connection) = self.get(at) else {
            return;
        };
        // Kernels before 5.6 continue counting, so its repetitions would count for the next
        // connection.
        if enough || connection.repeated > 0 || socket::disconnect(&connection.fd).is_err() {
            return self.close(at);
        }
        connection.client = NONE;
        let route = connection.route;
        self.resting.entry(route).or_default().push(at);
        self.rest += 1;
    }

    /// Closes an idle socket, if there is one, because a socket of another kind is needed.
    pub fn close_resting(&mut self) -> bool {
        let Some(at) = self.resting.values_mut().find_map(Vec::pop) else {
            return false;
        };
        self.rest -= 1;
        self.close(at);
        true
    }

    /// What epoll reports about it.
    pub fn token(&self, at: u32) -> u64 {
        u64::from(self.places[at as usize].told) << 32 | u64::from(at)
    }

    /// The place that a token of epoll means, unless its socket is gone.
    pub fn find(&self, token: u64) -> Option<u32> {
        let at = token as u32;
        let place = self.places.get(at as usize)?;
        (place.connection.is_some() && u64::from(place.told) == token >> 32).then_some(at)
    }

    /// The token of this use of the socket.
    pub fn turn(&self, at: u32) -> u64 {
        u64::from(self.places[at as usize].turn) << 32 | u64::from(at)
    }

    /// Whether it is still left for the server to close.
    pub fn is_left(&self, turn: u64) -> bool {
        let place = self.places.get(turn as u32 as usize);
        place.is_some_and(|place| {
            let left = place.connection.as_ref().is_some_and(|found| found.left);
            left && u64::from(place.turn) == turn >> 32
        })
    }

    pub fn get(&mut self, at: u32) -> Option<&mut Connection> {
        self.places.get_mut(at as usize)?.connection.as_mut()
    }

    pub fn close(&mut self, at: u32) {
        if let Some(place) = self.places.get_mut(at as usize) {
            if place.connection.take().is_some() {
                self.free.push(at);
            }
        }
    }
}
