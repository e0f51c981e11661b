//! `/proc/net/netstat`: TCP counters of one network namespace.

use super::{lines, number, words};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Connections refused because the accept queue was full.
    pub listen_overflows: u64,
    /// Connection attempts dropped by a listening socket, for any reason; overflows are included.
    pub listen_drops: u64,
    /// Attempts dropped because the queue of half-open connections was full and SYN cookies are off.
    pub request_queue_full: u64,
    /// SYNs (and SYN-ACKs) sent again.
    pub syn_retransmits: u64,
}

const NAMES: [&[u8]; 4] = [
    b"ListenOverflows",
    b"ListenDrops",
    b"TCPReqQFullDrop",
    b"TCPSynRetrans",
];

/// The positions of the needed counters among more than a hundred; the names are the same at every
/// reading.
#[derive(Default)]
pub struct Columns {
    /// Everything before the values.
    front: Vec<u8>,
    /// The word of the values for each of [`NAMES`]; names that this kernel lacks are missing.
    wanted: Vec<(usize, usize)>,
}

impl Columns {
    /// The first line of a pair names the counters of the second. None without `TcpExt`; a counter
    /// that the kernel lacks is 0.
    pub fn parse(&mut self, text: &[u8]) -> Option<Tcp> {
        if self.front.is_empty() || !text.starts_with(&self.front) {
            self.find(text)?;
        }
        let values = lines(text.get(self.front.len()..)?).next()?;
        let mut values = words(values);
        let (mut counts, mut next) = ([0; NAMES.len()], 0);
        for &(column, which) in &self.wanted {
            counts[which] = values.nth(column - next).and_then(number)?;
            next = column + 1;
        }
        let [listen_overflows, listen_drops, request_queue_full, syn_retransmits] = counts;
        Some(Tcp {
            listen_overflows,
            listen_drops,
            request_queue_full,
            syn_retransmits,
        })
    }

    fn find(&mut self, text: &[u8]) -> Option<()> {
        let (mut at, mut names) = (0, None);
        for line in lines(text) {
            match names {
                None if line.starts_with(b"TcpExt:") => names = Some(line),
                Some(names) if line.starts_with(b"TcpExt:") => {
                    self.front = text.get(..at)?.to_vec();
                    let which = |name| NAMES.iter().position(|wanted| *wanted == name);
                    let columns = words(names).enumerate();
                    self.wanted = columns
                        .filter_map(|(column, name)| Some((column, which(name)?)))
                        .collect();
                    return Some(());
                }
                _ => {}
            }
            at += line.len() + 1;
        }
        None
    }
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
        let mut columns = Columns::default();
        assert_eq!(columns.parse(TEXT.as_bytes()), Some(found));
        assert_eq!(columns.parse(b"TcpExt: ListenDrops\n"), None);
        assert_eq!(columns.parse(b""), None);
        assert_eq!(columns.parse(TEXT.as_bytes()), Some(found));
        let other = columns.parse(b"TcpExt: ListenDrops New\nTcpExt: 7 8\n");
        assert_eq!(other.map(|tcp| tcp.listen_drops), Some(7));
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT), again in damaged(TEXT)) {
            let mut columns = Columns::default();
            let _ = (columns.parse(&text), columns.parse(&again), columns.parse(TEXT.as_bytes()));
        }
    }
}
