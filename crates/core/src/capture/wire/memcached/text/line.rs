//! Lines and blocks of data of one direction, and what commands and replies say.

use super::outcome;
use crate::capture::wire::framing::Input;
use crate::capture::wire::Outcome;
use serde::{Deserialize, Serialize};

/// Bytes kept of a line: a key has at most 250, and only commands with many keys have longer lines.
const LINE_MAX: usize = 2048;
/// memcached's own bound of a value is 1 GiB (`-I`).
const DATA_MAX: u64 = 1 << 30;
pub const BATCH_END: &str = "mn";

/// One direction: the line that is being gathered, and the block of data behind the last one.
#[derive(Default, Deserialize, Serialize)]
pub struct Lines {
    pub text: Vec<u8>,
    begun: i64,
    /// Bytes of the line, of which `text` may be the beginning.
    len: u64,
    /// What is still to come of a block of data.
    pub data: u64,
    /// The reply is complete with the block.
    pub last: bool,
    pub lost: bool,
}

#[derive(Debug, Deserialize, Serialize)]
pub enum Line {
    /// `Lines::text` is a line.
    Whole {
        begun: i64,
        len: u64,
    },
    /// It is the beginning of a line; the capture has no more of it.
    Cut {
        begun: i64,
        len: u64,
    },
    Data {
        n: u64,
        over: bool,
    },
    Lost(u64),
}

impl Lines {
    pub fn next(&mut self, input: &mut Input<'_>) -> Option<Line> {
        if input.len() == 0 {
            return None;
        }
        if self.lost {
            let n = input.len();
            input.skip(n);
            return Some(Line::Lost(n));
        }
        if self.data > 0 {
            let n = self.data.min(input.len());
            input.skip(n);
            self.data -= n;
            let over = self.data == 0;
            return Some(Line::Data { n, over });
        }
        if self.len == 0 {
            self.begun = input.time;
            self.text.clear();
        }
        let visible = input.bytes();
        let end = visible.iter().position(|&byte| byte == b'\n');
        let taken = end.map_or(visible.len(), |end| end + 1);
        let room = LINE_MAX - self.text.len();
        self.text.extend_from_slice(&visible[..taken.min(room)]);
        let cut = end.is_none() && input.cut();
        let n = if cut { input.len() } else { taken as u64 };
        input.skip(n);
        self.len += n;
        if end.is_none() && !cut {
            return None;
        }
        self.lost |= cut;
        let (begun, len) = (self.begun, std::mem::take(&mut self.len));
        Some(match cut {
            true => Line::Cut { begun, len },
            false => Line::Whole { begun, len },
        })
    }

    /// A hole of this length, 0 if it is unknown: how much of it is data of a block.
    pub fn hole(&mut self, len: u64) -> u64 {
        let inside = len > 0 && len <= self.data && !self.lost;
        if !inside {
            *self = Lines {
                lost: true,
                ..Lines::default()
            };
            return 0;
        }
        // The block's last byte must be seen.
        let n = len.min(self.data - 1);
        self.lost = n < len;
        self.data -= n;
        n
    }
}

#[derive(Deserialize, Serialize)]
pub struct Command {
    #[serde(with = "crate::saved::fixed")]
    pub name: crate::saved::Fixed,
    /// Length of the block behind the line.
    pub data: u64,
    /// It stores a value, by its own words.
    pub stores: bool,
    /// It gets no reply, or only if there is something to say (meta commands).
    pub silent: bool,
    pub meta: bool,
    /// After it, the server sends without being asked.
    pub streams: bool,
    /// The length of its block was cut off.
    pub open: bool,
}

const STORES: [&str; 6] = ["set", "add", "replace", "append", "prepend", "cas"];
const METAS: [&str; 6] = ["mg", "ms", "md", "ma", BATCH_END, "me"];
const OTHERS: [&str; 20] = [
    "get",
    "gets",
    "gat",
    "gats",
    "delete",
    "incr",
    "decr",
    "touch",
    "stats",
    "flush_all",
    "version",
    "verbosity",
    "quit",
    "shutdown",
    "cache_memlimit",
    "slabs",
    "lru",
    "lru_crawler",
    "watch",
    "refresh_certs",
];
/// They are followed by a key.
const WITH_KEY: [&str; 8] = [
    "get", "gets", "gat", "gats", "delete", "incr", "decr", "touch",
];

impl Command {
    /// The command of a line, or of its beginning.
    pub fn of(line: &[u8]) -> Option<Command> {
        let whole = line.ends_with(b"\n");
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let first = words.next()?;
        let mut known = STORES.iter().chain(&METAS).chain(&OTHERS);
        let name = known.find(|known| **known == first)?;
        let followed = whole || line.len() > name.len();
        if !followed || text.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        let words: Vec<&str> = words.collect();
        let (stores, meta) = (STORES.contains(name), METAS.contains(name));
        if whole && WITH_KEY.contains(name) && words.is_empty() {
            return None;
        }
        let length = match *name {
            _ if stores => Some(3),
            "ms" => Some(1),
            _ => None,
        };
        let number = length.and_then(|place| words.get(place)?.parse::<u64>().ok());
        let data = number.filter(|&data| data <= DATA_MAX);
        if length.is_some() && data.is_none() && whole {
            return None;
        }
        let quiet = meta && *name != BATCH_END && words.iter().skip(1).any(|word| *word == "q");
        Some(Command {
            name,
            data: data.filter(|_| whole).map_or(0, |data| data + 2),
            stores: stores && data.is_some() && are_numbers(&words),
            silent: quiet || *name == "quit" || !meta && words.last() == Some(&"noreply"),
            meta,
            streams: *name == "watch"
                || *name == "lru_crawler"
                    && words.first().is_some_and(|word| word.ends_with("dump")),
            open: !whole && length.is_some(),
        })
    }

    /// A command of which nothing tells the name.
    pub fn unnamed() -> Command {
        Command {
            name: "",
            data: 0,
            stores: false,
            silent: false,
            meta: false,
            streams: false,
            open: true,
        }
    }

    /// Whether these first bytes of a line can be those of a command.
    pub fn may_begin(cut: &[u8]) -> bool {
        let mut known = STORES.iter().chain(&METAS).chain(&OTHERS);
        known.any(|known| known.as_bytes().starts_with(cut)) || Command::of(cut).is_some()
    }

    /// The command at the beginning of a segment: a whole line.
    pub fn here(first: &[u8]) -> Option<Command> {
        let end = first
            .iter()
            .take(LINE_MAX)
            .position(|&byte| byte == b'\n')?;
        match first.get(..=end)? {
            line if line.ends_with(b"\r\n") => Command::of(line),
            _ => None,
        }
    }
}

/// Flags, time and length behind the key.
fn are_numbers(words: &[&str]) -> bool {
    let numbers = words.iter().skip(1).take(3);
    numbers.clone().count() == 3
        && numbers.copied().all(|word| {
            word.trim_start_matches('-')
                .bytes()
                .all(|b| b.is_ascii_digit())
        })
}

#[derive(Deserialize, Serialize)]
pub struct Reply {
    pub outcome: Outcome,
    /// Length of the block behind the line.
    pub data: u64,
    /// No further line follows.
    pub last: bool,
    pub ends_batch: bool,
}

impl Reply {
    pub fn of(line: &[u8]) -> Reply {
        let mut words = line.trim_ascii_end().split(|&byte| byte == b' ');
        let word = words.next().unwrap_or_default();
        let length = match word {
            b"VALUE" => words.nth(2),
            b"VA" => words.next(),
            _ => None,
        };
        let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let length = length.filter(|&length: &u64| length <= DATA_MAX);
        Reply {
            outcome: outcome(word),
            data: length.map_or(0, |length| length + 2),
            last: !matches!(word, b"VALUE" | b"STAT" | b"ITEM"),
            ends_batch: word == b"MN" || outcome(word) != Outcome::Ok,
        }
    }
}

const REPLIES: [&[u8]; 18] = [
    b"VALUE ",
    b"END\r\n",
    b"STORED\r\n",
    b"NOT_STORED\r\n",
    b"EXISTS\r\n",
    b"NOT_FOUND\r\n",
    b"DELETED\r\n",
    b"TOUCHED\r\n",
    b"STAT ",
    b"VERSION ",
    b"CLIENT_ERROR ",
    b"SERVER_ERROR ",
    b"VA ",
    b"HD\r\n",
    b"HD ",
    b"EN\r\n",
    b"NF\r\n",
    b"MN\r\n",
];

/// Whether a reply begins with these first bytes of a segment.
pub fn reply_here(first: &[u8]) -> bool {
    REPLIES.iter().any(|reply| first.starts_with(reply))
}
