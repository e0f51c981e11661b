//! Random connections: nothing panics on any damage, and without loss the result does not change.

use proptest::prelude::*;

use super::*;

/// One client's connection, described by numbers.
#[derive(Clone, Debug)]
struct Script {
    begin: i64,
    lost_syns: u8,
    /// (request bytes, response bytes, think time in ms)
    exchanges: Vec<(u16, u16, u16)>,
    ends: bool,
    reset: bool,
}

fn script() -> impl Strategy<Value = Script> {
    let exchange = (1..3000_u16, 1..6000_u16, 0..400_u16);
    let exchanges = prop::collection::vec(exchange, 0..5);
    (0..50 * MS, 0..3_u8, exchanges, any::<bool>(), any::<bool>()).prop_map(
        |(begin, lost_syns, exchanges, ends, reset)| Script {
            begin,
            lost_syns,
            exchanges,
            ends,
            reset,
        },
    )
}

const SEGMENT: u32 = 1448;
/// Numbers away from those of a connection that no window reaches.
const FAR: std::ops::Range<u32> = 1 << 26..u32::MAX - (1 << 26);

fn play(script: &Script, number: usize) -> Vec<Tcp> {
    let client: &'static str = ["10.0.0.1:40000", "10.0.0.1:40001", "[fd00::1]:40000"][number % 3];
    let server: &'static str = ["10.0.0.2:999", "10.0.0.2:999", "[fd00::2]:999"][number % 3];
    let mut talk = Talk {
        client,
        server,
        ids: 100 * number as u16,
        packets: Vec::new(),
    };
    let mut now = script.begin;
    for _ in 0..script.lost_syns {
        talk.syn(now);
        now += S;
    }
    talk.open(now);
    now += 100 * US;
    let (mut up, mut down) = (1001_u32, 5001_u32);
    for &(asked, answered, think) in &script.exchanges {
        for (is_up, len) in [(true, asked), (false, answered)] {
            let mut rest = u32::from(len);
            while rest > 0 {
                let piece = rest.min(SEGMENT);
                let payload = "x".repeat(piece as usize);
                let (seq, ack) = if is_up { (up, down) } else { (down, up) };
                talk.packet(now, is_up, ACK | PSH, seq, ack, &payload);
                let next = seq.wrapping_add(piece);
                *(if is_up { &mut up } else { &mut down }) = next;
                talk.packet(now + 20 * US, !is_up, ACK, ack, next, "");
                now += 150 * US;
                rest -= piece;
            }
            now += 2 * MS;
        }
        now += i64::from(think) * MS;
    }
    if script.reset {
        talk.packet(now, true, RST, up, 0, "");
    } else if script.ends {
        talk.packet(now, true, ACK | FIN, up, down, "");
        talk.packet(now + 50 * US, false, ACK | FIN, down, up + 1, "");
        talk.packet(now + 90 * US, true, ACK, up + 1, down + 1, "");
    }
    talk.packets
}

fn capture(scripts: &[Script]) -> Vec<Tcp> {
    let scripts = scripts.iter().take(3).enumerate();
    let mut all: Vec<Tcp> = scripts.flat_map(|(n, script)| play(script, n)).collect();
    all.sort_by_key(|packet| packet.time);
    all
}

/// The part of the result that does not depend on the order in which visits became known.
fn visits(packets: &[Tcp]) -> Vec<(String, Visit)> {
    let flow = flow(packets);
    let mut visits: Vec<(String, Visit)> = flow
        .ledger
        .visits
        .iter()
        .map(|visit| {
            let visit = Visit {
                visit: 0,
                connection: 0,
                server: 0,
                caller: 0,
                ..visit.clone()
            };
            (status(&flow, &visit), visit)
        })
        .collect();
    visits.sort_by_key(|(_, visit)| (visit.sent, visit.departure, visit.bytes_in, visit.bytes_out));
    visits
}

proptest! {
    #[test]
    fn every_exchange_is_one_visit(scripts in prop::collection::vec(script(), 1..4)) {
        let seen = visits(&capture(&scripts));
        let scripts = &scripts[..scripts.len().min(3)];
        let asked: usize = scripts.iter().map(|script| script.exchanges.len()).sum();
        prop_assert_eq!(seen.len(), asked);
        let bytes: u64 = scripts.iter().flat_map(|s| &s.exchanges).map(|e| u64::from(e.1)).sum();
        prop_assert_eq!(seen.iter().map(|(_, visit)| visit.bytes_out).sum::<u64>(), bytes);
        let with_requests = scripts.iter().filter(|script| !script.exchanges.is_empty());
        let lost: u32 = with_requests.map(|script| u32::from(script.lost_syns)).sum();
        prop_assert_eq!(seen.iter().map(|(_, visit)| u32::from(visit.drops)).sum::<u32>(), lost);
    }

    #[test]
    fn copies_change_nothing(
        scripts in prop::collection::vec(script(), 1..4),
        copies in 1..3_i64,
        later in prop_oneof![5 * US..30 * US, 100 * US..3 * MS],
    ) {
        let once = capture(&scripts);
        let mut all = once.clone();
        for copy in 1..=copies {
            all.extend(once.iter().map(|p| p.clone().at(p.time + copy * later).interface(copy as u16)));
        }
        all.sort_by_key(|packet| packet.time);
        prop_assert_eq!(visits(&once), visits(&all));
    }

    /// The first visit of a connection is none of those: up to `PROMPT`, what was sent in a hole belongs to its opening.
    #[test]
    fn holes_make_no_visit_longer(
        scripts in prop::collection::vec(script(), 1..4),
        holes in prop::collection::vec((0..2 * S, 1..300 * MS), 1..4),
    ) {
        let whole = capture(&scripts);
        let is_seen = |p: &&Tcp| !holes.iter().any(|&(begin, length)| (begin..begin + length).contains(&p.time));
        let rest: Vec<Tcp> = whole.iter().filter(is_seen).cloned().collect();
        let known = visits(&whole);
        for (status, visit) in visits(&rest) {
            if status == "ok" && visit.connected == NO_TIME {
                let same = known.iter().filter(|(_, one)| one.sent == visit.sent);
                let longest = same.map(|(_, one)| one.departure).max();
                prop_assert!(longest.is_none_or(|end| visit.departure <= end), "{:?}", visit);
            }
        }
    }

    #[test]
    fn a_packet_with_other_numbers_costs_nothing(
        scripts in prop::collection::vec(script(), 1..4),
        place in any::<prop::sample::Index>(),
        flags in prop::sample::select(vec![ACK, ACK | PSH, ACK | FIN, RST, RST | ACK]),
        (seq, ack) in (FAR, FAR),
        length in 0..9_usize,
    ) {
        let mut packets = capture(&scripts);
        prop_assume!(!packets.is_empty());
        let before = visits(&packets);
        let at = place.index(packets.len());
        let near = packets[at].clone();
        let (seq, ack) = (near.seq.wrapping_add(seq), near.ack.wrapping_add(ack));
        let stray = near.seq(seq).ack(ack).flags(flags).ip_id(40_000).payload("x".repeat(length));
        packets.insert(at + 1, stray);
        prop_assert_eq!(before, visits(&packets));
    }

    #[test]
    fn lost_acknowledgements_change_nothing(
        scripts in prop::collection::vec(script(), 1..4),
        lost in prop::collection::vec(any::<bool>(), 400),
    ) {
        let whole = capture(&scripts);
        // The handshake's own ACK is kept: it shows when the connection was established.
        let bare = |p: &Tcp| p.flags == ACK && p.len == 0 && p.seq != 1001;
        let thinned: Vec<Tcp> =
            whole.iter().zip(lost.iter().cycle()).filter(|(p, lost)| !(**lost && bare(p))).map(|(p, _)| p.clone()).collect();
        prop_assert_eq!(visits(&whole), visits(&thinned));
    }

    #[test]
    fn segments_stored_out_of_order_are_read_whole(
        scripts in prop::collection::vec(script(), 1..4),
        shifts in prop::collection::vec(0..300_i64, 400),
    ) {
        let straight = capture(&scripts);
        let mut bent: Vec<Tcp> = straight
            .iter()
            .zip(shifts.iter().cycle())
            .map(|(p, shift)| if p.len > 0 { p.clone().at(p.time + shift * US) } else { p.clone() })
            .collect();
        bent.sort_by_key(|packet| packet.time);
        let sizes = |packets: &[Tcp]| -> Vec<(u64, u64)> {
            let mut sizes: Vec<_> = visits(packets).iter().map(|(_, v)| (v.bytes_in, v.bytes_out)).collect();
            sizes.sort_unstable();
            sizes
        };
        prop_assert_eq!(sizes(&straight), sizes(&bent));
    }

    #[test]
    fn nothing_a_damaged_capture_holds_breaks_it(
        scripts in prop::collection::vec(script(), 1..4),
        harm in prop::collection::vec((0..8_u8, any::<u32>()), 1..200),
    ) {
        let mut packets = capture(&scripts);
        for (at, (kind, number)) in harm.iter().enumerate() {
            if packets.is_empty() {
                break;
            }
            let i = (*number as usize).wrapping_mul(7919).wrapping_add(at) % packets.len();
            let j = *number as usize % packets.len();
            match kind {
                0 => drop(packets.remove(i)),
                1 => packets.swap(i, j),
                2 => packets[i].seq = *number,
                3 => packets[i].ack = packets[i].ack.wrapping_add(*number % 5000),
                4 => packets[i].flags = *number as u8,
                5 => packets.insert(i, packets[j].clone()),
                6 => packets[i] = packets[i].clone().cut(*number as usize % 64),
                _ => packets[i].time = i64::from(*number) * MS,
            }
        }
        let flow = flow(&packets);
        for visit in &flow.ledger.visits {
            prop_assert!(visit.sent <= visit.arrival && visit.arrival <= visit.departure, "{:?}", visit);
            prop_assert!((visit.server as usize) < flow.ledger.names.servers.len());
            prop_assert!((visit.caller as usize) < flow.ledger.names.hosts.len());
        }
        let open: u64 = flow.ledger.servers.all().iter().map(|server| server.tally.visits_now).sum();
        let unfinished: u64 = flow.ledger.servers.all().iter().map(|server| server.tally.visits_now).sum();
        prop_assert_eq!(open, unfinished);
    }
}
