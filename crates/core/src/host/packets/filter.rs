//! Which packets the kernel passes on: TCP, of some interfaces, of some ports, cut to a length. It
//! is a classic BPF program for a packet socket whose packets begin with the IP header.
//! ```text
//! front   interface? sent on loopback? IPv4 falls through, IPv6 jumps over
//! IPv4    TCP? first fragment? ports        each section ends with: drop, accept
//! IPv6    TCP? ports
//! ```

use libc::sock_filter;

/// Every port needs a comparison for each end, and a jump reaches 255 instructions.
pub const PORTS_MAX: usize = 100;
pub const INTERFACES_MAX: usize = 64;

// linux/bpf_common.h and linux/filter.h
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_BEHIND: u16 = 0x48;
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const PROTOCOL: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = PROTOCOL + 4;
const INTERFACE: u32 = PROTOCOL + 8;

const OUTGOING: u32 = 4;
/// The loopback interface, which shows every packet twice: outgoing and incoming.
const LOOPBACK: u32 = 1;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const TCP: u32 = 6;
const FRAGMENT_OFFSET: u32 = 0x1fff;
const IPV6_HEADER: u32 = 40;

/// Where a jump goes.
#[derive(Clone, Copy)]
enum To {
    Next,
    Skip(u8),
    Accept,
    Drop,
}

/// Instruction, operand, and the targets if it holds and if not.
type Step = (u16, u32, To, To);

fn load(code: u16, k: u32) -> Step {
    (code, k, To::Next, To::Next)
}

/// TCP packets of `interfaces` (empty: all) with one of `ports` (empty: all) at either end, cut to
/// `snap` bytes. Packets whose ports are not readable (IPv6 extension headers) pass only if all
/// ports do.
pub fn program(interfaces: &[u32], ports: &[u16], snap: u32) -> Vec<sock_filter> {
    let v4 = section(&version_4(ports), snap);
    let mut all = front(interfaces, v4.len() as u32);
    all.extend(v4);
    all.extend(section(&version_6(ports), snap));
    all
}

fn front(interfaces: &[u32], v4_length: u32) -> Vec<sock_filter> {
    let mut steps = vec![load(LOAD_WORD, INTERFACE)];
    for (i, interface) in interfaces.iter().enumerate() {
        let rest = interfaces.len() - i - 1;
        let no = if rest == 0 { To::Drop } else { To::Next };
        steps.push((JUMP_EQUAL, *interface, To::Skip(rest as u8), no));
    }
    steps.extend([
        (JUMP_EQUAL, LOOPBACK, To::Next, To::Skip(2)),
        load(LOAD_WORD, PACKET_TYPE),
        (JUMP_EQUAL, OUTGOING, To::Drop, To::Next),
        load(LOAD_WORD, PROTOCOL),
        (JUMP_EQUAL, IPV4, To::Skip(3), To::Next),
        (JUMP_EQUAL, IPV6, To::Next, To::Drop),
        load(JUMP, v4_length + 1),
    ]);
    let mut front = section(&steps, 0);
    // It ends only by dropping: accepted packets continue after it.
    front.pop();
    front
}

fn version_4(ports: &[u16]) -> Vec<Step> {
    let mut steps = vec![
        load(LOAD_BYTE, 9),
        (JUMP_EQUAL, TCP, To::Next, To::Drop),
        load(LOAD_HALF, 6),
        (JUMP_ANY_BIT, FRAGMENT_OFFSET, To::Drop, To::Next),
        load(LOAD_HEADER_LENGTH, 0),
    ];
    steps.extend(at_either_end(LOAD_HALF_BEHIND, 0, ports));
    steps
}

fn version_6(ports: &[u16]) -> Vec<Step> {
    let mut steps = vec![load(LOAD_BYTE, 6)];
    if !ports.is_empty() {
        steps.push((JUMP_EQUAL, TCP, To::Next, To::Drop));
    }
    steps.extend(at_either_end(LOAD_HALF, IPV6_HEADER, ports));
    steps
}

/// The source port is at `at`, the destination port behind it.
fn at_either_end(code: u16, at: u32, ports: &[u16]) -> Vec<Step> {
    if ports.is_empty() {
        return vec![(JUMP_EQUAL, 0, To::Accept, To::Accept)];
    }
    let mut steps = Vec::new();
    for (at, missing) in [(at, To::Next), (at + 2, To::Drop)] {
        steps.push(load(code, at));
        for (i, port) in ports.iter().enumerate() {
            let last = i + 1 == ports.len();
            let no = if last { missing } else { To::Next };
            steps.push((JUMP_EQUAL, u32::from(*port), To::Accept, no));
        }
    }
    steps
}

/// The steps with resolved jumps, then the two ends: drop, accept.
fn section(steps: &[Step], snap: u32) -> Vec<sock_filter> {
    let length = steps.len();
    let instruction = |(at, &(code, k, yes, no)): (usize, &Step)| {
        let offset = |to| match to {
            To::Next => 0,
            To::Skip(count) => count,
            To::Drop => (length - at - 1) as u8,
            To::Accept => (length - at) as u8,
        };
        sock_filter {
            code,
            jt: offset(yes),
            jf: offset(no),
            k,
        }
    };
    let ends = [0, snap].map(|k| sock_filter {
        code: RETURN,
        jt: 0,
        jf: 0,
        k,
    });
    steps
        .iter()
        .enumerate()
        .map(instruction)
        .chain(ends)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Seen<'a> {
        interface: u32,
        kind: u32,
        protocol: u32,
        bytes: &'a [u8],
    }

    /// The kernel's decision about a packet: a load beyond its end drops it.
    fn run(program: &[sock_filter], seen: &Seen<'_>) -> u32 {
        let byte = |at: usize| seen.bytes.get(at).map(|byte| u32::from(*byte));
        let half = |at: usize| Some(byte(at)? << 8 | byte(at + 1)?);
        let (mut a, mut x, mut at) = (0, 0, 0);
        loop {
            let step = program[at];
            at += 1;
            let loaded = match step.code {
                LOAD_WORD if step.k == INTERFACE => Some(seen.interface),
                LOAD_WORD if step.k == PACKET_TYPE => Some(seen.kind),
                LOAD_WORD if step.k == PROTOCOL => Some(seen.protocol),
                LOAD_HALF => half(step.k as usize),
                LOAD_BYTE => byte(step.k as usize),
                LOAD_HALF_BEHIND => half(x as usize + step.k as usize),
                _ => Some(a),
            };
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
            match step.code {
                LOAD_HEADER_LENGTH => x = (byte(0).unwrap_or(0) & 15) * 4,
                JUMP => at += step.k as usize,
                JUMP_EQUAL => at += usize::from(if a == step.k { step.jt } else { step.jf }),
                JUMP_ANY_BIT => at += usize::from(if a & step.k != 0 { step.jt } else { step.jf }),
                RETURN => return step.k,
                _ => {}
            }
        }
    }

    fn v4(from: u16, to: u16, fragment: u16, protocol: u8) -> Vec<u8> {
        let mut bytes = vec![0; 44];
        bytes[0] = 0x46; // with four bytes of options
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes[9] = protocol;
        bytes[24..26].copy_from_slice(&from.to_be_bytes());
        bytes[26..28].copy_from_slice(&to.to_be_bytes());
        bytes
    }

    fn v6(from: u16, to: u16, next: u8) -> Vec<u8> {
        let mut bytes = vec![0; 60];
        bytes[0] = 0x60;
        bytes[6] = next;
        bytes[40..42].copy_from_slice(&from.to_be_bytes());
        bytes[42..44].copy_from_slice(&to.to_be_bytes());
        bytes
    }

    fn seen(protocol: u32, bytes: &[u8]) -> Seen<'_> {
        Seen {
            interface: 7,
            kind: 0,
            protocol,
            bytes,
        }
    }

    #[test]
    fn only_tcp_with_a_wanted_port_at_either_end() {
        let program = program(&[], &[80, 3306], 192);
        for (from, to, expected) in [(80, 40_000, 192), (40_000, 3306, 192), (40_000, 8080, 0)] {
            assert_eq!(run(&program, &seen(IPV4, &v4(from, to, 0, 6))), expected);
            assert_eq!(run(&program, &seen(IPV6, &v6(from, to, 6))), expected);
        }
        assert_eq!(run(&program, &seen(IPV4, &v4(80, 80, 0, 17))), 0);
        assert_eq!(run(&program, &seen(IPV4, &v4(80, 80, 100, 6))), 0);
        assert_eq!(run(&program, &seen(IPV4, &v4(80, 80, 0x4000, 6))), 192); // don't fragment
        assert_eq!(run(&program, &seen(IPV6, &v6(80, 80, 44))), 0);
        assert_eq!(run(&program, &seen(0x0806, &v4(80, 80, 0, 6))), 0);
        assert_eq!(run(&program, &seen(IPV4, &v4(80, 80, 0, 6)[..22])), 0);
    }

    #[test]
    fn without_ports_all_tcp_passes() {
        let program = program(&[], &[], 96);
        assert_eq!(run(&program, &seen(IPV4, &v4(1, 2, 0, 6))), 96);
        assert_eq!(run(&program, &seen(IPV4, &v4(1, 2, 0, 17))), 0);
        assert_eq!(run(&program, &seen(IPV6, &v6(1, 2, 44))), 96);
    }

    #[test]
    fn only_wanted_interfaces_and_loopback_once() {
        let bytes = v4(80, 1, 0, 6);
        let program = program(&[1, 7, 9], &[80], 96);
        for (interface, kind, expected) in [
            (7, 0, 96),
            (7, OUTGOING, 96),
            (9, 0, 96),
            (8, 0, 0),
            (1, 0, 96),
            (1, OUTGOING, 0),
        ] {
            let seen = Seen {
                interface,
                kind,
                protocol: IPV4,
                bytes: &bytes,
            };
            assert_eq!(run(&program, &seen), expected, "{interface} {kind}");
        }
    }

    proptest! {
        #[test]
        fn the_largest_program_is_right_about_any_ports(from: u16, to: u16, six: bool) {
            let ports: Vec<u16> = (0..PORTS_MAX as u16).map(|i| i * 650).collect();
            let interfaces: Vec<u32> = (1..=INTERFACES_MAX as u32).collect();
            let program = program(&interfaces, &ports, 96);
            let wanted = ports.contains(&from) || ports.contains(&to);
            let (protocol, bytes) = if six { (IPV6, v6(from, to, 6)) } else { (IPV4, v4(from, to, 0, 6)) };
            prop_assert_eq!(run(&program, &seen(protocol, &bytes)), if wanted { 96 } else { 0 });
        }
    }
}
