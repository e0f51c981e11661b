//! The course of one request.

use super::client::NONE;
use super::engine::Load;
use super::log::{Row, Seen};
use super::socket;
use super::status::Status;
use crate::error::Result;
use crate::record::NO_TIME;
use crate::workload::plan::Arrivals;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};

/// No SYN is repeated sooner: the shortest first timeout of any kernel setting is a tick, 1 to 10
/// ms; Linux waits 1 s.
const SYN_REPEATED: i64 = 10_000_000;
/// No data are repeated sooner (Linux: TCP_RTO_MIN, 200 ms, less if a route sets it).
const DATA_REPEATED: i64 = 100_000_000;
/// A client without an answer sends nothing for this time: otherwise a refused connection would be
/// tried 100,000 times a second.
const PAUSE_MIN: i64 = 100_000_000;
/// How long a server may take to close a connection after `Connection: close`, and how many such
/// connections may wait at once. The side that closes first keeps the port for a minute
/// (TIME_WAIT), and the ports are needed here.
const LEAVING: i64 = 1_000_000_000;
const LEAVING_MAX: usize = 1024;

impl Load<'_> {
    /// A client has finished thinking, has arrived, or continues at once.
    pub(super) fn start(&mut self, at: u32, due: i64) -> Result<()> {
        let plan = self.plan;
        let client = &mut self.clients[at as usize];
        let number = client.workload as usize;
        let workload = &plan.workloads[number];
        let ends = workload.end.unwrap_or(plan.duration).min(self.until);
        if due >= ends {
            return Ok(());
        }
        if client.tries == 0 && client.fetched == 0 {
            match client.given.take() {
                Some(class) => client.class = class,
                None => client.choose(&self.sources[number]),
            }
        }
        client.write_request(plan);
        client.intended = due;
        client.connected = NO_TIME;
        client.first_byte = NO_TIME;
        client.asked = client.asked.wrapping_add(1);
        client.open = true;
        client.reused = client.connection != NONE;
        self.open += 1;
        self.asked += 1;
        let now = self.clock.now();
        let token = u64::from(client.asked) << 32 | u64::from(at);
        if plan.requests_max > 0 && self.asked >= plan.requests_max {
            self.until = i64::MIN;
            self.ended = now;
        }
        match client.connection {
            NONE => self.connect(at),
            connection => self.ask_again(at, connection),
        }?;
        if workload.timeout > 0 {
            // A client waits from the moment when it sends, and opening a socket takes its time before.
            let since = self.clients[at as usize].sent.max(now);
            self.deadlines[number].add(since + workload.timeout, token);
        }
        Ok(())
    }

    fn connect(&mut self, at: u32) -> Result<()> {
        let plan = self.plan;
        let client = &mut self.clients[at as usize];
        let (target, from) = client.route(plan);
        let connection = match self.socket(at, target, from) {
            Ok(connection) => connection,
            Err(error) => return self.not_sent(at, error),
        };
        let client = &mut self.clients[at as usize];
        client.connection = connection;
        // A request that was sent before, over a connection that was closed, keeps its first time.
        if !std::mem::take(&mut client.reused) {
            client.sent = self.clock.now();
        }
        let Some(found) = self.connections.get(connection) else {
            return Ok(());
        };
        match socket::connect(&found.fd, target) {
            Ok(()) => {}
            Err(error @ (Errno::ADDRNOTAVAIL | Errno::AGAIN)) => return self.not_sent(at, error),
            Err(error) => return self.finish(at, Status::from(error), self.clock.now()),
        }
        // On one machine the handshake is over when connect() returns, so no event is needed.
        if !self.send(at, connection)? {
            return Ok(());
        }
        match self.listen(at, connection) {
            Ok(()) => Ok(()),
            Err(error) => self.not_sent(at, error),
        }
    }

    /// A socket for a new connection.
    fn socket(
        &mut self,
        at: u32,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> std::result::Result<u32, Errno> {
        let route = (to.is_ipv6(), from);
        // A reconnect may happen while socket events are being processed, and an idle socket might
        // be among them.
        if !self.clients[at as usize].reused {
            if let Some(connection) = self.connections.wake(route, at) {
                return Ok(connection);
            }
        }
        let full = self.connections.sockets() >= self.plan.sockets_max as usize;
        if full && !self.connections.close_resting() {
            return Err(Errno::MFILE);
        }
        let connection = self.connections.add(socket::open(to, from)?, route, at);
        self.report.sockets_most = self.report.sockets_most.max(self.connections.open());
        Ok(connection)
    }

    /// Registers a connection with epoll, unless it is registered already.
    fn listen(&mut self, at: u32, connection: u32) -> std::result::Result<(), Errno> {
        let token = EventData::new_u64(self.connections.token(connection));
        let request = &self.clients[at as usize].request;
        let Some(found) = self.connections.get(connection) else {
            return Ok(());
        };
        let mut wanted = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if found.taken < request.len() {
            wanted |= EventFlags::OUT;
        }
        if found.heard.contains(wanted) {
            return Ok(());
        }
        let known = std::mem::replace(&mut found.heard, wanted);
        match known.is_empty() {
            true => epoll::add(&self.epoll, &found.fd, token, wanted),
            false => epoll::modify(&self.epoll, &found.fd, token, wanted),
        }
    }

    /// The request was never sent: it is counted and has no row, because the server received
    /// nothing.
    fn not_sent(&mut self, at: u32, error: Errno) -> Result<()> {
        match error {
            Errno::ADDRNOTAVAIL | Errno::AGAIN => self.report.no_port += 1,
            _ => self.report.no_socket += 1,
        }
        let now = self.clock.now();
        self.let_go(at, Status::UNREACHABLE, now);
        self.go_on(at, Status::UNREACHABLE, now);
        Ok(())
    }

    fn ask_again(&mut self, at: u32, connection: u32) -> Result<()> {
        let now = self.clock.now();
        let client = &mut self.clients[at as usize];
        client.sent = now;
        if let Some(found) = self.connections.get(connection) {
            found.taken = 0;
            found.drops = 0;
            found.response.clear();
        }
        self.send(at, connection).map(drop)
    }

    /// A kept connection was closed while the request was on its way: a new one replaces it (RFC
    /// 9112, 9.3.1).
    fn reopen(&mut self, at: u32) -> Result<()> {
        let client = &mut self.clients[at as usize];
        self.connections.close(client.connection);
        client.connection = NONE;
        self.connect(at)
    }

    /// Passes data to the kernel; false: the request is over.
    fn send(&mut self, at: u32, connection: u32) -> Result<bool> {
        let client = &mut self.clients[at as usize];
        let Some(found) = self.connections.get(connection) else {
            return Ok(false);
        };
        match socket::send(&found.fd, &client.request[found.taken..]) {
            Ok(Some(n)) => {
                found.taken += n;
                if !found.connected {
                    let now = self.clock.now();
                    found.connected = true;
                    client.connected = now;
                    if now - client.sent >= SYN_REPEATED {
                        found.repeated = socket::repeated(&found.fd);
                        found.drops = u8::try_from(found.repeated).unwrap_or(u8::MAX);
                    }
                }
                Ok(true)
            }
            Ok(None) => Ok(true),
            Err(_) if client.reused => self.reopen(at).map(|()| false),
            Err(error) => {
                self.finish(at, Status::from(error), self.clock.now())?;
                Ok(false)
            }
        }
    }

    /// An event of a socket.
    pub(super) fn hear(&mut self, token: u64, flags: EventFlags) -> Result<()> {
        let over = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let Some(connection) = self.connections.find(token) else {
            return Ok(());
        };
        let Some(found) = self.connections.get(connection) else {
            return Ok(());
        };
        let at = found.client;
        if at == NONE {
            if over && found.left {
                found.left = false;
                self.left -= 1;
                self.connections.rest(connection);
            }
            return Ok(());
        }
        let client = &mut self.clients[at as usize];
        found.ended |= over;
        if !client.open {
            // A kept connection that the server closes, or on which it sends without a request.
            if over || flags.contains(EventFlags::IN) {
                client.connection = NONE;
                self.connections.close(connection);
            }
            return Ok(());
        }
        if found.taken < client.request.len() && !self.send(at, connection)? {
            return Ok(());
        }
        if flags.contains(EventFlags::IN) || over {
            return self.receive(at, connection);
        }
        Ok(())
    }

    fn receive(&mut self, at: u32, connection: u32) -> Result<()> {
        loop {
            let Some(found) = self.connections.get(connection) else {
                return Ok(());
            };
            let came = socket::receive(&found.fd, &mut self.buffer);
            let now = self.clock.now();
            let status = match came {
                Ok(None) => return Ok(()),
                Ok(Some(0)) | Err(_)
                    if found.response.bytes == 0 && self.clients[at as usize].reused =>
                {
                    return self.reopen(at);
                }
                Ok(Some(0)) => {
                    found.ended = true;
                    Some(found.response.closed())
                }
                Ok(Some(n)) => {
                    let client = &mut self.clients[at as usize];
                    if client.first_byte == NO_TIME {
                        client.first_byte = now;
                    }
                    let status = found.response.take(&self.buffer[..n]);
                    if status.is_none() && n < self.buffer.len() && !found.ended {
                        return Ok(());
                    }
                    status
                }
                Err(error) => Some(Status::from(error)),
            };
            if let Some(status) = status {
                return self.finish(at, status, now);
            }
        }
    }

    /// A request is over: its row, its connection, and the client's next step.
    pub(super) fn finish(&mut self, at: u32, status: Status, now: i64) -> Result<()> {
        let (drops, data_drops, bytes) = self.losses(at, status, now);
        let client = &self.clients[at as usize];
        let moment = |time| match time {
            NO_TIME => NO_TIME,
            time => self.clock.unix(time),
        };
        if client.sent >= self.plan.record_from {
            let seen = Seen {
                request: self.report.requests * u64::from(self.plan.shares)
                    + u64::from(self.plan.share)
                    + 1,
                client: client.number as u32,
                server: client.target(self.plan) as u16,
                class: client.class as u16,
                status: status.0,
                drops,
                data_drops,
                intended: moment(client.intended),
                sent: moment(client.sent),
                connected: moment(client.connected),
                first_byte: moment(client.first_byte),
                end: moment(now),
                bytes,
            };
            self.report.count(&seen);
            self.log.push(&Row::Request(seen))?;
        }
        self.let_go(at, status, now);
        self.go_on(at, status, now);
        Ok(())
    }

    /// SYNs and other segments of the request that were lost, and bytes received. The kernel is
    /// read only if enough time has passed for a repetition.
    fn losses(&mut self, at: u32, status: Status, now: i64) -> (u8, u8, u64) {
        let client = &self.clients[at as usize];
        let Some(found) = self.connections.get(client.connection) else {
            return (0, 0, 0);
        };
        let (took, bytes) = (now - client.sent, found.response.bytes);
        let small = |n| u8::try_from(n).unwrap_or(u8::MAX);
        if !found.connected {
            // When the kernel gives up, the last SYN was lost, too.
            let last = u32::from(status == Status::TIMEOUT);
            let repeated = match took >= SYN_REPEATED {
                true => socket::repeated(&found.fd),
                false => 0,
            };
            return (small(repeated + last), 0, bytes);
        }
        if took < DATA_REPEATED {
            return (found.drops, 0, bytes);
        }
        let repeated = socket::repeated(&found.fd);
        let data = repeated.saturating_sub(found.repeated);
        found.repeated = repeated;
        (found.drops, small(data), bytes)
    }

    /// The connection is kept, left for the server to close, or closed.
    fn let_go(&mut self, at: u32, status: Status, now: i64) {
        let client = &mut self.clients[at as usize];
        client.open = false;
        self.open -= 1;
        let connection = client.connection;
        let Some(found) = self.connections.get(connection) else {
            return;
        };
        let whole = status.is_answer() && !found.ended;
        let kept = self.plan.workloads[client.workload as usize].kept && !found.response.closes;
        if whole && kept {
            return;
        }
        client.connection = NONE;
        if status.is_answer() && found.ended {
            return self.connections.rest(connection);
        }
        if !whole {
            return self.connections.close(connection);
        }
        found.client = NONE;
        found.left = true;
        self.left += 1;
        let turn = self.connections.turn(connection);
        self.leaving.add(now + LEAVING, turn);
        if self.left > LEAVING_MAX {
            self.close_left(i64::MAX);
        }
    }

    /// Closes the first connection that the server should have closed by then; false: there is
    /// none.
    pub(super) fn close_left(&mut self, then: i64) -> bool {
        let connections = &self.connections;
        let late = self.leaving.pop(then, |turn| connections.is_left(turn));
        let Some(turn) = late else {
            return false;
        };
        self.connections.close(turn as u32);
        self.left -= 1;
        true
    }

    /// Repeats, fetches what belongs to the page, thinks, or leaves.
    fn go_on(&mut self, at: u32, status: Status, now: i64) {
        let plan = self.plan;
        let client = &mut self.clients[at as usize];
        let workload = &plan.workloads[client.workload as usize];
        if !status.is_ok() && client.tries < workload.retries {
            client.tries += 1;
            return self.timers.add(now + workload.retry_pause, at);
        }
        client.tries = 0;
        let next = workload.embedded.get(client.fetched as usize);
        // A page that never arrived embeds nothing.
        if let Some(&class) = next.filter(|_| status.is_ok() || client.fetched > 0) {
            client.class = class;
            client.fetched += 1;
            return self.ready.push_back((now, at));
        }
        client.fetched = 0;
        if !matches!(workload.arrivals, Arrivals::Closed { .. }) {
            self.connections.close(client.connection);
            client.connection = NONE;
            return self.gone.push(at);
        }
        let source = &mut self.sources[client.workload as usize];
        let mut pause = client.pause(plan, source, now);
        if !status.is_answer() {
            pause = pause.max(PAUSE_MIN);
        }
        match pause {
            0 => self.ready.push_back((now, at)),
            pause => self.timers.add(now + pause, at),
        }
    }
}
