//! The messages of client and server for one visit: one file for each protocol.
//!
//! Sizes are exact if the protocol has a message of that size, and names and outcomes if it can
//! express them; [`Kept`] says what could not be kept.

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

/// The outcome of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// An HTTP status of 400 or more.
    Code(u16),
    /// The number of a MySQL error.
    Error(u16),
}

/// The known properties of a visit's request and response.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub interaction: Option<&'a str>,
    /// The server's name or address, for the headers that want one.
    pub host: &'a str,
    pub bytes_in: Option<u64>,
    pub bytes_out: Option<u64>,
    pub outcome: Outcome,
}

/// The values of a visit that the wire carries unchanged.
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
    /// This many bytes of `down` come before the server receives a request.
    pub greeting: u64,
    /// This many bytes at the end of `down` come in a segment of their own.
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

/// Whether a message has the wanted length; any length is right if that is unknown.
fn as_wanted(message: &Message, wanted: Option<u64>) -> bool {
    wanted.is_none_or(|wanted| wanted == message.len())
}
