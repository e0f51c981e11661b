//! Requests that have a line at their begin and another one at their end, as those of Rails: the name is in the first,
//! and status and duration are in the second. The name is put into the second, so that whatever reads single lines
//! needs no more.
//!
//! ```text
//! I, [2026-11-20T16:49:00.100000 #22]  INFO -- : [9f2a] Started GET "/items/17" for 10.0.0.9 at 2026-11-20 16:49:00 +0000
//! I, [2026-11-20T16:49:00.112500 #22]  INFO -- : [9f2a] Completed 200 OK in 12ms (Views: 1.0ms | Allocations: 4711)
//!     becomes    … #22]  INFO -- : [9f2a] Started GET "/items/17" Completed 200 OK in 12ms (Views: …
//! ```
//!
//! What stands between the stamp and the word is the mark of a request: tags, or the process alone. A mark belongs to
//! one request if no other one with it is open; and a request begins before its duration does.

use std::collections::VecDeque;

use memchr::memmem::Finder;
use rustc_hash::FxHashMap;

use super::moments::iso_local;
use super::{lines_of, values};

const BEGIN: &[u8] = b"Started ";
const END: &[u8] = b"Completed ";
/// Longer marks and names are no usual ones; the reader of single lines has the same bounds.
const MARK_MAX: usize = 300;
const TARGET_MAX: usize = 4000;
const MICROSECOND: i64 = 1_000;
/// Rails writes durations in whole milliseconds, and rounds them.
const ROUNDED: i64 = 500 * MICROSECOND;
/// Stamps are cut off to milliseconds or microseconds.
const CUT_OFF: i64 = 1_000 * MICROSECOND;
/// Bytes of marks and names that are kept: those of some hundred thousand requests.
const ROOM: usize = 16 << 20;

type Text = Box<[u8]>;

/// The requests with one mark.
#[derive(Debug)]
struct Open {
    count: u32,
    /// The begin and the name of the only one; without them, nothing tells several apart.
    only: Option<(i64, Text)>,
    /// The number of the last one.
    serial: u64,
}

/// Puts the names of requests into the lines of their ends, block by block.
#[derive(Debug, Default)]
pub struct Halves {
    open: FxHashMap<Text, Open>,
    /// The starts that are kept in their order: number, mark, and bytes.
    order: VecDeque<(u64, Text, usize)>,
    /// The sum of these bytes.
    kept: usize,
    serial: u64,
    /// Ends with and without a name.
    pub named: u64,
    pub nameless: u64,
}

/// A line with a stamp: the moment, the mark, and the rest from the word on.
struct Half<'t> {
    at: i64,
    mark: &'t [u8],
    rest: &'t [u8],
}

impl Halves {
    /// The lines of a block, with the names; nothing, if none gets one.
    pub fn join(&mut self, block: &[u8]) -> Option<Vec<u8>> {
        let (mut joined, mut done, mut at) = (Vec::new(), 0, 0);
        // They are aligned to more bytes than an object of Python, so they are made here.
        let (begin, end) = (Finder::new(BEGIN), Finder::new(END));
        for line in lines_of(block) {
            if let Some(begun) = half(line, &begin) {
                self.start(&begun);
            } else if let Some(ended) = half(line, &end) {
                let word = at + line.len() - ended.rest.len();
                if let Some(name) = self.finish(&ended) {
                    joined.extend_from_slice(&block[done..word]);
                    joined.extend_from_slice(&name);
                    done = word;
                }
            }
            at += line.len() + 1;
        }
        (done > 0).then(|| {
            joined.extend_from_slice(&block[done..]);
            joined
        })
    }

    fn start(&mut self, begun: &Half<'_>) {
        let Some(name) = name_of(begun.rest) else {
            return;
        };
        self.serial += 1;
        let serial = self.serial;
        if let Some(open) = self.open.get_mut(begun.mark) {
            open.count += 1;
            open.only = None;
            open.serial = serial;
        } else {
            let only = Some((begun.at, name.into()));
            let open = Open {
                count: 1,
                only,
                serial,
            };
            self.open.insert(begun.mark.into(), open);
        }
        let bytes = begun.mark.len() + name.len();
        self.order.push_back((serial, begun.mark.into(), bytes));
        self.kept += bytes;
        self.forget();
    }

    /// Forgets requests whose ends did not come before so many others began.
    fn forget(&mut self) {
        while self.kept > ROOM {
            let Some((serial, mark, bytes)) = self.order.pop_front() else {
                return;
            };
            self.kept -= bytes;
            if self
                .open
                .get(&mark)
                .is_some_and(|open| open.serial == serial)
            {
                self.open.remove(&mark);
            }
        }
    }

    /// The name of the request that ends here.
    fn finish(&mut self, ended: &Half<'_>) -> Option<Text> {
        let took = duration_of(ended.rest)?;
        let name = self.name_of_end(ended.mark, ended.at - took + ROUNDED + CUT_OFF);
        let counted = if name.is_some() {
            &mut self.named
        } else {
            &mut self.nameless
        };
        *counted += 1;
        name
    }

    /// The name of the only request with this mark, if it began at `latest` or before.
    fn name_of_end(&mut self, mark: &[u8], latest: i64) -> Option<Text> {
        let open = self.open.get_mut(mark)?;
        let only = open.only.take();
        if only.as_ref().is_some_and(|(begun, _)| *begun > latest) {
            // This is the end of an earlier one, so the mark is not that of a single request.
            return None;
        }
        open.count -= 1;
        if open.count == 0 {
            self.open.remove(mark);
        }
        only.map(|(_, name)| name)
    }
}

/// The parts of a line with this word behind its stamp.
fn half<'t>(line: &'t [u8], word: &Finder<'_>) -> Option<Half<'t>> {
    let found = word.find(line)?;
    let stamp = line.iter().position(u8::is_ascii_digit)?;
    let text = line.get(stamp..found)?;
    // `2026-11-20T16:49:00.` and the digits behind it.
    let part = text
        .get(20..)?
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let digits = 20 + part.count();
    let at = iso_local(&text[..digits])?;
    let mark = &text[digits..];
    (mark.len() <= MARK_MAX).then_some(Half {
        at,
        mark,
        rest: &line[found..],
    })
}

/// `Started GET "/items/17" `, if such a request begins.
fn name_of(rest: &[u8]) -> Option<&[u8]> {
    let after = &rest[BEGIN.len()..];
    let method = after.iter().position(|byte| !byte.is_ascii_uppercase())?;
    let target = after[method..].strip_prefix(b" \"")?;
    let end = target
        .iter()
        .take(TARGET_MAX + 1)
        .position(|&byte| byte == b'"')?;
    let is_name = (3..=20).contains(&method) && target[end..].starts_with(b"\" for ");
    is_name.then(|| &rest[..BEGIN.len() + method + 2 + end + 2])
}

/// The ns in `Completed 200 OK in 12ms`.
fn duration_of(rest: &[u8]) -> Option<i64> {
    let (code, reason) = rest[END.len()..].split_first_chunk::<3>()?;
    values::digits(code)?;
    let at = reason
        .windows(4)
        .position(|word| word == b" in ")
        .filter(|&at| at <= 61)?;
    let text = &reason[at + 4..];
    let whole = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let part = text[whole..].strip_prefix(b".");
    let digits = part
        .unwrap_or_default()
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    let after = part.map_or(&text[whole..], |part| &part[digits..]);
    if !after.starts_with(b"ms") || !(1..=9).contains(&whole) || part.is_some() && digits == 0 {
        return None;
    }
    let decimals = part.unwrap_or_default().iter().take(digits.min(3));
    let (below, _) = decimals.fold((0, 1_000_000), |(sum, unit), digit| {
        (sum + i64::from(digit - b'0') * unit / 10, unit / 10)
    });
    Some(values::digits(&text[..whole])? * 1_000_000 + below)
}

#[cfg(test)]
mod tests;
