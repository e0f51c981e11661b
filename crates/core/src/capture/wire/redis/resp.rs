//! The values of RESP one after another, from a stream in pieces. Nesting needs no stack: an
//! aggregate of n elements only adds n to the number of pending values. Long strings are skipped by
//! length.

use crate::capture::wire::framing::Input;
use serde::{Deserialize, Serialize};

/// Of a line, enough for a type, a number or the first word of an error.
const LINE_KEPT: usize = 40;
/// Inline commands are limited by the server (64 KiB); simple strings and errors are shorter.
const LINE_MAX: u32 = 64 << 10;
const NAME_MAX: usize = 24;
/// Arguments kept of a `CLIENT`: enough for `REPLY SKIP`.
const ARGUMENTS: u8 = 2;
/// The server's limits for a string (512 MiB, up to 4 GiB by configuration) and for an aggregate (2^32 in RESP3).
const NUMBER_MAX: u64 = 1 << 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Progress {
    More,
    Done,
    Lost,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Resp {
    /// The type of the value, once its first byte was seen: 0 before; an attribute's is overwritten.
    kind: u8,
    begun: Option<i64>,
    /// Bytes of it that are not reported yet.
    early: u64,
    /// Values still to come.
    left: u64,
    #[serde(with = "crate::saved::array")]
    line: [u8; LINE_KEPT],
    line_len: u32,
    /// Bytes still to come of a string, its line end included; how many of them are that string's.
    string: u64,
    content: u64,
    naming: Naming,
    name: [u8; NAME_MAX],
    name_len: usize,
    /// Of a `CLIENT`, in capitals, each after a space; how many of them have begun.
    arguments: [u8; NAME_MAX],
    arguments_len: usize,
    arguments_begun: u8,
    error: [u8; NAME_MAX],
    error_len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Naming {
    /// The first string is the name.
    Wanted,
    Under,
    Known,
    /// The string is an argument that matters.
    Argument,
}

/// The client's setting for the server's replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Replies {
    #[default]
    On,
    Off,
    /// To everything but this and the next command.
    Skip,
}

impl Default for Resp {
    fn default() -> Self {
        Resp {
            kind: 0,
            begun: None,
            early: 0,
            left: 1,
            line: [0; LINE_KEPT],
            line_len: 0,
            string: 0,
            content: 0,
            naming: Naming::Wanted,
            name: [0; NAME_MAX],
            name_len: 0,
            arguments: [0; NAME_MAX],
            arguments_len: 0,
            arguments_begun: 0,
            error: [0; NAME_MAX],
            error_len: 0,
        }
    }
}

impl Resp {
    /// When the value began (now, if it begins), and how many of its bytes are not reported yet.
    pub fn begin(&mut self, now: i64) -> (i64, u64) {
        (*self.begun.get_or_insert(now), self.early)
    }

    pub fn told(&mut self) {
        self.early = 0;
    }

    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The name of the command, in capitals.
    pub fn name(&self) -> Option<&str> {
        let name = std::str::from_utf8(&self.name[..self.name_len]).unwrap_or("");
        matches!(self.naming, Naming::Known | Naming::Argument).then_some(name)
    }

    /// The setting of a `CLIENT REPLY`.
    pub fn replies(&self) -> Option<Replies> {
        match &self.arguments[..self.arguments_len] {
            b" REPLY ON" => Some(Replies::On),
            b" REPLY OFF" => Some(Replies::Off),
            b" REPLY SKIP" => Some(Replies::Skip),
            _ => None,
        }
    }

    /// The first word of an error.
    pub fn error(&self) -> &[u8] {
        &self.error[..self.error_len]
    }

    /// Takes bytes up to the end of the value.
    pub fn advance(&mut self, input: &mut Input<'_>, client: bool) -> Progress {
        let before = input.len();
        let progress = self.step(input, client);
        self.early += before - input.len();
        progress
    }

    fn step(&mut self, input: &mut Input<'_>, client: bool) -> Progress {
        while input.len() > 0 {
            if self.string > 0 {
                self.skip_string(input);
                if self.string > 0 {
                    continue;
                }
                self.left -= 1;
            } else {
                match self.gather_line(input) {
                    Progress::More => continue,
                    Progress::Lost => return Progress::Lost,
                    Progress::Done => {}
                }
                if !self.read_line(client) {
                    return Progress::Lost;
                }
                self.line_len = 0;
            }
            if self.left == 0 {
                return Progress::Done;
            }
        }
        Progress::More
    }

    fn skip_string(&mut self, input: &mut Input<'_>) {
        let n = self.string.min(input.len());
        let wanted = self.content.min(n);
        let of_it = usize::try_from(wanted)
            .unwrap_or(usize::MAX)
            .min(input.bytes().len());
        let bytes = &input.bytes()[..of_it];
        let cut = (of_it as u64) < wanted;
        let capital = u8::to_ascii_uppercase;
        match self.naming {
            Naming::Under => {
                push(&mut self.name, &mut self.name_len, bytes, capital);
                if cut {
                    self.name_len = 0;
                    self.naming = Naming::Known;
                }
            }
            Naming::Argument => {
                let (kept, len) = (&mut self.arguments, &mut self.arguments_len);
                push(kept, len, bytes, capital);
                if cut {
                    self.arguments_len = 0;
                }
            }
            _ if self.kind == b'!' && self.error_len < NAME_MAX => {
                push_word(&mut self.error, &mut self.error_len, bytes);
            }
            _ => {}
        }
        input.skip(n);
        self.string -= n;
        self.content = self.content.saturating_sub(n);
        if self.content == 0 && matches!(self.naming, Naming::Under | Naming::Argument) {
            self.naming = Naming::Known;
        }
    }

    fn gather_line(&mut self, input: &mut Input<'_>) -> Progress {
        let bytes = input.bytes();
        if bytes.is_empty() {
            let kept = (self.line_len as usize).min(LINE_KEPT);
            if self.kind == b'-' && self.line[..kept].contains(&b' ') {
                // The end of the line was cut off; its first word was captured.
                let line = self.line;
                self.error_word(&line[1..kept]);
            }
            return Progress::Lost;
        }
        let end = bytes.iter().position(|&b| b == b'\n');
        let line = &bytes[..end.unwrap_or(bytes.len())];
        for (place, &byte) in self.line.iter_mut().skip(self.line_len as usize).zip(line) {
            *place = byte;
        }
        self.line_len = self
            .line_len
            .saturating_add(u32::try_from(line.len()).unwrap_or(u32::MAX));
        input.skip((line.len() + usize::from(end.is_some())) as u64);
        let first = self.line[0];
        if self.line_len > 0 && (self.kind == 0 || self.kind == b'|') {
            self.kind = first;
        }
        match end {
            Some(_) => Progress::Done,
            None if self.line_len > LINE_MAX => Progress::Lost,
            None => Progress::More,
        }
    }

    /// A complete line: the head of a value, or a value. False: it is neither.
    fn read_line(&mut self, client: bool) -> bool {
        let kept = (self.line_len as usize).min(LINE_KEPT);
        let line = self.line[..kept].trim_ascii_end();
        let Some((&kind, rest)) = line.split_first() else {
            // Clients may send empty lines between commands.
            return client && self.left == 1;
        };
        match kind {
            b'*' | b'~' | b'>' | b'%' | b'|' => self.aggregate(kind, number(rest)),
            b'$' | b'=' | b'!' => match number(rest) {
                Some(Number::Null) => self.one_less(),
                Some(Number::Is(n)) => {
                    self.string = n + 2;
                    self.content = n;
                    if client {
                        self.begin_word(n);
                    }
                    true
                }
                None => false,
            },
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' if !client => {
                if kind == b'-' && self.kind == b'-' {
                    let line = self.line;
                    self.error_word(&line[1..kept]);
                }
                self.one_less()
            }
            b'a'..=b'z' | b'A'..=b'Z'
                if client && self.naming == Naming::Wanted && self.kind == kind =>
            {
                let (mut name, mut len) = ([0; NAME_MAX], 0);
                let word = line
                    .split(|b| b.is_ascii_whitespace())
                    .next()
                    .unwrap_or(b"");
                push(&mut name, &mut len, word, u8::to_ascii_uppercase);
                (self.name, self.name_len) = (name, len);
                self.naming = Naming::Known;
                self.inline_arguments();
                self.one_less()
            }
            _ => false,
        }
    }

    /// A string of a command, of this length, begins.
    fn begin_word(&mut self, len: u64) {
        match self.naming {
            Naming::Wanted if len > 0 => self.naming = Naming::Under,
            Naming::Wanted => self.naming = Naming::Known,
            Naming::Known if self.keeps_arguments() => {
                push(&mut self.arguments, &mut self.arguments_len, b" ", |byte| {
                    *byte
                });
                self.arguments_begun += 1;
                if len > 0 {
                    self.naming = Naming::Argument;
                }
            }
            _ => {}
        }
    }

    fn keeps_arguments(&self) -> bool {
        self.arguments_begun < ARGUMENTS && &self.name[..self.name_len] == b"CLIENT"
    }

    fn inline_arguments(&mut self) {
        let kept = (self.line_len as usize).min(LINE_KEPT);
        let line = self.line;
        let words = line[..kept].split(|b| b.is_ascii_whitespace()).skip(1);
        for word in words.filter(|word| !word.is_empty()) {
            if self.keeps_arguments() {
                self.arguments_begun += 1;
                let (kept, len) = (&mut self.arguments, &mut self.arguments_len);
                push(kept, len, b" ", |byte| *byte);
                push(kept, len, word, u8::to_ascii_uppercase);
            }
        }
    }

    fn error_word(&mut self, message: &[u8]) {
        self.error_len = 0;
        push_word(&mut self.error, &mut self.error_len, message);
    }

    fn one_less(&mut self) -> bool {
        self.left -= 1;
        true
    }

    fn aggregate(&mut self, kind: u8, count: Option<Number>) -> bool {
        let added = match count {
            None => return false,
            Some(Number::Null) => 0,
            Some(Number::Is(n)) if matches!(kind, b'%' | b'|') => 2 * n,
            Some(Number::Is(n)) => n,
        };
        // An attribute comes before a value, all others are one.
        self.left = (self.left - u64::from(kind != b'|')).saturating_add(added);
        true
    }
}

#[derive(Deserialize, Serialize)]
enum Number {
    Null,
    Is(u64),
}

fn number(digits: &[u8]) -> Option<Number> {
    if digits == b"-1" {
        return Some(Number::Null);
    }
    let value = digits.iter().try_fold(0u64, |n, b| match b {
        b'0'..=b'9' => Some(n * 10 + u64::from(b - b'0')).filter(|&n| n <= NUMBER_MAX),
        _ => None,
    });
    value.filter(|_| !digits.is_empty()).map(Number::Is)
}

fn push(to: &mut [u8; NAME_MAX], len: &mut usize, bytes: &[u8], map: fn(&u8) -> u8) {
    for byte in bytes.iter().take(NAME_MAX - *len) {
        to[*len] = map(byte);
        *len += 1;
    }
}

/// Up to a space.
fn push_word(to: &mut [u8; NAME_MAX], len: &mut usize, bytes: &[u8]) {
    let word = bytes
        .split(|b| b.is_ascii_whitespace())
        .next()
        .unwrap_or(b"");
    push(to, len, word, |b| *b);
}

/// Whether a command begins with these first bytes of a segment: an array of strings.
pub fn command_here(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"*") else {
        return false;
    };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    (1..=10).contains(&digits)
        && rest[digits..]
            .iter()
            .zip(b"\r\n$")
            .all(|(have, want)| have == want)
}

/// Whether a reply begins here: a type, and what its line begins with.
pub fn reply_here(bytes: &[u8]) -> bool {
    let number_line = |rest: &[u8]| {
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0
            && rest[digits..]
                .iter()
                .zip(b"\r\n")
                .all(|(have, want)| have == want)
    };
    match bytes {
        [b'*' | b'$' | b':' | b'%' | b'~' | b'>' | b'=' | b'!' | b'|', rest @ ..] => {
            number_line(rest)
        }
        [b'+' | b'-', b'A'..=b'Z', second, ..] => second.is_ascii_alphanumeric(),
        [b'_', b'\r', ..] | [b'#', b't' | b'f', b'\r', ..] | [b',', b'0'..=b'9', ..] => true,
        _ => false,
    }
}
