//! The trace of a request, by the usual headers: the id of the trace, and that of the caller's span.
//!
//! ```text
//! traceparent:     00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01     W3C
//! b3:              80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1        or X-B3-TraceId and X-B3-SpanId
//! uber-trace-id:   4bf92f3577b34da6a3ce929d0e0e4736:00f067aa0ba902b7:0:1      without its leading zeros
//! x-amzn-trace-id: Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1
//! ```
//! An id of 64 bits gets leading zeros, as in OpenTelemetry. Only numbers are taken, so that nothing of a stranger's
//! text is kept.

use serde::{Deserialize, Serialize};

/// Hexadecimal digits of the id of a trace, and of a span.
const TRACE: usize = 32;
const SPAN: usize = 16;

/// Ids; 0 is an unknown one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Trace {
    pub id: u128,
    pub span: u64,
}

impl Trace {
    pub fn known(self) -> bool {
        self.id != 0
    }
}

/// A header with a part of it. The later ones outrank the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Carrier {
    B3Span,
    Amazon,
    Jaeger,
    B3Id,
    B3,
    Parent,
}

impl Carrier {
    /// By the name of the header, in any case.
    pub fn named(name: &[u8]) -> Option<Carrier> {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            2 if is(b"b3") => Some(Carrier::B3),
            11 if is(b"traceparent") => Some(Carrier::Parent),
            11 if is(b"x-b3-spanid") => Some(Carrier::B3Span),
            12 if is(b"x-b3-traceid") => Some(Carrier::B3Id),
            13 if is(b"uber-trace-id") => Some(Carrier::Jaeger),
            15 if is(b"x-amzn-trace-id") => Some(Carrier::Amazon),
            _ => None,
        }
    }

    fn read(self, value: &[u8]) -> Option<Trace> {
        let parts = |separator: u8| {
            let mut parts = value.split(move |&byte| byte == separator);
            (parts.next().unwrap_or(b""), parts.next())
        };
        let (id, span) = match self {
            Carrier::Parent => (
                value.get(3..)?.split(|&b| b == b'-').next()?,
                value.get(4 + TRACE..),
            ),
            Carrier::Jaeger => parts(b':'),
            Carrier::Amazon => return amazon(value),
            Carrier::B3 | Carrier::B3Id | Carrier::B3Span => parts(b'-'),
        };
        let fits = match self {
            Carrier::Parent => id.len() == TRACE && value.get(2) == Some(&b'-'),
            Carrier::Jaeger => true,
            _ => matches!(id.len(), SPAN | TRACE),
        };
        let span = span.and_then(|rest| rest.split(|&b| b == b'-').next());
        let span = span
            .and_then(|digits| hexadecimal(digits, SPAN))
            .unwrap_or(0) as u64;
        let id = hexadecimal(id, TRACE).filter(|_| fits)?;
        Some(Trace { id, span })
    }
}

/// The best of several headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Found {
    by: Option<Carrier>,
    trace: Trace,
    /// Of `X-B3-SpanId`.
    span: u64,
}

impl Found {
    pub fn take(&mut self, carrier: Carrier, value: &[u8]) {
        let Some(trace) = carrier
            .read(value.trim_ascii())
            .filter(|trace| trace.known())
        else {
            return;
        };
        if carrier == Carrier::B3Span {
            self.span = trace.id as u64;
        } else if self.by < Some(carrier) {
            (self.by, self.trace) = (Some(carrier), trace);
        }
    }

    pub fn trace(&self) -> Trace {
        match self.by {
            Some(Carrier::B3Id) => Trace {
                span: self.span,
                ..self.trace
            },
            _ => self.trace,
        }
    }
}

fn amazon(value: &[u8]) -> Option<Trace> {
    let fields = || value.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let root = fields().find_map(|field| field.strip_prefix(b"Root=1-"))?;
    let (time, rest) = (root.get(..8)?, root.get(9..)?);
    let whole = root.get(8) == Some(&b'-') && rest.len() == 24;
    let (time, rest) = (hexadecimal(time, TRACE)?, hexadecimal(rest, TRACE)?);
    let span = fields().find_map(|field| field.strip_prefix(b"Parent="));
    let span = span
        .and_then(|digits| hexadecimal(digits, SPAN))
        .unwrap_or(0) as u64;
    whole.then_some(Trace {
        id: time << 96 | rest,
        span,
    })
}

fn hexadecimal(text: &[u8], most: usize) -> Option<u128> {
    if text.is_empty() || text.len() > most {
        return None;
    }
    text.iter().try_fold(0, |id: u128, &byte| {
        Some(id << 4 | u128::from(char::from(byte).to_digit(16)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(headers: &[(&str, &str)]) -> String {
        let mut found = Found::default();
        for (name, value) in headers {
            if let Some(carrier) = Carrier::named(name.as_bytes()) {
                found.take(carrier, value.as_bytes());
            }
        }
        let trace = found.trace();
        format!("{:x}-{:x}", trace.id, trace.span)
    }

    const W3C: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_usual_headers_are_read() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(
            found(&[("Traceparent", W3C)]),
            format!("{id}-f067aa0ba902b7")
        );
        let b3 = format!("{id}-e457b5a2e4d86bd1-1");
        assert_eq!(found(&[("b3", &b3)]), format!("{id}-e457b5a2e4d86bd1"));
        assert_eq!(found(&[("b3", B3)]), "e457b5a2e4d86bd1-5e3ac9a4f6e3b90");
        assert_eq!(found(&[("X-B3-TraceId", id)]), format!("{id}-0"));
        let both = [("X-B3-SpanId", "e457b5a2e4d86bd1"), ("X-B3-TraceId", id)];
        assert_eq!(found(&both), format!("{id}-e457b5a2e4d86bd1"));
        assert_eq!(found(&both[..1]), "0-0");
        assert_eq!(found(&[("uber-trace-id", "bf92:1:0:1")]), "bf92-1");
        let amazon = "Self=1-1-2; Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        assert_eq!(
            found(&[("X-Amzn-Trace-Id", amazon)]),
            "5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8"
        );
    }

    const B3: &str = "e457b5a2e4d86bd1-05e3ac9a4f6e3b90-1";

    #[test]
    fn the_standard_outranks_others_in_any_order() {
        let (other, standard) = (("b3", B3), ("traceparent", W3C));
        assert_eq!(found(&[other, standard]), found(&[standard]));
        assert_eq!(found(&[standard, other]), found(&[standard]));
        assert_eq!(found(&[other, ("traceparent", "damaged")]), found(&[other]));
    }

    #[test]
    fn whatever_else_a_value_holds_is_no_id() {
        let long = "a".repeat(100_000);
        for value in [
            "",
            "-",
            "0",
            "x",
            "00-",
            "<script>",
            "\u{1b}[2J",
            "Root=1-",
            "Root=1-5759e988-bd",
            "Root=1-\u{e9}\u{e9}\u{e9}\u{e9}-",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473x-1",
            &long,
        ] {
            for name in [
                "traceparent",
                "b3",
                "x-b3-traceid",
                "x-b3-spanid",
                "uber-trace-id",
                "x-amzn-trace-id",
                "cookie",
            ] {
                assert_eq!(found(&[(name, value)]), "0-0", "{name}: {value:.40}");
            }
        }
    }
}
