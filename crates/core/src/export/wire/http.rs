//! HTTP/1.1, or 1.0 if there is only room for that: heads padded to size, large bodies by their
//! length.

use super::{as_wanted, Asked, Kept, Message, Outcome, Spoken};

/// Padding beyond this goes into a body: servers take heads of 8 KiB.
const HEAD_PADDING_MAX: u64 = 2048;
const METHOD_MAX: usize = 24;

pub fn speak(asked: &Asked<'_>) -> Spoken {
    let target = Target::of(asked.interaction);
    let (code, outcome_kept) = match asked.outcome {
        Outcome::Ok => (200, true),
        Outcome::Code(code) => (code, true),
        Outcome::Error(_) => (500, false),
    };
    let up = request(&target, asked.host, asked.bytes_in);
    let down = response(code, target.method == "HEAD", asked.bytes_out);
    let bytes = as_wanted(&up, asked.bytes_in) && as_wanted(&down, asked.bytes_out);
    Spoken {
        up,
        down,
        greeting: 0,
        tail: 0,
        kept: Kept {
            name: asked.interaction.is_none() || target.as_named,
            bytes,
            outcome: outcome_kept,
        },
    }
}

/// The request of an interaction's name.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub method: String,
    pub path: String,
    /// The name is a method and a path; a bare one stands for `GET /name`.
    pub as_named: bool,
}

impl Target {
    pub fn of(interaction: Option<&str>) -> Target {
        let name = interaction.unwrap_or("");
        let named = name
            .split_once(' ')
            .filter(|(method, path)| is_method(method) && (path.starts_with('/') || *path == "*"));
        let (method, path) = match named {
            Some((method, path)) => (method, example(path)),
            None => (
                "GET",
                example(&format!("/{}", name.trim_start_matches('/'))),
            ),
        };
        Target {
            method: method.to_owned(),
            as_named: named.is_some() && !path.contains('%'),
            path,
        }
    }
}

fn is_method(word: &str) -> bool {
    let letters = word
        .bytes()
        .all(|b| b.is_ascii_uppercase() || matches!(b, b'-' | b'_'));
    letters && !word.is_empty() && word.len() <= METHOD_MAX && word != "CONNECT"
}

/// A path of which `path` is the template: `/item/{id}` → `/item/1`, `/img/*.png` → `/img/1.png`. What would end or
/// break a target is percent-encoded.
fn example(path: &str) -> String {
    let filled = path.replace("{id}", "1").replace("/*.", "/a.");
    let mut target = String::with_capacity(filled.len());
    for c in filled.chars() {
        match c {
            '\0'..=' '
            | '\x7f'
            | '?'
            | '#'
            | ';'
            | '%'
            | '"'
            | '<'
            | '>'
            | '\\'
            | '^'
            | '`'
            | '{'
            | '|'
            | '}' => {
                target.push_str(&format!("%{:02X}", c as u32));
            }
            _ => target.push(c),
        }
    }
    target
}

fn request(target: &Target, host: &str, wanted: Option<u64>) -> Message {
    let Target { method, path, .. } = target;
    let line = format!("{method} {path} HTTP/1.1\r\n");
    let natural = format!("{line}Host: {host}\r\n\r\n").into_bytes();
    let Some(wanted) = wanted.filter(|&wanted| wanted != natural.len() as u64) else {
        return Message::plain(natural);
    };
    let padded = format!("{line}Host: {host}\r\nX-Pad: ");
    let room = |head: &str| wanted.checked_sub(head.len() as u64 + 4);
    if let Some(room) = room(&padded) {
        return match room {
            0..=HEAD_PADDING_MAX => Message::plain(headed(&padded, room)),
            _ => with_length(&format!("{line}Host: {host}\r\n"), wanted),
        };
    }
    // In order of decreasing size: a host of any length, a field of any name, HTTP/1.0 without
    // either.
    let old = format!("{method} {path} HTTP/1.0\r\n");
    for lean in [format!("{line}Host: "), format!("{old}P:")] {
        if let Some(room) = room(&lean) {
            return Message::plain(headed(&lean, room));
        }
    }
    Message::plain(format!("{old}\r\n").into_bytes())
}

fn response(code: u16, headless: bool, wanted: Option<u64>) -> Message {
    let reason = match code {
        200 => "OK",
        404 => "Not Found",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "",
    };
    let line = format!("HTTP/1.1 {code} {reason}\r\n");
    let empty = format!("{line}Content-Length: 0\r\n\r\n").into_bytes();
    let Some(wanted) = wanted else {
        return Message::plain(empty);
    };
    let bodiless = headless || code == 204 || code == 304;
    if wanted >= empty.len() as u64 && !bodiless {
        return with_length(&line, wanted);
    }
    // Its end is the connection's, or its method's: the reason phrase takes the remaining room.
    let bare = format!("HTTP/1.1 {code} ");
    let room = wanted.saturating_sub(bare.len() as u64 + 4);
    Message::plain(headed(&bare, room))
}

/// `head`, so many letters, and the end of a head.
fn headed(head: &str, room: u64) -> Vec<u8> {
    let mut out = head.as_bytes().to_vec();
    out.resize(out.len() + room as usize, b'x');
    out.extend(b"\r\n\r\n");
    out
}

/// A message of `wanted` bytes in all, with a body. The length gets a leading zero where one digit more in it would
/// make the body one digit shorter.
fn with_length(head: &str, wanted: u64) -> Message {
    let fixed = format!("{head}Content-Length: \r\n\r\n").len() as u64;
    let room = wanted.saturating_sub(fixed);
    let width = (1..20)
        .find(|&width| room.saturating_sub(width).to_string().len() as u64 <= width)
        .unwrap_or(1);
    let body = room.saturating_sub(width);
    let width = width as usize;
    let head = format!("{head}Content-Length: {body:0width$}\r\n\r\n");
    Message::with_body(head.into_bytes(), body)
}
