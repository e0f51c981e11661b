//! Texts of requests and responses: the names that are made of them, and their ends as the load generator finds them.

use tailrace_core::capture::names::Namer;
use tailrace_core::capture::wire::Raw;
use tailrace_core::load::response::Response;

use crate::Input;

/// Longer names are cut (docs/reference/limits.md).
const NAME_BYTES: usize = 200;

/// Texts between zero bytes, the first byte of each saying what it is.
pub fn name(bytes: &[u8]) {
    let mut interactions = Vec::new();
    for keep in [false, true] {
        let Ok(mut namer) = Namer::new(&[], keep) else {
            continue;
        };
        for text in bytes.split(|&byte| byte == 0) {
            let (kind, text) = text.split_first().unwrap_or((&0, &[]));
            let word = std::str::from_utf8(text).unwrap_or("PING");
            let raw = match kind & 3 {
                0 => Raw::Http {
                    method: b"GET",
                    target: text,
                },
                1 => Raw::Sql(text),
                2 => Raw::Command(word),
                _ => Raw::Word(word),
            };
            let first = namer.name(raw, &mut interactions);
            let again = namer.name(raw, &mut interactions);
            assert!(
                keep || first == again || kind & 3 == 0,
                "{text:?} has two names"
            );
        }
    }
    for name in &interactions {
        assert!(name.len() <= NAME_BYTES, "a name of {} bytes", name.len());
    }
}

/// A response that comes in pieces of the size that the first byte says.
pub fn response(bytes: &[u8]) {
    let mut input = Input(bytes);
    let piece = usize::from(input.byte()).max(1);
    let mut response = Response::default();
    while !input.is_over() {
        if response.take(input.take(piece)).is_some() {
            response.clear();
        }
    }
    response.closed();
}
