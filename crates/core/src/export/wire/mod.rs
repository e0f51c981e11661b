//! What client and server say to each other about one visit: one file a protocol.
//!
//! Sizes are exact where the protocol has a message of that size, names and outcomes where it has words for them;
//! [`Kept`] says what had to give way.

mod ajp;
mod http;
mod mysql;
mod sql;
#[cfg(test)]
mod tests;
mod tls;

use serde::Deserialize;

use super::message::Message;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Http,
    Ajp,
    MySql,
    Opaque,
}

/// What the response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// An HTTP status of 400 or more.
    Code(u16),
    /// The number of a MySQL error.
    Error(u16),
}

/// What is known of a visit's request and response.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub interaction: Option<&'a str>,
    /// The server's name or address, for the headers that want one.
    pub host: &'a str,
    pub bytes_in: Option<u64>,
    pub bytes_out: Option<u64>,
    pub outcome: Outcome,
}

/// What of a visit the wire tells unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub name: bool,
    pub bytes: bool,
    pub outcome: bool,
}

#[derive(Clone, Debug)]
pub struct Spoken {
    pub up: Message,
    pub down: Message,
    /// So many bytes of `down` come before the server is asked anything.
    pub greeting: u64,
    /// So many bytes at the end of `down` come in a segment of their own.
    pub tail: u64,
    pub kept: Kept,
}

pub fn speak(protocol: Protocol, asked: &Asked<'_>) -> Spoken {
    match protocol {
        Protocol::Http => http::speak(asked),
        Protocol::Ajp => ajp::speak(asked),
        Protocol::MySql => mysql::speak(asked),
        Protocol::Opaque => tls::speak(asked),
    }
}

/// Whether this visit is the login that opens its connection, the server speaking first.
pub fn is_login(protocol: Protocol, interaction: Option<&str>) -> bool {
    protocol == Protocol::MySql && interaction == Some(mysql::LOGIN)
}

/// Whether a message came out as long as it should be; anything will do where that is not known.
fn as_wanted(message: &Message, wanted: Option<u64>) -> bool {
    wanted.is_none_or(|wanted| wanted == message.len())
}
