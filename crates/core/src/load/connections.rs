//! The connections of a worker, and what the kernel calls them.

use super::response::Response;
use rustix::fd::OwnedFd;

pub struct Connection {
    pub fd: OwnedFd,
    /// Whose it is; [`super::client::NONE`]: done with, and left for the server to close.
    pub client: u32,
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
    connection: Option<Connection>,
}

#[derive(Default)]
pub struct Connections {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Connections {
    pub fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn add(&mut self, fd: OwnedFd, client: u32) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        place.turn = place.turn.wrapping_add(1);
        place.connection = Some(Connection {
            fd,
            client,
            connected: false,
            ended: false,
            taken: 0,
            drops: 0,
            repeated: 0,
            response: Response::default(),
        });
        at
    }

    pub fn token(&self, at: u32) -> u64 {
        u64::from(self.places[at as usize].turn) << 32 | u64::from(at)
    }

    /// The place that a token means, unless its connection is gone.
    pub fn find(&self, token: u64) -> Option<u32> {
        let at = token as u32;
        let place = self.places.get(at as usize)?;
        (place.connection.is_some() && u64::from(place.turn) == token >> 32).then_some(at)
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
