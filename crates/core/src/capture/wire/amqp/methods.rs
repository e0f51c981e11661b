//! The methods: who sends them, and what answers them.

use crate::capture::packet::u32_at;

/// What a method means for exchanges. Codes are class and method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The client's; the method of this code answers it.
    Asks(u32),
    /// The client's: its answer is a confirmation, if any.
    Publishes,
    /// The client's, without an answer.
    Tells,
    /// The server's: what the requests that wait for this code wait for.
    Answers(u32),
    /// Both sides': of the server, the confirmation of publications; of the client, that of deliveries.
    Confirms,
    /// Of the server: the channel or the connection has failed. Of the client: a request, answered by this code.
    Closes,
    /// The server's, without having been asked.
    News,
}

pub struct Method {
    pub code: u32,
    pub name: &'static str,
    pub kind: Kind,
}

const fn code(class: u32, method: u32) -> u32 {
    class << 16 | method
}

pub const CONFIRM_SELECT: u32 = code(85, 10);
pub const CHANNEL_CLOSE: u32 = code(20, 40);
const CONNECTION_CLOSE: u32 = code(10, 50);
pub const NACK: u32 = code(60, 120);
const TUNE: u32 = code(10, 30);
const GET_OK: u32 = code(60, 71);

/// Methods that both sides send: an end and its confirmation, a pause, and the end of a consumer.
const BOTH: [u32; 6] = [
    code(10, 51),
    code(20, 20),
    code(20, 21),
    code(20, 41),
    code(60, 30),
    code(60, 31),
];

/// Methods with the bit `no-wait`: bytes and names before the bits, and which bit it is.
const NO_WAITS: [(u32, usize, usize, u8); 11] = [
    (code(40, 10), 2, 2, 4),
    (code(40, 20), 2, 1, 1),
    (code(40, 30), 2, 3, 0),
    (code(40, 40), 2, 3, 0),
    (code(50, 10), 2, 1, 4),
    (code(50, 20), 2, 3, 0),
    (code(50, 30), 2, 1, 0),
    (code(50, 40), 2, 1, 2),
    (code(60, 20), 2, 2, 3),
    (code(60, 30), 0, 1, 0),
    (CONFIRM_SELECT, 0, 0, 0),
];

/// Class and method, name, and kind.
const METHODS: [(u32, &str, Kind); 64] = [
    (code(10, 10), "connection.start", Kind::News),
    // The server's offer, or its next question.
    (code(10, 11), "connection.start-ok", Kind::Asks(TUNE)),
    (code(10, 20), "connection.secure", Kind::Answers(TUNE)),
    (code(10, 21), "connection.secure-ok", Kind::Asks(TUNE)),
    (TUNE, "connection.tune", Kind::Answers(TUNE)),
    (code(10, 31), "connection.tune-ok", Kind::Tells),
    (code(10, 40), "connection.open", Kind::Asks(code(10, 41))),
    (
        code(10, 41),
        "connection.open-ok",
        Kind::Answers(code(10, 41)),
    ),
    (CONNECTION_CLOSE, "connection.close", Kind::Closes),
    (
        code(10, 51),
        "connection.close-ok",
        Kind::Answers(code(10, 51)),
    ),
    (code(10, 60), "connection.blocked", Kind::News),
    (code(10, 61), "connection.unblocked", Kind::News),
    (
        code(10, 70),
        "connection.update-secret",
        Kind::Asks(code(10, 71)),
    ),
    (
        code(10, 71),
        "connection.update-secret-ok",
        Kind::Answers(code(10, 71)),
    ),
    (code(20, 10), "channel.open", Kind::Asks(code(20, 11))),
    (code(20, 11), "channel.open-ok", Kind::Answers(code(20, 11))),
    (code(20, 20), "channel.flow", Kind::Asks(code(20, 21))),
    (code(20, 21), "channel.flow-ok", Kind::Answers(code(20, 21))),
    (CHANNEL_CLOSE, "channel.close", Kind::Closes),
    (
        code(20, 41),
        "channel.close-ok",
        Kind::Answers(code(20, 41)),
    ),
    (code(40, 10), "exchange.declare", Kind::Asks(code(40, 11))),
    (
        code(40, 11),
        "exchange.declare-ok",
        Kind::Answers(code(40, 11)),
    ),
    (code(40, 20), "exchange.delete", Kind::Asks(code(40, 21))),
    (
        code(40, 21),
        "exchange.delete-ok",
        Kind::Answers(code(40, 21)),
    ),
    (code(40, 30), "exchange.bind", Kind::Asks(code(40, 31))),
    (
        code(40, 31),
        "exchange.bind-ok",
        Kind::Answers(code(40, 31)),
    ),
    (code(40, 40), "exchange.unbind", Kind::Asks(code(40, 51))),
    (
        code(40, 51),
        "exchange.unbind-ok",
        Kind::Answers(code(40, 51)),
    ),
    (code(50, 10), "queue.declare", Kind::Asks(code(50, 11))),
    (
        code(50, 11),
        "queue.declare-ok",
        Kind::Answers(code(50, 11)),
    ),
    (code(50, 20), "queue.bind", Kind::Asks(code(50, 21))),
    (code(50, 21), "queue.bind-ok", Kind::Answers(code(50, 21))),
    (code(50, 30), "queue.purge", Kind::Asks(code(50, 31))),
    (code(50, 31), "queue.purge-ok", Kind::Answers(code(50, 31))),
    (code(50, 40), "queue.delete", Kind::Asks(code(50, 41))),
    (code(50, 41), "queue.delete-ok", Kind::Answers(code(50, 41))),
    (code(50, 50), "queue.unbind", Kind::Asks(code(50, 51))),
    (code(50, 51), "queue.unbind-ok", Kind::Answers(code(50, 51))),
    (code(60, 10), "basic.qos", Kind::Asks(code(60, 11))),
    (code(60, 11), "basic.qos-ok", Kind::Answers(code(60, 11))),
    (code(60, 20), "basic.consume", Kind::Asks(code(60, 21))),
    (
        code(60, 21),
        "basic.consume-ok",
        Kind::Answers(code(60, 21)),
    ),
    (code(60, 30), "basic.cancel", Kind::Asks(code(60, 31))),
    (code(60, 31), "basic.cancel-ok", Kind::Answers(code(60, 31))),
    (code(60, 40), "basic.publish", Kind::Publishes),
    (code(60, 50), "basic.return", Kind::News),
    (code(60, 60), "basic.deliver", Kind::News),
    (code(60, 70), "basic.get", Kind::Asks(GET_OK)),
    (GET_OK, "basic.get-ok", Kind::Answers(GET_OK)),
    (code(60, 72), "basic.get-empty", Kind::Answers(GET_OK)),
    (code(60, 80), "basic.ack", Kind::Confirms),
    (code(60, 90), "basic.reject", Kind::Tells),
    (code(60, 100), "basic.recover-async", Kind::Tells),
    (code(60, 110), "basic.recover", Kind::Asks(code(60, 111))),
    (
        code(60, 111),
        "basic.recover-ok",
        Kind::Answers(code(60, 111)),
    ),
    (NACK, "basic.nack", Kind::Confirms),
    (CONFIRM_SELECT, "confirm.select", Kind::Asks(code(85, 11))),
    (
        code(85, 11),
        "confirm.select-ok",
        Kind::Answers(code(85, 11)),
    ),
    (code(90, 10), "tx.select", Kind::Asks(code(90, 11))),
    (code(90, 11), "tx.select-ok", Kind::Answers(code(90, 11))),
    (code(90, 20), "tx.commit", Kind::Asks(code(90, 21))),
    (code(90, 21), "tx.commit-ok", Kind::Answers(code(90, 21))),
    (code(90, 30), "tx.rollback", Kind::Asks(code(90, 31))),
    (code(90, 31), "tx.rollback-ok", Kind::Answers(code(90, 31))),
];

impl Method {
    /// The method at the beginning of a payload.
    pub fn of(payload: &[u8]) -> Option<Method> {
        let code = u32_at(payload, 0, true)?;
        let found = METHODS.iter().find(|known| known.0 == code)?;
        Some(Method {
            code,
            name: found.1,
            kind: found.2,
        })
    }

    /// Whether this side sends it.
    pub fn is_of(&self, client: bool) -> bool {
        BOTH.contains(&self.code)
            || match self.kind {
                Kind::Asks(_) | Kind::Publishes | Kind::Tells => client,
                Kind::Answers(_) | Kind::News => !client,
                Kind::Confirms | Kind::Closes => true,
            }
    }

    /// Whether the bit `no-wait` of its arguments is set: behind a reserved number, and one name or several.
    pub fn forgoes_answer(&self, payload: &[u8]) -> bool {
        let Some(&(_, reserved, names, bit)) = NO_WAITS.iter().find(|known| known.0 == self.code)
        else {
            return false;
        };
        let mut rest = payload.get(4 + reserved..);
        for _ in 0..names {
            rest = rest.and_then(|rest| rest.get(1 + usize::from(*rest.first()?)..));
        }
        rest.and_then(<[u8]>::first)
            .is_some_and(|bits| bits >> bit & 1 == 1)
    }
}
