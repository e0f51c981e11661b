//! MySQL: a command, and an OK packet, an error, or a result set of one column, all as in protocol 41 with EOF packets.
//!
//! Source: the client/server protocol pages of the MySQL internals manual.

use super::super::message::Block;
use super::sql::statement;
use super::{as_wanted, Asked, Kept, Message, Outcome, Spoken};

pub const LOGIN: &str = "LOGIN";

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
/// Statements have the number 1; they were prepared before the recording.
const PREPARED: u8 = 1;
const AUTOCOMMIT: [u8; 2] = [2, 0];
const UTF8: u8 = 33;
const VAR_STRING: u8 = 0xfd;
/// CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION, CLIENT_LONG_PASSWORD.
const CAPABILITIES: u32 = 1 << 9 | 1 << 15 | 1;
const PACKET_MAX: u64 = 0xff_fffe;
/// The smallest size of a reply's packets: OK, error, result set (count, definition, EOF, EOF),
/// row.
const HEADER: u64 = 4;
const OK_LEN: u64 = HEADER + 7;
const EOF_LEN: u64 = HEADER + 5;
const ROW_DATA: u64 = 1 << 14;

/// What the reply to a command is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reply {
    Ok,
    Rows { binary: bool },
    Prepared,
}

pub fn speak(asked: &Asked<'_>) -> Spoken {
    let name = asked.interaction.unwrap_or("");
    let login = name == LOGIN;
    let (up, name_kept, reply) = if login {
        (login_packet(asked.bytes_in), true, Reply::Ok)
    } else {
        command(asked)
    };
    let (outcome, outcome_kept) = match asked.outcome {
        // This number means progress, and is not an error.
        Outcome::Code(code) => (Outcome::Error(code), false),
        Outcome::Error(u16::MAX) => (Outcome::Error(1), false),
        outcome => (outcome, true),
    };
    let sequence = if login { 2 } else { 1 };
    let mut down = match outcome {
        Outcome::Error(number) => error(number, sequence, asked.bytes_out),
        _ => answer(reply, sequence, asked.bytes_out),
    };
    let bytes = as_wanted(&up, asked.bytes_in) && as_wanted(&down, asked.bytes_out);
    let mut greeting = Vec::new();
    if login {
        greeting = greeting_packet();
        down.head.splice(0..0, greeting.iter().copied());
    }
    Spoken {
        up,
        down,
        greeting: greeting.len() as u64,
        tail: 0,
        kept: Kept {
            name: asked.interaction.is_none() || name_kept,
            bytes,
            outcome: outcome_kept,
        },
    }
}

/// A packet of the client or a single one of the server.
fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = header(sequence, payload.len() as u64).to_vec();
    out.extend_from_slice(payload);
    out
}

fn header(sequence: u8, len: u64) -> [u8; 4] {
    let [a, b, c, ..] = len.to_le_bytes();
    [a, b, c, sequence]
}

fn command(asked: &Asked<'_>) -> (Message, bool, Reply) {
    let name = asked.interaction.unwrap_or("");
    let binary = Reply::Rows { binary: true };
    let fixed = match name {
        "PING" => Some((vec![0x0e], Reply::Ok, false)),
        "RESET CONNECTION" => Some((vec![0x1f], Reply::Ok, false)),
        "INIT DB" => Some((vec![0x02, b'd'], Reply::Ok, true)),
        "PREPARE" => Some((b"\x16SELECT ?".to_vec(), Reply::Prepared, true)),
        "EXECUTE" => Some((vec![EXECUTE, 0, 0, 0, 0, 0, 1, 0, 0, 0], binary, true)),
        _ => None,
    };
    if let Some((payload, reply, grows)) = fixed {
        let padding = if payload[0] == PREPARE { b' ' } else { 0 };
        let fill = asked.bytes_in.filter(|_| grows).map_or(0, |wanted| {
            wanted.saturating_sub(HEADER + payload.len() as u64)
        });
        return (padded(payload, fill, padding), true, reply);
    }
    let room = asked
        .bytes_in
        .map(|wanted| wanted.saturating_sub(HEADER + 1));
    let mut query = statement(asked.interaction, false);
    if room.is_some_and(|room| (query.text.len() as u64) > room) {
        query = statement(asked.interaction, true);
    }
    let reads = query.text.starts_with("SELECT") || query.text.starts_with("SHOW");
    let fill = room.map_or(0, |room| room.saturating_sub(query.text.len() as u64));
    let payload = [&[QUERY], query.text.as_bytes()].concat();
    let reply = if reads {
        Reply::Rows { binary: false }
    } else {
        Reply::Ok
    };
    (padded(payload, fill, b' '), query.as_named, reply)
}

/// A command with this many bytes more: spaces behind a statement, zeros instead of parameters.
fn padded(payload: Vec<u8>, fill: u64, padding: u8) -> Message {
    let fill = fill.min(PACKET_MAX - payload.len() as u64);
    let mut out = header(0, payload.len() as u64 + fill).to_vec();
    out.extend(payload);
    out.resize(out.len() + fill as usize, padding);
    Message::plain(out)
}

fn login_packet(wanted: Option<u64>) -> Message {
    let mut payload = CAPABILITIES.to_le_bytes().to_vec();
    payload.extend((1u32 << 24).to_le_bytes());
    payload.push(UTF8);
    payload.extend([0; 23]);
    let least = HEADER + payload.len() as u64 + 2;
    let user = wanted.map_or(4, |wanted| wanted.saturating_sub(least));
    payload.resize(payload.len() + user.min(PACKET_MAX / 2) as usize, b'u');
    payload.extend([0, 0]);
    Message::plain(packet(1, &payload))
}

fn greeting_packet() -> Vec<u8> {
    let [low, high] = (CAPABILITIES as u16).to_le_bytes();
    let payload = [
        &b"\x0a5.7.0\0"[..],
        &[1, 0, 0, 0],
        b"saltsalt\0",
        &[low, high, UTF8, AUTOCOMMIT[0], AUTOCOMMIT[1]],
        &[0; 13],
        b"saltsaltsalt\0",
    ];
    packet(0, &payload.concat())
}

/// With a message of any length, and the SQLSTATE if there is room for it.
fn error(number: u16, sequence: u8, wanted: Option<u64>) -> Message {
    let [low, high] = number.to_le_bytes();
    let room = wanted.map_or(6, |wanted| {
        wanted.saturating_sub(HEADER + 3).min(PACKET_MAX - 3)
    });
    let state: &[u8] = if room < 6 { b"" } else { b"#HY000" };
    let mut out = header(sequence, 3 + room).to_vec();
    out.extend([0xff, low, high]);
    out.extend_from_slice(state);
    Message::with_body(out, room - state.len() as u64)
}

fn answer(reply: Reply, sequence: u8, wanted: Option<u64>) -> Message {
    match reply {
        Reply::Ok => ok(sequence, wanted),
        Reply::Rows { binary } => rows(binary, sequence, wanted),
        Reply::Prepared => prepared(wanted),
    }
}

/// An OK with a message of any length.
fn ok(sequence: u8, wanted: Option<u64>) -> Message {
    let room = wanted.map_or(0, |wanted| {
        wanted.saturating_sub(OK_LEN).min(PACKET_MAX - 7)
    });
    let mut out = header(sequence, 7 + room).to_vec();
    out.extend([0, 0, 0, AUTOCOMMIT[0], AUTOCOMMIT[1], 0, 0]);
    Message::with_body(out, room)
}

fn eof(sequence: u8) -> Vec<u8> {
    packet(sequence, &[0xfe, 0, 0, AUTOCOMMIT[0], AUTOCOMMIT[1]])
}

/// One column, its name so many bytes long.
fn definition(sequence: u8, name_len: u64) -> Vec<u8> {
    let mut payload = b"\x03def\0\0\0".to_vec();
    payload.push(name_len as u8);
    payload.resize(payload.len() + name_len as usize, b'c');
    payload.extend([0, 0x0c, UTF8, 0, 0, 1, 0, 0, VAR_STRING, 0, 0, 0, 0, 0]);
    packet(sequence, &payload)
}

/// A result set: rows take the remaining room, and the column's name what is too little for a row.
/// If the room is too small for a result set, it is an OK.
fn rows(binary: bool, sequence: u8, wanted: Option<u64>) -> Message {
    let least = HEADER + 1 + definition(0, 1).len() as u64 + 2 * EOF_LEN;
    let Some(room) = wanted.unwrap_or(least).checked_sub(least) else {
        return ok(sequence, wanted);
    };
    let row_head = HEADER + if binary { 2 } else { 0 };
    // Three bytes before a long field give its length.
    let (long, short) = (row_head + 3, row_head + 1);
    let (whole, rest) = (room / (long + ROW_DATA), room % (long + ROW_DATA));
    let name = if rest < short { rest } else { 0 };
    let mut end = Vec::new();
    let number = |rows: u64| (u64::from(sequence) + 3 + rows) as u8;
    if rest >= short {
        let data = rest - short;
        end = if data <= 250 {
            row(binary, number(whole), &[data as u8], data)
        } else {
            let [low, high] = (rest - long).to_le_bytes()[..2]
                .try_into()
                .unwrap_or([0; 2]);
            row(binary, number(whole), &[0xfc, low, high], rest - long)
        };
        end.resize(rest as usize, b'x');
    }
    end.extend(eof(number(whole + u64::from(rest >= short))));
    let [low, high] = (ROW_DATA as u16).to_le_bytes();
    let head = [
        packet(sequence, &[1]),
        definition(sequence.wrapping_add(1), 1 + name),
        eof(sequence.wrapping_add(2)),
    ];
    Message {
        head: head.concat(),
        block: Block {
            head: row(binary, number(0), &[0xfc, low, high], ROW_DATA),
            fill: ROW_DATA,
            tail: &[],
            counter: Some(3),
        },
        blocks: whole,
        end,
    }
}

/// The head of a row of one field.
fn row(binary: bool, sequence: u8, field: &[u8], data: u64) -> Vec<u8> {
    // A binary row begins with a zero, and a byte of which each bit is a field that is null.
    let nulls: &[u8] = if binary { &[0, 0] } else { &[] };
    let len = (nulls.len() + field.len()) as u64 + data;
    [&header(sequence, len)[..], nulls, field].concat()
}

/// No parameters, and a column whose name fills the room, if there is enough of it.
fn prepared(wanted: Option<u64>) -> Message {
    let least = definition(0, 0).len() as u64 + EOF_LEN;
    let room = wanted.map_or(0, |wanted| wanted.saturating_sub(HEADER + 12));
    let name = room.checked_sub(least).filter(|&name| name <= 250);
    let columns = u8::from(name.is_some());
    let mut out = packet(1, &[0, PREPARED, 0, 0, 0, columns, 0, 0, 0, 0, 0, 0]);
    if let Some(name) = name {
        out.extend(definition(2, name));
        out.extend(eof(3));
    }
    Message::plain(out)
}
