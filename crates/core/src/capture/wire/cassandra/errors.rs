//! Codes of errors, in the words of the specification.

use super::super::{words, Outcome};

const CODES: [(u32, &str); 20] = [
    (0x0000, "SERVER_ERROR"),
    (0x000a, "PROTOCOL_ERROR"),
    (0x0100, "UNAUTHENTICATED"),
    (0x1000, "UNAVAILABLE"),
    (0x1001, "OVERLOADED"),
    (0x1002, "IS_BOOTSTRAPPING"),
    (0x1003, "TRUNCATE_ERROR"),
    (0x1100, "WRITE_TIMEOUT"),
    (0x1200, "READ_TIMEOUT"),
    (0x1300, "READ_FAILURE"),
    (0x1400, "FUNCTION_FAILURE"),
    (0x1500, "WRITE_FAILURE"),
    (0x1600, "CDC_WRITE_FAILURE"),
    (0x1700, "CAS_WRITE_UNKNOWN"),
    (0x2000, "SYNTAX_ERROR"),
    (0x2100, "UNAUTHORIZED"),
    (0x2200, "INVALID"),
    (0x2300, "CONFIG_ERROR"),
    (0x2400, "ALREADY_EXISTS"),
    (0x2500, "UNPREPARED"),
];

pub fn outcome(code: Option<u32>) -> Outcome {
    let found = CODES.iter().find(|(known, _)| Some(*known) == code);
    words::error(found.map_or("OTHER", |(_, word)| word))
}
