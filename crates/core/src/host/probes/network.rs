//! One network namespace: its TCP drops and retransmissions, and its accept queues.

use std::io;

use rustc_hash::FxHashMap;

use super::{Before, Probe, Source, Span, Tick};
use crate::host::formats::netstat::{Columns, Tcp};
use crate::host::listeners::{Asker, Listener, Picked};
use crate::host::places::Places;
use crate::host::sys;

pub struct TcpProbe {
    place: u32,
    source: Source,
    columns: Columns,
    before: Before<Tcp>,
    name: String,
}

impl TcpProbe {
    /// `netstat` was opened in the namespace.
    pub fn new(place: u32, netstat: Source, name: &str) -> Self {
        TcpProbe {
            place,
            source: netstat,
            columns: Columns::default(),
            before: Before::default(),
            name: name.to_owned(),
        }
    }
}

impl Probe for TcpProbe {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let text = into.read(&self.source)?;
        if let Some(now) = self.columns.parse(text.bytes()) {
            if let Some((before, span)) = self.before.replace(text.at, now) {
                let drops = now.listen_drops.saturating_sub(before.listen_drops);
                let repeats = now.syn_retransmits.saturating_sub(before.syn_retransmits);
                into.alarms.listen_drops += drops;
                into.alarms.syn_retransmits += repeats;
                for (metric, count) in [
                    ("listen_drops", drops),
                    ("syn_retransmits", repeats),
                    (
                        "listen_overflows",
                        now.listen_overflows.saturating_sub(before.listen_overflows),
                    ),
                    (
                        "syn_queue_drops",
                        now.request_queue_full
                            .saturating_sub(before.request_queue_full),
                    ),
                ] {
                    into.say(self.place, metric, span, count as f64);
                }
            }
        }
        into.done(text);
        Ok(())
    }

    fn about(&self) -> String {
        format!("TCP counters of {}", self.name)
    }
}

/// The most listeners that are recorded in a namespace: a host has tens.
const LISTENERS: usize = 256;
/// Up to this many are read one by one, in 2 µs each; reading all takes 20.
const FEW: usize = 8;
/// Time between two checks for new listeners.
const ALL_NS: i64 = 1_000_000_000;

/// Accept queues. A listener's place is `NAME:PORT`, where NAME is the node's.
pub struct QueueProbe {
    asker: Asker,
    node: String,
    picked: Picked,
    own_namespace: bool,
    before: Before<()>,
    places: FxHashMap<u16, u32>,
    named: Places,
    found: Vec<Listener>,
    /// When all were read; None: all must be read in this round.
    asked_all: Option<i64>,
}

impl QueueProbe {
    pub fn new(
        asker: Asker,
        node: &str,
        picked: &Picked,
        own_namespace: bool,
        named: Places,
    ) -> QueueProbe {
        QueueProbe {
            asker,
            node: node.to_owned(),
            picked: picked.clone(),
            own_namespace,
            before: Before::default(),
            places: FxHashMap::default(),
            named,
            found: Vec::new(),
            asked_all: None,
        }
    }

    fn ask_all(&mut self) -> io::Result<()> {
        let (picked, own, found) = (&self.picked, self.own_namespace, &mut self.found);
        found.clear();
        self.asker.ask(&mut |listener| {
            if picked.holds(&listener, own) {
                found.push(listener);
            }
        })?;
        self.found
            .sort_unstable_by_key(|listener| (listener.port, listener.ip));
        Ok(())
    }

    /// Whether each can be read by itself: of several with one address the kernel chooses one.
    fn can_be_known(&self) -> bool {
        let same = |pair: &[Listener]| (pair[0].port, pair[0].ip) == (pair[1].port, pair[1].ip);
        self.found.len() <= FEW && !self.found.windows(2).any(same)
    }

    /// The current state of the last round's listeners; false if one is gone.
    fn ask_known(&mut self) -> bool {
        self.found.iter_mut().all(|listener| {
            let now = self.asker.ask_again(listener);
            now.map(|now| *listener = now).is_ok()
        })
    }

    /// The place of the listeners on a port: several (one per address, or one per worker) share it.
    fn place(&mut self, port: u16) -> Option<u32> {
        if let Some(&place) = self.places.get(&port) {
            return Some(place);
        }
        if self.places.len() >= LISTENERS {
            return None;
        }
        let place = self.named.index(&format!("{}:{port}", self.node));
        self.places.insert(port, place);
        Some(place)
    }

    fn say(&mut self, span: Span, into: &mut Tick) {
        let mut at = 0;
        while let Some(first) = self.found.get(at) {
            let port = first.port;
            let same = self.found[at..]
                .iter()
                .take_while(|listener| listener.port == port);
            let (mut waiting, mut limit, mut count) = (0_u64, 0_u64, 0);
            for listener in same {
                waiting += u64::from(listener.waiting);
                limit += u64::from(listener.limit);
                count += 1;
                // The kernel accepts one more than the limit.
                into.alarms.queues_full += u64::from(listener.waiting >= listener.limit.max(1));
            }
            at += count;
            if let Some(place) = self.place(port) {
                into.say(place, "accept_queue", span, waiting as f64);
                into.say(place, "accept_queue_limit", span, limit as f64);
            }
        }
    }
}

impl Probe for QueueProbe {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let at = sys::steady_ns();
        let recent = |asked: i64| at - asked < ALL_NS;
        if !(self.asked_all.is_some_and(recent) && self.ask_known()) {
            self.ask_all()?;
            self.asked_all = self.can_be_known().then_some(at);
        }
        if let Some(((), span)) = self.before.replace(at, ()) {
            self.say(span, into);
        }
        Ok(())
    }

    fn about(&self) -> String {
        format!("accept queues of {}", self.node)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{said, Fake};
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn pass() {
        crate::host::sys::sleep_until(crate::host::sys::steady_ns() + 1_000_000);
    }

    #[test]
    fn counters_are_counts_within_the_interval() {
        let names = "TcpExt: ListenOverflows ListenDrops TCPReqQFullDrop TCPSynRetrans\n";
        let fake = Fake::new("netstat", &format!("{names}TcpExt: 5 6 7 8\n"));
        let mut probe = TcpProbe::new(0, Source::open(&fake.0).unwrap(), "web");
        assert_eq!(said(&mut probe), []);
        pass();
        fake.say(&format!("{names}TcpExt: 6 9 7 18\n"));
        let mut tick = Tick::default();
        probe.sample(&mut tick).unwrap();
        let values: Vec<f64> = tick.samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values, [3.0, 10.0, 1.0, 0.0]);
        assert_eq!(
            (tick.alarms.listen_drops, tick.alarms.syn_retransmits),
            (3, 10)
        );
    }

    fn only(address: SocketAddr) -> Picked {
        Picked {
            ports: vec![address.port()],
            ..Picked::default()
        }
    }

    #[test]
    fn the_recorders_own_listener_is_left_out_in_its_own_namespace() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let picked = Picked {
            leave_out: vec![address],
            ..only(address)
        };
        for (own, expected) in [(true, 0), (false, 1)] {
            let (asker, places) = (Asker::new().unwrap(), Places::default());
            let mut probe = QueueProbe::new(asker, "web", &picked, own, places.clone());
            said(&mut probe);
            pass();
            said(&mut probe);
            assert_eq!(places.all().len(), expected);
        }
    }

    #[test]
    fn a_queue_has_the_port_of_its_listener() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let places = Places::default();
        let mut probe = QueueProbe::new(
            Asker::new().unwrap(),
            "web",
            &only(address),
            true,
            places.clone(),
        );
        assert_eq!(said(&mut probe), []);
        pass();
        let _waits = TcpStream::connect(address).unwrap();
        let said = said(&mut probe);
        assert_eq!(said[0], ("accept_queue", 1.0));
        assert_eq!(said[1].0, "accept_queue_limit");
        assert_eq!(places.all(), [format!("web:{}", address.port())]);
    }
}
