//! The connections of a worker, and what the kernel calls them.
//!
//! A socket is used for one connection after another: where many are made, making and closing sockets costs more than
//! connecting them.

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
    /// Whose it is; [`NONE`]: done with.
    pub client: u32,
    /// For the server to close.
    pub left: bool,
    /// What epoll was asked to tell of it.
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

/// A place is used again, each time by the next `turn`: news for an earlier one is recognised.
#[derive(Default)]
struct Place {
    turn: u32,
    /// The turn in which epoll was told of the socket.
    told: u32,
    connection: Option<Connection>,
}

/// What a socket is good for: another target of the same family, from the same address.
pub type Route = (bool, Option<IpAddr>);

/// Sockets that rest at most: enough for all answers that come at once, few beside those that a process can have.
const RESTING_MAX: usize = 1024;

#[derive(Default)]
pub struct Connections {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Sockets whose connections are over, to be connected again, and how many.
    resting: FxHashMap<Route, Vec<u32>>,
    rest: usize,
}

impl Connections {
    /// Sockets that are connected or about to be.
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

    /// A socket that rests, for a new connection.
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
        // What it repeated would be taken for the next one's by kernels before 5.6, which go on counting.
        if enough || connection.repeated > 0 || socket::disconnect(&connection.fd).is_err() {
            return self.close(at);
        }
        connection.client = NONE;
        let route = connection.route;
        self.resting.entry(route).or_default().push(at);
        self.rest += 1;
    }

    /// Closes a socket that rests, if one does: somebody needs one of another kind.
    pub fn close_resting(&mut self) -> bool {
        let Some(at) = self.resting.values_mut().find_map(Vec::pop) else {
            return false;
        };
        self.rest -= 1;
        self.close(at);
        true
    }

    /// What epoll says of it.
    pub fn token(&self, at: u32) -> u64 {
        u64::from(self.places[at as usize].told) << 32 | u64::from(at)
    }

    /// The place that a token of epoll means, unless its socket is gone.
    pub fn find(&self, token: u64) -> Option<u32> {
        let at = token as u32;
        let place = self.places.get(at as usize)?;
        (place.connection.is_some() && u64::from(place.told) == token >> 32).then_some(at)
    }

    /// What stands for this use of the socket.
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
