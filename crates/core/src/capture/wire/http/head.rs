//! Heads: complete ones by httparse, and the readable part of a cut head.

use super::super::software::Values;
use super::super::trace::{Carrier, Found, Trace};
use serde::{Deserialize, Serialize};
use std::mem::MaybeUninit;

/// Header fields of nearly every head; a longer one is parsed again with room for [`FIELDS_MAX`].
const FIELDS: usize = 96;
const FIELDS_MAX: usize = 4096;

/// The new use of a connection.
pub const UPGRADED: &str = "upgraded";
pub const TO_HTTP2: &str = "upgraded to HTTP/2";

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Body {
    Length(u64),
    Chunked,
    /// No length was given: nothing follows a request, and everything until the close belongs to a
    /// response.
    Unsaid,
}

pub struct Request<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub len: usize,
    pub body: Body,
    pub trace: Trace,
}

pub struct Response<'a> {
    pub code: u16,
    pub len: usize,
    pub body: Body,
    pub upgrade: &'static str,
    /// Its content is a stream of events, which lasts as long as the server has news.
    pub events: bool,
    /// The server closes the connection after it.
    pub closes: bool,
    pub software: Values<'a>,
}

pub enum Parsed<T> {
    Whole(T),
    Partial,
    Bad,
}

pub fn request(bytes: &[u8]) -> Parsed<Request<'_>> {
    let mut config = httparse::ParserConfig::default();
    config.ignore_invalid_headers_in_requests(true);
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut head = httparse::Request::new(&mut []);
    match config.parse_request_with_uninit_headers(&mut head, bytes, &mut fields) {
        Ok(httparse::Status::Partial) => Parsed::Partial,
        Ok(httparse::Status::Complete(len)) => whole_request(&head, len),
        Err(httparse::Error::TooManyHeaders) => {
            let mut fields = vec![httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut head = httparse::Request::new(&mut fields);
            match config.parse_request(&mut head, bytes) {
                Ok(httparse::Status::Partial) => Parsed::Partial,
                Ok(httparse::Status::Complete(len)) => whole_request(&head, len),
                Err(_) => Parsed::Bad,
            }
        }
        Err(_) => Parsed::Bad,
    }
}

fn whole_request<'b>(head: &httparse::Request<'_, 'b>, len: usize) -> Parsed<Request<'b>> {
    let (Some(method), Some(target)) = (head.method, head.path) else {
        return Parsed::Bad;
    };
    Parsed::Whole(Request {
        method: method.as_bytes(),
        target: target.as_bytes(),
        len,
        body: said(head.headers).body,
        trace: traced(head.headers),
    })
}

pub fn response(bytes: &[u8]) -> Parsed<Response<'_>> {
    let mut config = httparse::ParserConfig::default();
    config
        .ignore_invalid_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true);
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut head = httparse::Response::new(&mut []);
    match config.parse_response_with_uninit_headers(&mut head, bytes, &mut fields) {
        Ok(httparse::Status::Partial) => Parsed::Partial,
        Ok(httparse::Status::Complete(len)) => whole_response(&head, len),
        Err(httparse::Error::TooManyHeaders) => {
            let mut fields = vec![httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut head = httparse::Response::new(&mut fields);
            match config.parse_response(&mut head, bytes) {
                Ok(httparse::Status::Partial) => Parsed::Partial,
                Ok(httparse::Status::Complete(len)) => whole_response(&head, len),
                Err(_) => Parsed::Bad,
            }
        }
        Err(_) => Parsed::Bad,
    }
}

fn whole_response<'b>(head: &httparse::Response<'_, 'b>, len: usize) -> Parsed<Response<'b>> {
    let Some(code) = head.code else {
        return Parsed::Bad;
    };
    let said = said(head.headers);
    Parsed::Whole(Response {
        code,
        len,
        body: said.body,
        upgrade: said.upgrade,
        events: said.events,
        closes: said.closes.unwrap_or(head.version == Some(0)),
        software: software(head.headers),
    })
}

/// What the fields of a head say.
struct Said {
    body: Body,
    upgrade: &'static str,
    events: bool,
    closes: Option<bool>,
}

/// The trace that the fields of a request name.
fn traced(fields: &[httparse::Header<'_>]) -> Trace {
    let mut found = Found::default();
    for field in fields {
        if let Some(carrier) = Carrier::named(field.name.as_bytes()) {
            found.take(carrier, field.value);
        }
    }
    found.trace()
}

/// The same of a head that was cut: its last line does not count.
pub fn traced_so_far(head: &[u8]) -> Trace {
    let mut found = Found::default();
    for (name, value) in lines_so_far(head) {
        if let Some(carrier) = Carrier::named(name) {
            found.take(carrier, value);
        }
    }
    found.trace()
}

/// What the fields of a response say of software.
fn software<'b>(fields: &[httparse::Header<'b>]) -> Values<'b> {
    let mut found = Values::default();
    for field in fields {
        found.add(field.name.as_bytes(), field.value);
    }
    found
}

/// The same of a head that was cut: its last line does not count.
pub fn software_so_far(head: &[u8]) -> Values<'_> {
    let mut found = Values::default();
    for (name, value) in lines_so_far(head) {
        found.add(name, value);
    }
    found
}

/// The whole fields of a head that was cut.
fn lines_so_far(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let end = head.iter().rposition(|&b| b == b'\n').unwrap_or(0);
    let lines = head[..end].split(|&b| b == b'\n').skip(1);
    lines.filter_map(|line| {
        let mut parts = line.splitn(2, |&b| b == b':');
        Some((parts.next()?, parts.next()?))
    })
}

/// RFC 9112, section 6.3: chunked outranks a length.
fn said(fields: &[httparse::Header<'_>]) -> Said {
    let mut said = Said {
        body: Body::Unsaid,
        upgrade: UPGRADED,
        events: false,
        closes: None,
    };
    for field in fields {
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => {
                said.closes = said.closes.or_else(|| closes(field.value));
            }
            12 if field.name.eq_ignore_ascii_case("content-type") => {
                said.events = is_event_stream(field.value);
            }
            14 if field.name.eq_ignore_ascii_case("content-length")
                && said.body == Body::Unsaid =>
            {
                said.body = decimal(field.value).map_or(Body::Unsaid, Body::Length);
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                let value = field.value.trim_ascii_end();
                let tail = &value[value.len().saturating_sub(7)..];
                if tail.eq_ignore_ascii_case(b"chunked") {
                    said.body = Body::Chunked;
                }
            }
            7 if field.name.eq_ignore_ascii_case("upgrade") => {
                said.upgrade = match field.value.trim_ascii() {
                    value if value.eq_ignore_ascii_case(b"websocket") => "upgraded to websocket",
                    value if value.eq_ignore_ascii_case(b"h2c") => TO_HTTP2,
                    _ => UPGRADED,
                };
            }
            _ => {}
        }
    }
    said
}

/// Server-sent events (HTML standard, section 9.2).
pub fn is_event_stream(content_type: &[u8]) -> bool {
    const TYPE: &[u8] = b"text/event-stream";
    let value = content_type.trim_ascii();
    value
        .get(..TYPE.len())
        .is_some_and(|kind| kind.eq_ignore_ascii_case(TYPE))
}

/// RFC 9112, section 9.3.
fn closes(options: &[u8]) -> Option<bool> {
    options
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .find_map(|option| match option {
            option if option.eq_ignore_ascii_case(b"close") => Some(true),
            option if option.eq_ignore_ascii_case(b"keep-alive") => Some(false),
            _ => None,
        })
}

/// The first of a list, as in `42` or `42, 42`.
fn decimal(value: &[u8]) -> Option<u64> {
    let value = value.split(|&b| b == b',').next()?.trim_ascii();
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |n, b| match b {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

/// A request line that may be cut.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestLine<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    /// The target is there to its end.
    pub whole: bool,
}

/// Methods by which a request is recognised in the middle of a stream: RFC 9110, PATCH, and
/// WebDAV's.
const METHODS: [&[u8]; 17] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PROPFIND ",
    b"PROPPATCH ",
    b"MKCOL ",
    b"COPY ",
    b"MOVE ",
    b"LOCK ",
    b"UNLOCK ",
    b"REPORT ",
];

/// By a known method: good enough to find a request anywhere.
pub fn request_line(bytes: &[u8]) -> Option<RequestLine<'_>> {
    let word = METHODS.iter().find(|m| bytes.starts_with(m))?;
    let (line, version) = split_line(bytes, word.len() - 1)?;
    let plausible = match line.target.first() {
        Some(b'/' | b'*') => true,
        Some(_) => line.method == b"CONNECT" || starts_alike(line.target, b"http"),
        None => !line.whole,
    };
    (plausible && (!line.whole || starts_alike(version, b"HTTP/1."))).then_some(line)
}

/// By the version at its end, whatever the method, at a place where a request is due.
pub fn any_request_line(bytes: &[u8]) -> Option<RequestLine<'_>> {
    let (line, version) = split_line(bytes, method_len(bytes)?)?;
    (line.whole && version.starts_with(b"HTTP/")).then_some(line)
}

/// By the version at its end, where a target with spaces, or none at all, hides it from [`any_request_line`].
pub fn loose_request_line(bytes: &[u8]) -> Option<RequestLine<'_>> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    let line = bytes[..end].trim_ascii_end();
    let method = method_len(line)?;
    let rest = line.get(method + 1..)?;
    let space = rest.iter().rposition(|&b| b == b' ');
    let version = space.map_or(rest, |space| &rest[space + 1..]);
    version.starts_with(b"HTTP/").then(|| RequestLine {
        method: &line[..method],
        target: rest[..space.unwrap_or(0)].trim_ascii(),
        whole: true,
    })
}

fn split_line(bytes: &[u8], method: usize) -> Option<(RequestLine<'_>, &[u8])> {
    let rest = bytes.get(method + 1..)?;
    let end = rest.iter().position(|&b| b <= b' ');
    let target = &rest[..end.unwrap_or(rest.len())];
    let version = end.map_or(&b""[..], |end| {
        if rest[end] == b' ' {
            &rest[end + 1..]
        } else {
            b"?"
        }
    });
    Some((
        RequestLine {
            method: &bytes[..method],
            target,
            whole: end.is_some(),
        },
        version,
    ))
}

/// A method is a short word of capitals; None: no method begins here. Returns its length so far if
/// there is no space yet.
pub fn method_len(bytes: &[u8]) -> Option<usize> {
    const METHOD_MAX: usize = 24;
    let letters = bytes.iter().take(METHOD_MAX + 1);
    let len = letters
        .take_while(|b| b.is_ascii_uppercase() || matches!(b, b'-' | b'_'))
        .count();
    (len > 0 && len <= METHOD_MAX && matches!(bytes.get(len), None | Some(b' '))).then_some(len)
}

/// Whether `bytes` could be the beginning of a request line, too short to tell.
pub fn request_line_begins(bytes: &[u8]) -> bool {
    METHODS
        .iter()
        .any(|m| bytes.len() < m.len() && m.starts_with(bytes))
}

/// Equal as far as both go.
fn starts_alike(a: &[u8], b: &[u8]) -> bool {
    let n = a.len().min(b.len());
    a[..n].eq_ignore_ascii_case(&b[..n])
}

/// The code of a status line; None if these bytes begin no status line; Some(None) if it was cut
/// before the code.
pub fn status_line(bytes: &[u8]) -> Option<Option<u16>> {
    if bytes.is_empty() || !starts_alike(bytes, b"HTTP/1.") {
        return None;
    }
    let Some(line) = bytes.get(7..12) else {
        return Some(None);
    };
    let digits = &line[2..];
    if !(line[0].is_ascii_digit() && line[1] == b' ' && digits.iter().all(u8::is_ascii_digit)) {
        return None;
    }
    Some(Some(
        digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0')),
    ))
}

/// The end of a head in `bytes`, looking no further back than `from`.
pub fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = bytes.get(at..)?.iter().position(|&b| b == b'\n') {
        let next = at + found + 1;
        match bytes.get(next..) {
            Some([b'\n', ..]) => return Some(next + 1),
            Some([b'\r', b'\n', ..]) => return Some(next + 2),
            _ => at = next,
        }
    }
    None
}
