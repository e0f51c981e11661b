//! One connection: its handshake, the packets of both sides, and what is in them.
//! ```text
//! client  Initial (hello) … Initial again    Handshake  1-RTT …
//! server                          Initial, Handshake …       1-RTT …
//!         begun           arrived answered          done
//! ```

mod arrival;

use serde::{Deserialize, Serialize};

use super::super::ledger::Ledger;
use super::super::opening::Opening;
use super::super::reader::index;
use super::super::tls::hello::{self, Hello};
use super::super::tls::{Random, Secrets, Suite};
use super::super::wire::Side;
use super::super::Endpoint;
use super::frames::{self, Frame};
use super::order::{Numbers, Order, Piece};
use super::packet::{Id, Kind, Rest};
use super::protect::{self, Opened, Opener};
use super::requests::{Desk, Part, Requests};
use arrival::{Sent, Try};

/// Hellos that are gathered: those with post-quantum keys take 2 KiB.
const HELLO_MAX: usize = 16 << 10;
/// By so many numbers a packet must be behind an acknowledged one to count as lost (RFC 9002, section 6.1.1).
const REORDERED: u64 = 3;
/// Names of servers that are distinguished.
const ASKED_MAX: usize = 64;

/// The protection of a packet, in the order in which a connection passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Initial,
    Handshake,
    Early,
    Data,
}

impl Level {
    pub fn of(kind: Kind) -> Level {
        match kind {
            Kind::Early => Level::Early,
            Kind::Handshake => Level::Handshake,
            _ => Level::Initial,
        }
    }

    /// Packet numbers count by space.
    fn space(self) -> usize {
        match self {
            Level::Initial => 0,
            Level::Handshake => 1,
            Level::Early | Level::Data => 2,
        }
    }
}

/// Keys, which no saved state holds.
#[derive(Default)]
pub struct Openers {
    initial: Option<[Opener; 2]>,
    handshake: [Option<Opener>; 2],
    early: Vec<Opener>,
    data: [Option<Opener>; 2],
}

#[derive(Deserialize, Serialize)]
pub struct Connection {
    pub client: Endpoint,
    pub server: Endpoint,
    pub version: u32,
    /// The id from which the secrets of Initial packets follow.
    original: Id,
    /// Those by which others find the connection.
    pub ids: Vec<Id>,
    /// The client's address before its present one.
    earlier: Option<Endpoint>,
    pub last: i64,
    begun: i64,
    tries: Vec<Try>,
    /// By the number of the packet.
    sent: Vec<Sent>,
    /// The server has counted the attempt to connect to it.
    attempted: bool,
    retried: bool,
    pub arrived: Option<i64>,
    answered: Option<i64>,
    done: Option<i64>,
    closed: Option<(Side, i64)>,
    hellos: [Order; 2],
    messages: [Vec<u8>; 2],
    random: Option<Random>,
    /// The server has counted what its hello asks for.
    named: bool,
    suite: Option<u16>,
    #[serde(skip)]
    openers: Openers,
    spaces: [[Numbers; 3]; 2],
    requests: Requests,
    number: u32,
    place: Option<u32>,
    drops: u8,
    shaken_by_server: bool,
    /// Packets with requests that stay closed.
    unread: u64,
}

impl Connection {
    pub fn new(client: Endpoint, server: Endpoint, version: u32, to: Id, time: i64) -> Connection {
        Connection {
            client,
            server,
            version,
            original: to,
            ids: Vec::new(),
            earlier: None,
            last: time,
            begun: time,
            tries: Vec::new(),
            sent: Vec::new(),
            attempted: false,
            retried: false,
            arrived: None,
            answered: None,
            done: None,
            closed: None,
            hellos: Default::default(),
            messages: Default::default(),
            random: None,
            named: false,
            suite: None,
            openers: Openers::default(),
            spaces: Default::default(),
            requests: Requests::default(),
            number: 0,
            place: None,
            drops: 0,
            shaken_by_server: false,
            unread: 0,
        }
    }

    pub fn is_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// The client has another address; returns the one before the last.
    pub fn move_to(&mut self, client: Endpoint) -> Option<Endpoint> {
        let last = std::mem::replace(&mut self.client, client);
        self.earlier.replace(last)
    }

    /// Packets with requests can be opened.
    pub fn has_keys(&self) -> bool {
        self.openers.data.iter().any(Option::is_some)
    }

    /// The server's place in the tables.
    pub fn server(&mut self, ledger: &mut Ledger) -> u32 {
        match (self.place, self.answered) {
            (Some(place), _) => place,
            (None, None) => {
                let asked = super::super::servers::Evidence::Asked;
                ledger.servers.find(self.server, asked, &mut ledger.names)
            }
            (None, Some(_)) => {
                let place = ledger.servers.accept(self.server, &mut ledger.names);
                self.place = Some(place);
                self.number = ledger.next_connection();
                ledger.servers.call(self.client.ip, &mut ledger.names);
                ledger.servers.tally(place, |tally| {
                    tally.connections += 1;
                    tally.quic += 1;
                });
                place
            }
        }
    }

    /// Bytes that its streams hold.
    pub fn held(&self) -> usize {
        self.requests.held()
    }

    /// Its streams hold frames of HTTP/3.
    pub fn speak_http3(&mut self, http3: bool) {
        self.requests.http3 = http3;
    }

    /// The server wants another Initial, with the token and the id that it has sent. False: this packet is not its answer.
    pub fn retry(&mut self, from: Id, packet: &[u8], time: i64, ledger: &mut Ledger) -> bool {
        let open = self.answered.is_none() && !self.retried;
        if !open || !protect::answers(packet, self.version, &self.original) {
            return false;
        }
        ledger.quic.retries += 1;
        self.retried = true;
        self.original = from;
        self.start_again(time, ledger);
        true
    }

    /// The server has no version in common with what the client proposed. It repeats the ids of both, and the version that
    /// the client proposed is not among its own (RFC 9000, section 6.2).
    pub fn negotiate(
        &mut self,
        [to, from]: [Id; 2],
        versions: &[u8],
        time: i64,
        ledger: &mut Ledger,
    ) {
        let proposed = self.version.to_be_bytes();
        let sound = from == self.original
            && (to.is_empty() || self.ids.contains(&to))
            && versions.chunks_exact(4).all(|version| version != proposed);
        if self.answered.is_none() && sound {
            ledger.quic.negotiations += 1;
            self.start_again(time, ledger);
        }
    }

    /// The server has answered, and the client begins its handshake again: some clients with another hello.
    fn start_again(&mut self, time: i64, ledger: &mut Ledger) {
        self.arrived = self.tries.last().map(|last| last.time);
        self.tries.clear();
        self.sent.clear();
        self.openers.initial = None;
        (self.hellos, self.messages, self.random) = Default::default();
        self.spaces = Default::default();
        self.answer(time, ledger);
    }

    fn answer(&mut self, time: i64, ledger: &mut Ledger) {
        if self.answered.is_some() {
            return;
        }
        self.answered = Some(time);
        ledger.quic.answered += 1;
        self.server(ledger);
    }

    /// Opens a packet. None: no key does.
    pub fn open(
        &mut self,
        side: Side,
        (level, version, to): (Level, u32, Id),
        (packet, number_at): (&[u8], usize),
        scratch: &mut Vec<u8>,
    ) -> Option<Opened> {
        let largest = self.spaces[index(side)][level.space()].seen.largest();
        let openers = &mut self.openers;
        match level {
            Level::Initial => {
                if openers.initial.is_none() {
                    openers.initial = Opener::of_initial(self.version, &self.original);
                }
                let known = openers.initial.as_mut();
                let opened = known
                    .and_then(|both| both[index(side)].open(packet, number_at, largest, scratch));
                if opened.is_some() {
                    return opened;
                }
                // The server chose another version, or the client began again with another id.
                let id = if side == Side::Client {
                    to
                } else {
                    self.original
                };
                let mut others = Opener::of_initial(version, &id)?;
                let opened = others[index(side)].open(packet, number_at, largest, scratch)?;
                (self.version, self.original) = (version, id);
                self.openers.initial = Some(others);
                Some(opened)
            }
            Level::Early => openers
                .early
                .iter_mut()
                .find_map(|opener| opener.open(packet, number_at, largest, scratch)),
            Level::Handshake => openers.handshake[index(side)]
                .as_mut()?
                .open(packet, number_at, largest, scratch),
            Level::Data => openers.data[index(side)]
                .as_mut()?
                .open(packet, number_at, largest, scratch),
        }
    }

    /// A packet of one side, whose payload could be opened or not.
    pub fn packet(
        &mut self,
        side: Side,
        level: Level,
        opened: Option<(u64, &[u8])>,
        time: i64,
        ledger: &mut Ledger,
    ) {
        self.last = self.last.max(time);
        if side == Side::Server {
            self.answer(time, ledger);
            self.shaken_by_server |= level == Level::Handshake;
        } else if level == Level::Data && self.done.is_none() && self.is_answered() {
            self.finish_handshake(time, ledger);
        }
        let Some((number, payload)) = opened else {
            self.unread += u64::from(matches!(level, Level::Data | Level::Early));
            return;
        };
        let space = level.space();
        if !self.spaces[index(side)][space].seen.add(number, number) {
            ledger.counts.copies += 1;
            return;
        }
        let (mut repeated, mut asks) = (false, false);
        let mut rest = Rest(payload);
        while let Some(frame) = frames::next(&mut rest) {
            asks |= !matches!(frame, Frame::Ack(_) | Frame::Close);
            repeated |= !self.frame(side, level, number, frame, time, ledger);
        }
        if asks {
            self.spaces[index(side)][space].asking.add(number, number);
        }
        ledger.counts.retransmissions += u64::from(repeated);
    }

    /// False: it repeats what had come before.
    fn frame(
        &mut self,
        side: Side,
        level: Level,
        number: u64,
        frame: Frame<'_>,
        time: i64,
        ledger: &mut Ledger,
    ) -> bool {
        match frame {
            Frame::Ack(ranges) => {
                self.spaces[1 - index(side)][level.space()].acknowledge(&ranges);
                if side == Side::Server && level == Level::Initial {
                    self.settle(false, ledger);
                }
            }
            Frame::Crypto { offset, bytes } if level == Level::Initial => {
                let sent = Sent {
                    number,
                    from: offset,
                    to: offset.saturating_add(bytes.len() as u64),
                };
                if side == Side::Client {
                    self.try_again(sent, time, ledger);
                }
                let new = self.hello(side, offset, bytes, ledger);
                if side == Side::Server {
                    // It has the whole hello, also if a part is missing in the capture.
                    self.settle(true, ledger);
                }
                return new;
            }
            Frame::Stream {
                id,
                offset,
                bytes,
                ends,
            } => {
                let part = Part {
                    id,
                    offset,
                    bytes,
                    ends,
                    time,
                    number,
                };
                return self.with_desk(ledger, |requests, desk| requests.part(side, part, desk));
            }
            Frame::Reset { id } => {
                self.with_desk(ledger, |requests, desk| {
                    requests.reset(side, id, time, desk)
                });
            }
            Frame::Stop { id } if side == Side::Client => {
                self.with_desk(ledger, |requests, desk| {
                    requests.reset(side, id, time, desk)
                });
            }
            Frame::NewId(id) => self.add_id(id),
            Frame::Close => {
                self.closed.get_or_insert((side, time));
            }
            Frame::Done => self.finish_handshake(time, ledger),
            _ => {}
        }
        true
    }

    /// The first ids are kept.
    pub fn add_id(&mut self, id: Id) {
        const IDS_MAX: usize = 32;
        if !id.is_empty() && !self.ids.contains(&id) && self.ids.len() < IDS_MAX {
            self.ids.push(id);
        }
    }

    fn with_desk<T>(
        &mut self,
        ledger: &mut Ledger,
        act: impl FnOnce(&mut Requests, &mut Desk<'_>) -> T,
    ) -> T {
        let server = self.server(ledger);
        let mut desk = Desk {
            server,
            caller: ledger.servers.call(self.client.ip, &mut ledger.names),
            connection: self.number,
            acked: &self.spaces[0][2].acked,
            ledger,
        };
        act(&mut self.requests, &mut desk)
    }

    fn finish_handshake(&mut self, time: i64, ledger: &mut Ledger) {
        if self.done.is_some() {
            return;
        }
        self.done = Some(time);
        ledger.quic.handshakes += 1;
        let accepted = self.reached();
        let answered = self.answered.unwrap_or(time);
        self.requests.opening.get_or_insert(Opening {
            sent: self.begun,
            accepted,
            connected: time,
            drops: self.drops,
            ready: time,
            asked: true,
            greeted: false,
            shaken: Some(answered.saturating_sub(accepted)),
        });
    }

    fn hello(&mut self, side: Side, offset: u64, bytes: &[u8], ledger: &mut Ledger) -> bool {
        let message = &mut self.messages[index(side)];
        if message.len() >= HELLO_MAX {
            return true;
        }
        let new = self.hellos[index(side)].put(offset, bytes, HELLO_MAX, &mut |piece| {
            if let Piece::Bytes(bytes) = piece {
                message.extend_from_slice(bytes);
            }
        });
        if !new || !is_whole(message) {
            return new;
        }
        match hello::read(message) {
            Some(Hello::Client { random, asked }) if self.random.is_none() => {
                self.random = Some(random);
                self.requests.http3 = offers_http3(&asked);
                let server = self.server(ledger);
                if !std::mem::replace(&mut self.named, true) {
                    ledger.servers.tally(server, |tally| {
                        if tally.tls.len() < ASKED_MAX || tally.tls.contains_key(&asked) {
                            *tally.tls.entry(asked).or_insert(0) += 1;
                        }
                    });
                }
                self.open_early(ledger);
            }
            Some(Hello::Server { suite, .. }) if self.suite.is_none() => {
                self.suite = Some(suite);
                self.agree(ledger);
            }
            _ => {}
        }
        new
    }

    fn secrets(&self, ledger: &Ledger) -> Option<Secrets> {
        ledger.keys.of(&self.random?)
    }

    /// The suite of early data is that of an earlier session: one that fits the secret.
    fn open_early(&mut self, ledger: &Ledger) {
        let Some(secret) = self.secrets(ledger).and_then(|secrets| secrets.early) else {
            return;
        };
        let suites: &[u16] = match secret.len() {
            48 => &[0x1302],
            _ => &[0x1301, 0x1303],
        };
        let suites = suites.iter().filter_map(|&number| Suite::of(number));
        let openers = suites.filter_map(|suite| Opener::new(suite, self.version, secret.clone()));
        self.openers.early = openers.collect();
    }

    fn agree(&mut self, ledger: &Ledger) {
        let secrets = self.secrets(ledger).zip(self.suite.and_then(Suite::of));
        let Some((secrets, suite)) = secrets else {
            return;
        };
        let version = self.version;
        let opener = |secret| Opener::new(suite, version, secret);
        self.openers.handshake = secrets.handshake.map(|secret| secret.and_then(opener));
        self.openers.data = secrets.traffic.map(|secret| secret.and_then(opener));
    }

    pub fn revive(&mut self, ledger: &Ledger) {
        self.open_early(ledger);
        self.agree(ledger);
    }

    /// It is over, or the recording is.
    pub fn finish(&mut self, ledger: &mut Ledger) {
        let closed = self.closed;
        if self.requests.count > 0 {
            self.with_desk(ledger, |requests, desk| requests.finish(closed, desk));
        }
        let reached = self.reached();
        let quic = &mut ledger.quic;
        if let Some(answered) = self.answered {
            let waited = answered.saturating_sub(reached).max(0);
            quic.answer_min_ns = Some(quic.answer_min_ns.map_or(waited, |least| least.min(waited)));
            quic.answer_max_ns = quic.answer_max_ns.max(waited);
        }
        quic.requests += self.requests.count;
        quic.unanswered += u64::from(self.answered.is_none());
        quic.closed += u64::from(self.unread > 0 && self.requests.count == 0);
        quic.packets_unread += self.unread;
        for numbers in self.spaces.iter().flatten() {
            let Some(most) = numbers.acked.largest() else {
                continue;
            };
            if let Some(behind) = most.checked_sub(REORDERED) {
                quic.packets_lost += numbers.asking.without(&numbers.acked, behind);
            }
            quic.packets_unseen += numbers.acked.without(&numbers.seen, most);
        }
        if let Some(place) = self.place {
            ledger.servers.tally(place, |tally| tally.part());
        }
    }
}

/// Whether a hello offers HTTP/3, as in `shop.example (h3, h3-29)`, or does not say what it offers.
fn offers_http3(asked: &str) -> bool {
    let offers = asked.strip_suffix(')').and_then(|a| a.rsplit_once('('));
    match offers {
        Some((_, offers)) => offers
            .split(", ")
            .any(|offer| offer == "h3" || offer.starts_with("h3-")),
        None => true,
    }
}

/// Whether the first message of a handshake is there to its end.
fn is_whole(message: &[u8]) -> bool {
    match *message {
        [_, a, b, c, ..] => {
            message.len() >= 4 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::offers_http3;

    #[test]
    fn only_the_offer_says_whether_it_is_http3() {
        let told = ["shop (h3)", "(hq, h3-29)", "shop", "h3.test (doq)", "(h3x)"];
        assert_eq!(told.map(offers_http3), [true, true, true, false, false]);
    }
}
