//! What servers say of the software that they run.
//!
//! ```text
//! HTTP        Server: nginx/1.24.0      Via: 1.1 front (Apache/2.4.57)      X-Powered-By: Express
//! MySQL       the version in the greeting: 8.0.35, 5.5.5-10.11.6-MariaDB
//! PostgreSQL  the parameter server_version: 14.10 (Debian 14.10-1)
//! ```
//! A proxy passes on what the server behind it says, so this alone does not show what runs at an address. The reader of
//! captures compares the servers of a call (`readers/captured_software.py`).

use serde::{Deserialize, Serialize};

/// Characters kept of a text. The longest usual one is that of Apache with its modules, whose first word matters.
const TEXT_MAX: usize = 100;
const SOURCES: usize = 3;

/// Where the text stands. `Server` is also that of databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Source {
    Server,
    Via,
    PoweredBy,
}

impl Source {
    /// By the name of the header, in any case.
    pub fn named(name: &[u8]) -> Option<Source> {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            3 if is(b"via") => Some(Source::Via),
            6 if is(b"server") => Some(Source::Server),
            12 if is(b"x-powered-by") => Some(Source::PoweredBy),
            _ => None,
        }
    }
}

/// The values of one head. Of several fields of one name the last counts: that of `Via` is of the last proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values<'a>([Option<&'a [u8]>; SOURCES]);

impl<'a> Values<'a> {
    pub fn add(&mut self, name: &[u8], value: &'a [u8]) {
        if let Some(source) = Source::named(name) {
            self.0[source as usize] = Some(value);
        }
    }

    pub fn each(&self) -> impl Iterator<Item = (Source, &'a [u8])> + '_ {
        [Source::Server, Source::Via, Source::PoweredBy]
            .into_iter()
            .filter_map(|source| Some((source, self.0[source as usize]?)))
    }
}

/// The first text of each source that a server sent: printable ASCII, of bounded length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Software {
    pub server: Option<Box<str>>,
    pub via: Option<Box<str>>,
    pub powered_by: Option<Box<str>>,
}

impl Software {
    pub fn take(&mut self, source: Source, text: &[u8]) {
        let place = match source {
            Source::Server => &mut self.server,
            Source::Via => &mut self.via,
            Source::PoweredBy => &mut self.powered_by,
        };
        if place.is_none() {
            let text = match source {
                Source::Via => last_proxy(text),
                Source::Server | Source::PoweredBy => text,
            };
            let text = text.trim_ascii();
            *place = (!text.is_empty()).then(|| printable(text));
        }
    }

    pub fn each(&self) -> impl Iterator<Item = (Source, &[u8])> {
        let texts = [
            (Source::Server, &self.server),
            (Source::Via, &self.via),
            (Source::PoweredBy, &self.powered_by),
        ];
        texts
            .into_iter()
            .filter_map(|(source, text)| Some((source, text.as_deref()?.as_bytes())))
    }

    /// The texts that are not known yet.
    pub fn take_all(&mut self, other: &Software) {
        for (source, text) in other.each() {
            self.take(source, text);
        }
    }
}

/// Each proxy adds itself to the end (RFC 9110, section 7.6.3). A comment in parentheses may have commas.
fn last_proxy(text: &[u8]) -> &[u8] {
    let mut depth = 0u32;
    let mut begin = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => begin = at + 1,
            _ => {}
        }
    }
    &text[begin..]
}

fn printable(text: &[u8]) -> Box<str> {
    let shown = text.iter().take(TEXT_MAX);
    shown
        .map(|&byte| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '?',
        })
        .collect::<String>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(source: Source, texts: &[&[u8]]) -> Software {
        let mut software = Software::default();
        for text in texts {
            software.take(source, text);
        }
        software
    }

    #[test]
    fn the_first_text_stays() {
        let software = said(Source::Server, &[b"", b" nginx/1.24.0 ", b"Apache"]);
        assert_eq!(software.server.as_deref(), Some("nginx/1.24.0"));
        assert_eq!(software.via, None);
    }

    #[test]
    fn texts_are_short_and_printable() {
        let software = said(Source::PoweredBy, &[b"<b>\x1b[31m\xff\xe2\x80\xae\0</b>"]);
        assert_eq!(software.powered_by.as_deref(), Some("<b>?[31m?????</b>"));
        let long = said(Source::Server, &[&[b'a'; 1 << 20]]);
        assert_eq!(long.server.map(|text| text.len()), Some(TEXT_MAX));
    }

    #[test]
    fn the_last_proxy_is_the_nearest() {
        let via = |text: &[u8]| said(Source::Via, &[text]).via;
        assert_eq!(
            via(b"1.1 inner, 1.1 front (Apache/2.4, a)").as_deref(),
            Some("1.1 front (Apache/2.4, a)")
        );
        assert_eq!(via(b"1.1 varnish").as_deref(), Some("1.1 varnish"));
        assert_eq!(
            via(b"1.1 a (((, 1.1 b").as_deref(),
            Some("1.1 a (((, 1.1 b")
        );
        assert_eq!(via(b"1.1 a, "), None);
    }

    #[test]
    fn what_is_known_is_kept() {
        let mut known = said(Source::Server, &[b"nginx"]);
        let mut other = said(Source::Server, &[b"Apache"]);
        other.take(Source::PoweredBy, b"Express");
        known.take_all(&other);
        assert_eq!(known.server.as_deref(), Some("nginx"));
        assert_eq!(known.powered_by.as_deref(), Some("Express"));
    }
}
