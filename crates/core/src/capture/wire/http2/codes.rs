//! Errors of HTTP/2 (RFC 9113, section 7) and statuses of gRPC, in the notation of their specifications.

use super::super::Outcome;

/// Above those of FastCGI.
pub const HTTP2_ERRORS: u32 = 2_100_000_000;
const GRPC: u32 = HTTP2_ERRORS + 1000;

const ERRORS: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];
/// Of a stream that was not, and will not be, processed.
pub const REFUSED_STREAM: u32 = 7;

const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The server, or a proxy in front of it, ends a stream with this code.
pub fn reset(code: u32) -> Outcome {
    Outcome::Error(HTTP2_ERRORS + code.min(ERRORS.len() as u32))
}

/// A value of `grpc-status`.
pub fn grpc(value: &[u8]) -> Outcome {
    let code = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok());
    match code.unwrap_or(u32::MAX) {
        0 => Outcome::Ok,
        code => Outcome::Error(GRPC + code.min(STATUSES.len() as u32)),
    }
}

/// The name of an error with this `number`.
pub fn name(number: u32) -> String {
    let (names, code, other) = match number.checked_sub(GRPC) {
        Some(code) => (&STATUSES[..], code, "grpc-status"),
        None => (
            &ERRORS[..],
            number.saturating_sub(HTTP2_ERRORS),
            "http2-error",
        ),
    };
    names
        .get(code as usize)
        .map_or(other, |name| *name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_the_names_of_their_specifications() {
        let named = |outcome| match outcome {
            Outcome::Error(number) => super::super::super::error_name(number),
            other => format!("{other:?}"),
        };
        assert_eq!(named(reset(REFUSED_STREAM)), "REFUSED_STREAM");
        assert_eq!(named(reset(99)), "http2-error");
        assert_eq!(named(grpc(b"0")), "Ok");
        assert_eq!(named(grpc(b"14")), "UNAVAILABLE");
        assert_eq!([named(grpc(b"17")), named(grpc(b"x"))], ["grpc-status"; 2]);
    }
}
