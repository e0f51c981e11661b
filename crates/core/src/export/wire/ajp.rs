//! AJP13 between a web server and Tomcat: FORWARD_REQUEST, then SEND_HEADERS, SEND_BODY_CHUNK … and END_RESPONSE.
//!
//! Source: the AJPv13 page of the Apache Tomcat Connectors documentation.

use super::super::message::Block;
use super::http::Target;
use super::{as_wanted, Asked, Kept, Message, Outcome, Spoken};

const FORWARD_REQUEST: u8 = 2;
const SEND_BODY_CHUNK: u8 = 3;
const SEND_HEADERS: u8 = 4;
const END_RESPONSE: [u8; 6] = [b'A', b'B', 0, 2, 5, 1];
const METHODS: [&str; 8] = [
    "OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "PROPFIND",
];
/// The method is an attribute.
const STORED: u8 = 0xff;
const STORED_METHOD: u8 = 0x0d;
const END_OF_ATTRIBUTES: u8 = 0xff;
const ABSENT: [u8; 2] = [0xff, 0xff];
const CONTENT_LENGTH: [u8; 2] = [0xa0, 0x08];
const USER_AGENT: [u8; 2] = [0xa0, 0x0e];
const PACKET_MAX: u64 = 8 << 10;
/// The framing around the data of a packet of the client's body, and of the server's.
const DATA_AROUND: u64 = 6;
const CHUNK_AROUND: u64 = 8;
const DATA_MAX: u64 = PACKET_MAX - DATA_AROUND;
const CHUNK_MAX: u64 = PACKET_MAX - CHUNK_AROUND;
/// More padding than this goes into a body.
const HEADER_PADDING_MAX: u64 = 2048;

pub fn speak(asked: &Asked<'_>) -> Spoken {
    let target = Target::of(asked.interaction);
    let (status, outcome) = match asked.outcome {
        Outcome::Ok => (200, true),
        Outcome::Code(code) => (code, true),
        Outcome::Error(_) => (500, false),
    };
    let up = request(&target, asked.host, asked.bytes_in);
    let down = response(status, asked.bytes_out);
    let bytes = as_wanted(&up, asked.bytes_in) && as_wanted(&down, asked.bytes_out);
    Spoken {
        up,
        down,
        greeting: 0,
        tail: END_RESPONSE.len() as u64,
        kept: Kept {
            name: asked.interaction.is_none() || target.as_named,
            bytes,
            outcome,
        },
    }
}

/// What fills a request up to its size.
enum Padding<'a> {
    /// The name of the server, shortened or lengthened.
    Host(&'a str),
    Agent(&'a str, u64),
    Body(&'a str, u64),
}

fn request(target: &Target, host: &str, wanted: Option<u64>) -> Message {
    let natural = forward(target, &Padding::Host(host));
    let Some(wanted) = wanted.filter(|&wanted| wanted != natural.len() as u64) else {
        return Message::plain(natural);
    };
    let agent = forward(target, &Padding::Agent(host, 0)).len() as u64;
    match wanted.checked_sub(agent) {
        Some(room @ 0..=HEADER_PADDING_MAX) => {
            Message::plain(forward(target, &Padding::Agent(host, room)))
        }
        Some(_) => with_body(target, host, wanted),
        None => {
            let least = forward(target, &Padding::Host("")).len() as u64;
            let host = "x".repeat(wanted.saturating_sub(least) as usize);
            Message::plain(forward(target, &Padding::Host(&host)))
        }
    }
}

/// A request with a body in packets of its own. The header with the body's length is as wide as the
/// longest length.
fn with_body(target: &Target, host: &str, wanted: u64) -> Message {
    let head = forward(target, &Padding::Body(host, 0)).len() as u64;
    let room = wanted.saturating_sub(head);
    let (whole, mut rest) = (room / PACKET_MAX, room % PACKET_MAX);
    let mut host = host.to_owned();
    let mut end = Vec::new();
    match rest.checked_sub(DATA_AROUND) {
        Some(data @ 1..) => {
            end = data_packet(data);
            end.resize(rest as usize, b'x');
            rest = data;
        }
        // Too little for a packet: the server's name takes it.
        _ => {
            host.push_str(&"xxxxxx"[..rest as usize]);
            rest = 0;
        }
    }
    Message {
        head: forward(target, &Padding::Body(&host, whole * DATA_MAX + rest)),
        block: Block {
            head: data_packet(DATA_MAX),
            fill: DATA_MAX,
            ..Block::default()
        },
        blocks: whole,
        end,
    }
}

fn data_packet(len: u64) -> Vec<u8> {
    let [a, b] = (len as u16 + 2).to_be_bytes();
    let [c, d] = (len as u16).to_be_bytes();
    vec![0x12, 0x34, a, b, c, d]
}

fn forward(target: &Target, padding: &Padding<'_>) -> Vec<u8> {
    let code = METHODS.iter().position(|known| *known == target.method);
    let mut out = vec![0x12, 0x34, 0, 0, FORWARD_REQUEST];
    out.push(code.map_or(STORED, |code| code as u8 + 1));
    string(&mut out, "HTTP/1.1");
    string(&mut out, &target.path);
    out.extend([ABSENT, ABSENT].concat());
    let (host, header) = match padding {
        Padding::Host(host) => (*host, None),
        Padding::Agent(host, room) => (*host, Some((USER_AGENT, "x".repeat(*room as usize)))),
        Padding::Body(host, body) => (*host, Some((CONTENT_LENGTH, format!("{body:020}")))),
    };
    string(&mut out, host);
    out.extend([0, 80, 0, 0, u8::from(header.is_some())]);
    if let Some((code, value)) = header {
        out.extend(code);
        string(&mut out, &value);
    }
    if code.is_none() {
        out.push(STORED_METHOD);
        string(&mut out, &target.method);
    }
    out.push(END_OF_ATTRIBUTES);
    let len = out.len() as u16 - 4;
    out[2..4].copy_from_slice(&len.to_be_bytes());
    out
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
    out.push(0);
}

fn response(status: u16, wanted: Option<u64>) -> Message {
    let headers = |reason: &str| {
        let mut out = vec![b'A', b'B', 0, 0, SEND_HEADERS];
        out.extend(status.to_be_bytes());
        string(&mut out, reason);
        out.extend([0, 0]);
        let len = out.len() as u16 - 4;
        out[2..4].copy_from_slice(&len.to_be_bytes());
        out
    };
    let least = (headers("").len() + END_RESPONSE.len()) as u64;
    let room = wanted.map_or(2, |wanted| wanted.saturating_sub(least));
    let (whole, rest) = (room / PACKET_MAX, room % PACKET_MAX);
    let mut reason = "";
    let mut end = Vec::new();
    match rest.checked_sub(CHUNK_AROUND) {
        Some(data @ 1..) => {
            end = chunk(data);
            end.resize(end.len() + data as usize, b'x');
            end.push(0);
        }
        // Too little for a chunk: the reason takes it.
        _ => reason = &"OK......"[..rest as usize],
    }
    end.extend(END_RESPONSE);
    Message {
        head: headers(reason),
        block: Block {
            head: chunk(CHUNK_MAX),
            fill: CHUNK_MAX,
            tail: &[0],
            counter: None,
        },
        blocks: whole,
        end,
    }
}

fn chunk(len: u64) -> Vec<u8> {
    let [a, b] = (len as u16 + 4).to_be_bytes();
    let [c, d] = (len as u16).to_be_bytes();
    vec![b'A', b'B', a, b, SEND_BODY_CHUNK, c, d]
}
