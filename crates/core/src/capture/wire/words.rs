//! Errors that protocols name by a word or a number of their own, folded to numbers for [`Outcome`]: a word's place in
//! this list.

use super::Outcome;

/// Above those of HTTP/2.
pub const WORDS: u32 = 2_200_000_000;

const ALL: [&str; 42] = [
    "OTHER",
    // memcached
    "ERROR",
    "CLIENT_ERROR",
    "SERVER_ERROR",
    "UNAUTHENTICATED",
    "OUT_OF_MEMORY",
    "BUSY",
    "TOO_LARGE",
    // Cassandra
    "PROTOCOL_ERROR",
    "UNAVAILABLE",
    "OVERLOADED",
    "IS_BOOTSTRAPPING",
    "TRUNCATE_ERROR",
    "WRITE_TIMEOUT",
    "READ_TIMEOUT",
    "READ_FAILURE",
    "FUNCTION_FAILURE",
    "WRITE_FAILURE",
    "CDC_WRITE_FAILURE",
    "CAS_WRITE_UNKNOWN",
    "SYNTAX_ERROR",
    "UNAUTHORIZED",
    "INVALID",
    "CONFIG_ERROR",
    "ALREADY_EXISTS",
    "UNPREPARED",
    // AMQP
    "NACK",
    // DNS
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
    "BADVERS",
    "BADKEY",
    "BADTIME",
    "BADCOOKIE",
    "TRUNCATED",
];

/// The outcome that `word` names.
pub fn error(word: &str) -> Outcome {
    let place = ALL.iter().position(|known| *known == word).unwrap_or(0);
    Outcome::Error(WORDS + u32::try_from(place).unwrap_or(0))
}

/// The word with this `number`; `OTHER` for those that are not listed.
pub fn name(number: u32) -> &'static str {
    let place = usize::try_from(number.saturating_sub(WORDS)).unwrap_or(0);
    ALL.get(place).copied().unwrap_or(ALL[0])
}
