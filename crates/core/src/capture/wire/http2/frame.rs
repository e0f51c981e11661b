//! Frames of HTTP/2 (RFC 9113, section 4.1 and 6): nine bytes of header, and a payload.

use super::super::framing::Packet;
use super::super::Side;
use serde::{Deserialize, Serialize};

pub const HEADER_LEN: usize = 9;
/// What every endpoint must accept; most announce no more.
pub const PAYLOAD_USUAL: u32 = 16 << 10;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 0x1;
pub const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Head {
    pub len: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Head {
    pub fn of(header: &[u8]) -> Option<Head> {
        let &[a, b, c, kind, flags, d, e, f, g, ..] = header else {
            return None;
        };
        Some(Head {
            len: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]),
        })
    }

    pub fn is(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether a frame can have this header. Frames of unknown kinds are to be ignored (section 5.5).
    fn is_possible(self) -> bool {
        let on_stream = self.stream != 0;
        let shape = match self.kind {
            DATA | HEADERS | CONTINUATION => on_stream,
            PUSH_PROMISE => on_stream && self.len >= 4,
            PRIORITY => on_stream && self.len == 5,
            RST_STREAM => on_stream && self.len == 4,
            SETTINGS => !on_stream && self.len % 6 == 0,
            PING => !on_stream && self.len == 8,
            GOAWAY => !on_stream && self.len >= 8,
            WINDOW_UPDATE => self.len == 4,
            _ => self.len <= PAYLOAD_USUAL,
        };
        shape && self.stream >> 31 == 0
    }

    /// Whether this is certainly a frame: of a known kind and no unusual length or flags.
    fn is_usual(self) -> bool {
        let flags = match self.kind {
            DATA => END_STREAM | PADDED,
            HEADERS => END_STREAM | END_HEADERS | PADDED | WITH_PRIORITY,
            SETTINGS | PING => END_STREAM,
            PUSH_PROMISE => END_HEADERS | PADDED,
            CONTINUATION => END_HEADERS,
            PRIORITY | RST_STREAM | GOAWAY | WINDOW_UPDATE => 0,
            _ => return false,
        };
        self.is_possible() && self.len <= PAYLOAD_USUAL && self.flags & !flags == 0
    }
}

/// The length of a payload; None: this is not the header of a frame.
pub fn payload_len(header: &[u8]) -> Option<u64> {
    let head = Head::of(header)?;
    head.is_possible().then_some(u64::from(head.len))
}

/// How much of a payload is gathered: header blocks, and the numbers that end streams.
pub fn gathered(header: &[u8]) -> usize {
    match header.get(3) {
        Some(&(HEADERS | PUSH_PROMISE | CONTINUATION)) => PAYLOAD_USUAL as usize,
        Some(&(RST_STREAM | GOAWAY)) => 8,
        _ => 0,
    }
}

/// Whether a frame begins here, in the middle of a stream of bytes.
pub fn begins(bytes: &[u8]) -> Option<Head> {
    Head::of(bytes).filter(|head| head.is_usual())
}

/// Whether these first bytes of a side are frames, among them HEADERS, DATA or SETTINGS, one behind the other to the
/// end.
///
/// The header of one DATA frame is mostly zeros, as those of other protocols are: Modbus has a number, which is often
/// small, three zeros and a length. So a client's DATA tells only if another frame follows; and a client sends fields
/// and data on streams with odd numbers alone (section 5.1.1).
pub fn are_frames(mut bytes: &[u8], side: Side) -> bool {
    // First bytes of the header blocks of the other side.
    let refused = match side {
        Side::Client => &RESPONSES[..],
        Side::Server => &REQUESTS[..],
    };
    let mut telling = false;
    while let Some(head) = begins(bytes) {
        let priority = if head.is(WITH_PRIORITY) { 5 } else { 0 };
        if head.kind == HEADERS && !head.is(PADDED) {
            let first = bytes.get(HEADER_LEN + priority);
            if first.is_some_and(|first| refused.contains(first)) {
                return false;
            }
        }
        let fields = matches!(head.kind, DATA | HEADERS | CONTINUATION);
        if side == Side::Client && fields && head.stream % 2 == 0 {
            return false;
        }
        let end = HEADER_LEN + head.len as usize;
        bytes = bytes.get(end..).unwrap_or(&[]);
        let alone = head.kind == DATA && side == Side::Client && bytes.len() < HEADER_LEN;
        telling |= matches!(head.kind, DATA | HEADERS | SETTINGS) && !alone;
    }
    telling && bytes.len() < HEADER_LEN
}

/// Whether a server begins here: with SETTINGS (section 3.4), of which ten are defined.
pub fn begins_server(bytes: &[u8]) -> bool {
    let settings = |head: &Head| head.kind == SETTINGS && head.flags == 0;
    begins(bytes)
        .filter(settings)
        .is_some_and(|head| (6..=60).contains(&head.len))
}

/// First bytes of header blocks, which begin with pseudo-fields: of requests (`:method`, `:path`) and of responses
/// (`:status`) in the static table, as a whole or by name.
pub const REQUESTS: [u8; 8] = [0x82, 0x83, 0x84, 0x85, 0x42, 0x02, 0x12, 0x44];
pub const RESPONSES: [u8; 10] = [0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x48, 0x08, 0x18];

/// The header block in a packet of HEADERS, CONTINUATION or PUSH_PROMISE, as far as it was captured: without padding,
/// priority and the number of a promised stream. The flag: it is there to its end.
pub fn block<'p>(head: Head, packet: &Packet<'p>) -> (&'p [u8], bool) {
    let mut bytes = packet.prefix;
    let whole = bytes.len() as u64 == packet.len;
    let mut padding = 0;
    if head.kind != CONTINUATION && head.is(PADDED) {
        if let Some((&length, rest)) = bytes.split_first() {
            (padding, bytes) = (usize::from(length), rest);
        }
    }
    let before = match head.kind {
        HEADERS if head.is(WITH_PRIORITY) => 5,
        PUSH_PROMISE => 4,
        _ => 0,
    };
    bytes = bytes.get(before..).unwrap_or(&[]);
    let end = match whole {
        true => bytes.len().saturating_sub(padding),
        false => bytes.len(),
    };
    (&bytes[..end], whole)
}

/// The number of 32 bits with which a payload begins.
pub fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().copied().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_recognised_by_its_shape() {
        let settings = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
        assert!(are_frames(settings, Side::Server) && begins_server(settings));
        assert!(
            !begins_server(b"\x4a\0\0\0\x0a5.5.5-10.11"),
            "a greeting of MySQL"
        );
        let ping: &[u8] = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";
        assert!(!are_frames(ping, Side::Client), "alone, it says too little");
        assert!(are_frames(&[ping, settings].concat(), Side::Client));
        assert!(!are_frames(
            &[settings, &b"GET / HTTP/1.1\r\n"[..]].concat(),
            Side::Client
        ));
        let request = b"\0\0\x02\x01\x05\0\0\0\x01\x82\x84";
        assert!(are_frames(request, Side::Client) && !are_frames(request, Side::Server));
        for other in [
            &b"\0\0\x05\x04\0\0\0\0\0"[..],
            b"\x12\0\0\0\x17\x01\0\0\0",
            b"\0\0\x04\x03\0\0\0\0\0",
        ] {
            assert_eq!(begins(other), None);
        }
        assert_eq!(payload_len(b"PRI * HTTP"), None);
    }

    #[test]
    fn the_header_of_one_frame_of_data_says_too_little_about_a_client() {
        let data = b"\0\0\x02\0\0\0\0\0\x05ab";
        let last = b"\0\0\0\0\x01\0\0\0\x05";
        assert!(!are_frames(data, Side::Client) && are_frames(data, Side::Server));
        assert!(are_frames(&[&data[..], last].concat(), Side::Client));
        let even = b"\0\0\x02\x01\x05\0\0\0\x06\x82\x84";
        assert!(
            !are_frames(even, Side::Client),
            "only servers have even streams"
        );
    }
}
