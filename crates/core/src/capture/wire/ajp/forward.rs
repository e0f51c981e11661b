//! The FORWARD_REQUEST packet: method and URI, and the query if all of the packet is there.

use super::FORWARD_REQUEST;
use std::borrow::Cow;

/// By code, from 1.
const METHODS: [&[u8]; 27] = [
    b"OPTIONS",
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"TRACE",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"ACL",
    b"REPORT",
    b"VERSION-CONTROL",
    b"CHECKIN",
    b"CHECKOUT",
    b"UNCHECKOUT",
    b"SEARCH",
    b"MKWORKSPACE",
    b"UPDATE",
    b"LABEL",
    b"MERGE",
    b"BASELINE-CONTROL",
    b"MKACTIVITY",
];
/// The method is an attribute of the request.
const STORED: u8 = 0xff;
const ATTRIBUTE: u8 = 0x0a;
const SSL_KEY_SIZE: u8 = 0x0b;
const QUERY_STRING: u8 = 0x05;
const STORED_METHOD: u8 = 0x0d;

pub struct Request<'a> {
    pub method: &'a [u8],
    uri: &'a [u8],
    query: Option<&'a [u8]>,
    /// The URI is complete.
    pub whole: bool,
}

impl Request<'_> {
    pub fn target(&self) -> Cow<'_, [u8]> {
        match self.query {
            Some(query) if !query.is_empty() => Cow::Owned([self.uri, b"?", query].concat()),
            _ => Cow::Borrowed(self.uri),
        }
    }
}

/// Whether a payload (as far as it was captured) begins a FORWARD_REQUEST: its protocol is
/// `HTTP/…`.
pub fn plausible(payload: &[u8]) -> bool {
    let method = payload
        .get(1)
        .is_none_or(|&m| m == STORED || (1..=METHODS.len()).contains(&usize::from(m)));
    let protocol = payload.get(2).is_none_or(|&high| high == 0)
        && payload
            .iter()
            .skip(4)
            .zip(b"HTTP/")
            .all(|(have, want)| have == want);
    payload.first() == Some(&FORWARD_REQUEST) && method && protocol
}

/// Whether that much was captured, including its protocol.
pub fn certain(payload: &[u8]) -> bool {
    payload.len() >= 4 + b"HTTP/".len() && plausible(payload)
}

pub fn read(payload: &[u8]) -> Request<'_> {
    let code = payload.get(1).copied().unwrap_or(0);
    let method = usize::from(code)
        .checked_sub(1)
        .and_then(|i| METHODS.get(i))
        .copied()
        .unwrap_or(b"?");
    let mut request = Request {
        method,
        uri: b"",
        query: None,
        whole: false,
    };
    let mut fields = Fields(payload.get(2..).unwrap_or(b""));
    let (_protocol, Some(uri)) = (fields.string(), fields.part_of_string()) else {
        return request;
    };
    (request.uri, request.whole) = uri;
    if request.whole {
        // A cut packet lacks the rest.
        let _ = attributes(&mut request, &mut fields);
    }
    request
}

fn attributes<'a>(request: &mut Request<'a>, fields: &mut Fields<'a>) -> Option<()> {
    for _ in ["remote address", "remote host", "server name"] {
        fields.string()?;
    }
    fields.take(3)?; // port, whether over TLS
    for _ in 0..fields.number()? {
        // A name is a string, or a code that cannot be a length.
        if fields.0.first() == Some(&0xa0) {
            fields.take(2)?;
        } else {
            fields.string()?;
        }
        fields.string()?;
    }
    loop {
        match *fields.take(1)?.first()? {
            0xff => return Some(()),
            SSL_KEY_SIZE => drop(fields.take(2)?),
            ATTRIBUTE => {
                fields.string()?;
                fields.string()?;
            }
            QUERY_STRING => request.query = fields.string(),
            STORED_METHOD => request.method = fields.string()?,
            _ => drop(fields.string()?),
        }
    }
}

/// Reads one field after the other; None: it was not captured.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(field)
    }

    fn number(&mut self) -> Option<u16> {
        let field = self.take(2)?;
        Some(u16::from_be_bytes([field[0], field[1]]))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        match self.part_of_string()? {
            (field, true) => Some(field),
            _ => None,
        }
    }

    /// A string that may be cut, and whether it is complete. 0xffff is the absent string.
    fn part_of_string(&mut self) -> Option<(&'a [u8], bool)> {
        let len = self.number()?;
        if len == 0xffff {
            return Some((b"", true));
        }
        match self.take(usize::from(len) + 1) {
            Some(field) => Some((&field[..usize::from(len)], true)),
            None => {
                let rest = std::mem::take(&mut self.0);
                let whole = rest.len() >= usize::from(len);
                Some((&rest[..rest.len().min(usize::from(len))], whole))
            }
        }
    }
}
