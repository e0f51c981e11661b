//! Reads a response up to its end: status, framing of the body, and number of bytes.

use super::status::Status;
use crate::capture::wire::http::chunked::{Chunked, Progress};
use crate::capture::wire::http::head::{self, Body, Parsed};

/// A larger head does not come from a regular server.
const HEAD_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
enum Part {
    #[default]
    Head,
    Rest(u64),
    Chunks(Chunked),
    /// The body ends with the connection.
    Close,
}

#[derive(Debug, Default)]
pub struct Response {
    part: Part,
    /// An incomplete head.
    head: Vec<u8>,
    code: u16,
    pub bytes: u64,
    /// The connection must not be used again.
    pub closes: bool,
}

impl Response {
    /// Ready for another response, keeping its memory.
    pub fn clear(&mut self) {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        *self = Response {
            head,
            ..Response::default()
        };
    }

    /// Takes received bytes; returns how the response ended, if it did.
    pub fn take(&mut self, mut bytes: &[u8]) -> Option<Status> {
        self.bytes += bytes.len() as u64;
        while matches!(self.part, Part::Head) {
            let parsed = if self.head.is_empty() {
                head::response(bytes)
            } else {
                self.head.extend_from_slice(bytes);
                // Only the end of a line can end a head, so a head that arrives byte by byte is not
                // parsed for each byte.
                if bytes.contains(&b'\n') {
                    head::response(&self.head)
                } else {
                    Parsed::Partial
                }
            };
            let whole = match parsed {
                Parsed::Whole(whole) if whole.len <= HEAD_MAX => whole,
                Parsed::Partial => return self.keep(bytes),
                Parsed::Whole(_) | Parsed::Bad => return Some(Status::MALFORMED),
            };
            let before = self.head.len().saturating_sub(bytes.len());
            bytes = &bytes[whole.len.saturating_sub(before).min(bytes.len())..];
            (self.code, self.closes) = (whole.code, whole.closes);
            let body = whole.body;
            self.head.clear();
            match (self.code, body) {
                (101, _) => return Some(Status::MALFORMED),
                (100..=199, _) if bytes.is_empty() => return None,
                (100..=199, _) => continue,
                (204 | 304, _) => self.part = Part::Rest(0),
                (_, Body::Length(length)) => self.part = Part::Rest(length),
                (_, Body::Chunked) => self.part = Part::Chunks(Chunked::START),
                (_, Body::Unsaid) => self.part = Part::Close,
            }
        }
        self.body(bytes)
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<Status> {
        if self.head.is_empty() {
            self.head.extend_from_slice(bytes);
        }
        (self.head.len() > HEAD_MAX).then_some(Status::MALFORMED)
    }

    fn body(&mut self, bytes: &[u8]) -> Option<Status> {
        let left = match &mut self.part {
            Part::Head => return None,
            Part::Close => {
                self.closes = true;
                return None;
            }
            Part::Rest(rest) => {
                let came = bytes.len() as u64;
                if came < *rest {
                    *rest -= came;
                    return None;
                }
                came - *rest
            }
            Part::Chunks(chunks) => {
                let (progress, left) = chunks.take(bytes);
                match progress {
                    Progress::More => return None,
                    Progress::Done => left,
                    Progress::Lost => return Some(Status::MALFORMED),
                }
            }
        };
        // No request is outstanding that more bytes could answer.
        Some(if left > 0 {
            Status::MALFORMED
        } else {
            Status(self.code)
        })
    }

    /// The connection was closed.
    pub fn closed(&self) -> Status {
        match self.part {
            Part::Close => Status(self.code),
            _ => Status::TRUNCATED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes arrive in pieces of this size; then the connection closes.
    fn read(text: &[u8], piece: usize) -> (Status, u64, bool) {
        let mut response = Response::default();
        for bytes in text.chunks(piece) {
            if let Some(status) = response.take(bytes) {
                return (status, response.bytes, response.closes);
            }
        }
        (response.closed(), response.bytes, response.closes)
    }

    const OK: Status = Status(200);

    #[test]
    fn a_response_ends_where_its_framing_says() {
        for (text, status) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", OK),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", OK),
            (
                "HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno",
                Status(503),
            ),
            (
                "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n",
                Status(304),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                OK,
            ),
            ("HTTP/1.0 200 OK\r\n\r\nuntil the end", OK),
            (
                "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                OK,
            ),
        ] {
            for piece in [1, 2, 7, 1000] {
                let (seen, bytes, _) = read(text.as_bytes(), piece);
                assert_eq!(
                    (seen, bytes),
                    (status, text.len() as u64),
                    "{text} by {piece}"
                );
            }
        }
    }

    #[test]
    fn damage_is_reported_by_kind() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(70_000));
        for (text, status) in [
            ("", Status::TRUNCATED),
            ("HTTP/1.1 200 OK\r\nContent-", Status::TRUNCATED),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
                Status::TRUNCATED,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                Status::TRUNCATED,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello",
                Status::MALFORMED,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                Status::MALFORMED,
            ),
            ("SSH-2.0-OpenSSH_9.2\r\n", Status::MALFORMED),
            ("HTTP/1.1 101 Switching\r\n\r\n", Status::MALFORMED),
            (&long, Status::MALFORMED),
        ] {
            for piece in [1000, 65536] {
                assert_eq!(read(text.as_bytes(), piece).0, status, "{text:.60}");
            }
        }
    }

    #[test]
    fn a_server_says_whether_it_closes() {
        let closes = |head: &str| {
            read(
                format!("{head}\r\nContent-Length: 0\r\n\r\n").as_bytes(),
                99,
            )
            .2
        };
        assert!(!closes("HTTP/1.1 200 OK"));
        assert!(closes("HTTP/1.0 200 OK"));
        assert!(closes("HTTP/1.1 200 OK\r\nConnection: TE, Close"));
        assert!(!closes("HTTP/1.0 200 OK\r\nConnection: keep-alive"));
    }

    proptest! {
        #[test]
        fn no_bytes_whatever_confuse_it(text in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..400) {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            for text in [text.clone(), [&head[..], &text].concat()] {
                let pieces = read(&text, piece).0;
                let whole = read(&text, text.len().max(1)).0;
                // With pieces, the end can be detected before the excess bytes have arrived.
                prop_assert!(pieces == whole || whole == Status::MALFORMED, "{pieces:?} {whole:?}");
            }
        }
    }
}
