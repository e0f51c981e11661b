//! `GET /stories/{id}`: a path without the parts that differ from request to request.
//!
//! - The query, the fragment and parameters after `;` are dropped.
//! - A segment that is a number, a date, a UUID, long hexadecimal or looks random becomes `{id}`;
//!   before an extension too: `/story/17.html` is `/story/{id}.html`. So does what a route calls one:
//!   `:id`, `{id}`, `<int:id>`. Any other segment that is not a plain word becomes `{}` ([`is_plain`]).
//! - A static file becomes its folder and its extension, `/img/*.png`: such files are many, and
//!   cost the same.
//!
//! Nothing is percent-decoded.

use std::borrow::Cow;

use super::plain::is_plain;
use super::vocabulary::names_nobody;
use crate::capture::wire::path_of;

/// Extensions of files that servers send as they are.
const STATIC: [&str; 24] = [
    "css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "ico", "svg", "webp", "avif", "woff",
    "woff2", "ttf", "otf", "eot", "mp4", "webm", "mp3", "pdf", "wasm", "gz", "zip",
];
/// Those of what is made for each request. Any other may be a part of what it stands behind: `john.smith`.
const MADE: [&str; 24] = [
    "html", "htm", "xhtml", "shtml", "php", "asp", "aspx", "ashx", "asmx", "jsp", "jspx", "jsf",
    "do", "action", "json", "xml", "rss", "atom", "txt", "csv", "cgi", "pl", "py", "svc",
];
/// Deeper paths are cut: rewritten or generated ones, not routes.
const SEGMENTS_MAX: usize = 12;

/// Of RFC 9110, PATCH, WebDAV's, and those of caches and discovery; `?` where it was cut off.
const METHODS: [&str; 36] = [
    "GET",
    "POST",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "CONNECT",
    "TRACE",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "ACL",
    "SEARCH",
    "MERGE",
    "LABEL",
    "CHECKIN",
    "CHECKOUT",
    "UNCHECKOUT",
    "UPDATE",
    "MKACTIVITY",
    "MKWORKSPACE",
    "VERSION-CONTROL",
    "BASELINE-CONTROL",
    "PURGE",
    "BAN",
    "NOTIFY",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "?",
];

pub fn name(method: &[u8], target: &[u8]) -> String {
    let known = METHODS.iter().find(|known| known.as_bytes() == method);
    let mut name = known.copied().unwrap_or("{}").to_owned();
    if method == b"CONNECT" {
        return name;
    }
    let path = path_of(target);
    name.push(' ');
    if !path.starts_with(b"/") {
        name.push_str(match path {
            b"*" => "*",
            b"" => "",
            _ => "{}",
        });
        return name;
    }
    let mut segments = path[1..].split(|&b| b == b'/').peekable();
    let mut count = 0;
    while let Some(segment) = segments.next() {
        name.push('/');
        if count == SEGMENTS_MAX {
            name.push('…');
            break;
        }
        count += 1;
        let segment = segment.split(|&b| b == b';').next().unwrap_or(b"");
        push_segment(
            &mut name,
            &String::from_utf8_lossy(segment),
            segments.peek().is_none(),
        );
    }
    name
}

/// The path with `{id}` for each segment that is a number, a date or hexadecimal: it has the same name, and there are
/// fewer of them.
pub fn without_numbers(path: &[u8], shape: &mut Vec<u8>) {
    shape.clear();
    shape.extend_from_slice(path);
    // A segment that is replaced may become longer or shorter, so what follows it is copied again.
    let (mut begin, mut seen, mut is_first) = (0, 0, true);
    for (at, &byte) in path.iter().chain(b"/").enumerate() {
        if byte != b'/' {
            seen |= SEEN[usize::from(byte)];
            continue;
        }
        if !is_first && is_number(seen, at - begin) {
            let rest = path.len() - begin;
            shape.truncate(shape.len() - rest);
            shape.extend_from_slice(b"{id}");
            shape.extend_from_slice(&path[at..]);
        }
        (begin, seen, is_first) = (at + 1, 0, false);
    }
}

const DIGIT: u8 = 1;
/// No digit, nor what stands between the parts of a date or a number.
const OTHER: u8 = 2;
/// No digit of a hexadecimal number, nor `-`.
const NOT_HEXADECIMAL: u8 = 4;
/// What a segment is that has this byte.
const SEEN: [u8; 256] = {
    let mut seen = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let between = matches!(byte, b'-' | b':' | b',' | b'_');
        if byte.is_ascii_digit() {
            seen[at] |= DIGIT;
        } else if !between {
            seen[at] |= OTHER;
        }
        if !(byte.is_ascii_hexdigit() || byte == b'-') {
            seen[at] |= NOT_HEXADECIMAL;
        }
        at += 1;
    }
    seen
};

/// Some of what [`is_id`] finds, at a glance.
fn is_number(seen: u8, len: usize) -> bool {
    seen & DIGIT != 0 && (seen & OTHER == 0 || (seen & NOT_HEXADECIMAL == 0 && len >= 12))
}

/// What a word is called that stands for itself: an identifier, a plain word, or anything else.
pub fn word(word: &str) -> String {
    let mut name = String::new();
    push_segment(&mut name, word, false);
    name
}

fn push_segment(name: &mut String, segment: &str, last: bool) {
    let (stem, extension) = match segment.rsplit_once('.') {
        Some((stem, extension)) if last && !stem.is_empty() => (stem, Some(extension)),
        _ => (segment, None),
    };
    match extension {
        _ if is_id(segment) || is_placeholder(segment) => name.push_str("{id}"),
        Some(extension)
            if STATIC
                .iter()
                .any(|known| extension.eq_ignore_ascii_case(known)) =>
        {
            name.push_str("*.");
            name.push_str(extension);
        }
        Some(extension) if is_id(stem) && is_extension(extension) => {
            name.push_str("{id}.");
            name.push_str(extension);
        }
        _ if is_plain(segment) => name.push_str(segment),
        Some(extension) if is_extension(extension) => {
            name.push_str("{}.");
            name.push_str(extension);
        }
        _ => name.push_str("{}"),
    }
}

fn is_extension(text: &str) -> bool {
    MADE.iter().any(|known| text.eq_ignore_ascii_case(known))
}

/// What a word of a name becomes that is not common.
pub fn folded(word: &str) -> Cow<'_, str> {
    let (stem, extension) = match word.rsplit_once('.') {
        Some((stem, extension)) if is_extension(extension) => (stem, Some(extension)),
        _ => (word, None),
    };
    match extension {
        _ if word.is_empty() || word.starts_with(['{', '*', '…']) => Cow::from(word),
        _ if names_nobody(stem) => Cow::from(word),
        Some(extension) => Cow::from(format!("{{}}.{extension}")),
        None => Cow::from("{}"),
    }
}

/// Whether a segment is what routes of web frameworks have in the place of an identifier.
fn is_placeholder(segment: &str) -> bool {
    let within = |open, close| segment.starts_with(open) && segment.ends_with(close);
    within('{', '}') || within('<', '>') || segment.starts_with(':')
}

/// Whether a segment identifies one thing among others of its kind. The lengths separate words and
/// versions (`v2`, `page10`, `facade`, `BrowseCategories`) from generated ids (the shortest in use:
/// 11 random characters of a video id, 12 hexadecimal digits of a shortened hash).
fn is_id(segment: &str) -> bool {
    let count = |test: fn(&u8) -> bool| segment.as_bytes().iter().filter(|b| test(b)).count();
    let digits = count(u8::is_ascii_digit);
    let len = segment.len();
    let only = |others: &[u8]| {
        segment
            .bytes()
            .all(|b| b.is_ascii_digit() || others.contains(&b))
    };
    if digits == 0 {
        return false;
    }
    if only(b"-:,_") {
        return true;
    }
    let hexadecimal = segment.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if hexadecimal && len >= 12 {
        return true;
    }
    if !segment
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'='))
    {
        return false;
    }
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let mixed = len >= 11 && digits >= 2 && upper >= 2 && lower >= 2 && changes(segment) * 3 >= len;
    let run = segment
        .split(|c: char| !c.is_ascii_digit())
        .map(str::len)
        .max()
        .unwrap_or(0);
    mixed || run >= 5 || (len >= 20 && digits >= 4 && changes(segment) * 4 >= len)
}

/// How often the kind of character changes: rarely in words, often in random text.
fn changes(segment: &str) -> usize {
    let kind = |b: u8| match b {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        b'a'..=b'z' => 2,
        _ => 3,
    };
    segment
        .as_bytes()
        .windows(2)
        .filter(|w| kind(w[0]) != kind(w[1]))
        .count()
}
