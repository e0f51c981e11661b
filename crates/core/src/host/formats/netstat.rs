//! `/proc/net/netstat`: what TCP of one network namespace counted.

use super::{lines, number, words};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Connections refused because the accept queue was full.
    pub listen_overflows: u64,
    /// Connection attempts dropped by a listening socket, for whatever reason; overflows are among them.
    pub listen_drops: u64,
    /// Attempts dropped because the queue of half-open connections was full and SYN cookies are off.
    pub request_queue_full: u64,
    /// SYNs (and SYN-ACKs) sent again.
    pub syn_retransmits: u64,
}

/// The first line of a pair names what the second counts. None without `TcpExt`; a counter that the kernel does not
/// have is 0.
pub fn parse(text: &[u8]) -> Option<Tcp> {
    let mut pair = lines(text).filter(|line| line.starts_with(b"TcpExt:"));
    let (names, values) = (pair.next()?, pair.next()?);
    let mut found = Tcp::default();
    for (name, value) in words(names).zip(words(values)).skip(1) {
        let into = match name {
            b"ListenOverflows" => &mut found.listen_overflows,
            b"ListenDrops" => &mut found.listen_drops,
            b"TCPReqQFullDrop" => &mut found.request_queue_full,
            b"TCPSynRetrans" => &mut found.syn_retransmits,
            _ => continue,
        };
        *into = number(value)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str =
        "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPReqQFullDrop TCPSynRetrans Other\n\
        TcpExt: 0 21 23 2 25 -1\nIpExt: InNoRoutes ListenDrops\nIpExt: 1 99\n";

    #[test]
    fn counters_are_found_by_name() {
        let found = Tcp {
            listen_overflows: 21,
            listen_drops: 23,
            request_queue_full: 2,
            syn_retransmits: 25,
        };
        assert_eq!(parse(TEXT.as_bytes()), Some(found));
        assert_eq!(parse(b"TcpExt: ListenDrops\n"), None);
        assert_eq!(parse(b""), None);
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = parse(&text);
        }
    }
}
