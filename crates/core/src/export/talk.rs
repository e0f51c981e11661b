//! The packets of one visit on its connection, one after the other, built when their time comes.

use std::collections::VecDeque;

use super::flags::{ACK, FIN, PSH, RST, SYN};
use super::message::Message;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// A packet without its addresses; `from..to` is the part of its side's message that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub time: i64,
    pub side: Side,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub from: u64,
    pub to: u64,
}

/// Bytes of one side in segments, the first at `begin`, the last at `end`; every second one is
/// acknowledged at once.
#[derive(Clone, Debug)]
struct Burst {
    packet: Packet,
    end: i64,
    pieces: u64,
    piece: u64,
    heard: bool,
    acknowledge: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Bare(Packet),
    Burst(Burst),
}

/// The sequence numbers of both sides.
pub type Sequences = [u32; 2];

#[derive(Clone, Debug)]
pub struct Talk {
    /// Client's, server's.
    pub messages: [Message; 2],
    pub next: Sequences,
    segment_max: u64,
    steps: VecDeque<Step>,
}

impl Talk {
    pub fn new(messages: [Message; 2], next: Sequences, segment_max: u64) -> Talk {
        Talk {
            messages,
            next,
            segment_max,
            steps: VecDeque::new(),
        }
    }

    /// The first half of the handshake: every lost SYN, then the answered one (if any).
    pub fn syns(&mut self, times: &[i64]) {
        for &time in times {
            self.push(time, Side::Client, SYN);
        }
        self.next[0] = self.next[0].wrapping_add(1);
    }

    pub fn syn_ack(&mut self, time: i64) {
        self.push(time, Side::Server, SYN | ACK);
        self.next[1] = self.next[1].wrapping_add(1);
    }

    /// The SYN-ACK again: the client's acknowledgement was lost.
    pub fn syn_ack_again(&mut self, time: i64) {
        self.push(time, Side::Server, SYN | ACK);
        if let Some(Step::Bare(packet)) = self.steps.back_mut() {
            packet.seq = packet.seq.wrapping_sub(1);
        }
    }

    pub fn ack(&mut self, time: i64, side: Side) {
        self.push(time, side, ACK);
    }

    pub fn fin(&mut self, time: i64, side: Side) {
        self.push(time, side, FIN | ACK);
        let next = &mut self.next[side as usize];
        *next = next.wrapping_add(1);
    }

    pub fn reset(&mut self, time: i64, side: Side) {
        self.push(time, side, RST | ACK);
    }

    /// The capture lacks this many bytes of this side; the other side received them.
    pub fn unseen(&mut self, side: Side, len: u64) {
        let next = &mut self.next[side as usize];
        *next = next.wrapping_add(len as u32);
    }

    /// The bytes `from..to` of this side's message, in at least `pieces` segments; `heard`: the
    /// other side acknowledges.
    pub fn bytes(
        &mut self,
        side: Side,
        (begin, end): (i64, i64),
        (from, to): (u64, u64),
        pieces: u64,
        heard: bool,
    ) {
        if from >= to {
            return;
        }
        let full = (to - from).div_ceil(self.segment_max);
        self.steps.push_back(Step::Burst(Burst {
            packet: Packet {
                from,
                to,
                ..self.packet(begin, side, ACK)
            },
            end: end.max(begin),
            pieces: full.max(pieces.min(to - from)),
            piece: 0,
            heard,
            acknowledge: false,
        }));
        self.unseen(side, to - from);
    }

    /// The client's first segment again, lost.
    pub fn first_again(&mut self, time: i64) {
        let len = self.messages[0].len().min(self.segment_max);
        let first = self.next[0].wrapping_sub(self.messages[0].len() as u32);
        let packet = self.packet(time, Side::Client, ACK | PSH);
        self.steps.push_back(Step::Bare(Packet {
            seq: first,
            from: 0,
            to: len,
            ..packet
        }));
    }

    fn push(&mut self, time: i64, side: Side, flags: u8) {
        let packet = self.packet(time, side, flags);
        self.steps.push_back(Step::Bare(packet));
    }

    fn packet(&self, time: i64, side: Side, flags: u8) -> Packet {
        let acknowledged = self.next[side.other() as usize];
        Packet {
            time,
            side,
            flags,
            seq: self.next[side as usize],
            ack: if flags & ACK != 0 { acknowledged } else { 0 },
            from: 0,
            to: 0,
        }
    }

    /// When the next packet is due; None: all are written.
    pub fn due(&self) -> Option<i64> {
        self.steps.front().map(|step| match step {
            Step::Bare(packet) => packet.time,
            Step::Burst(burst) => burst.time(),
        })
    }

    pub fn pop(&mut self) -> Option<Packet> {
        match self.steps.front_mut()? {
            Step::Bare(packet) => {
                let packet = *packet;
                self.steps.pop_front();
                Some(packet)
            }
            Step::Burst(burst) => {
                let packet = burst.next(self.segment_max);
                if burst.piece == burst.pieces && !burst.acknowledge {
                    self.steps.pop_front();
                }
                Some(packet)
            }
        }
    }
}

impl Burst {
    fn time(&self) -> i64 {
        let begin = self.packet.time;
        let at = if self.acknowledge {
            self.piece - 1
        } else {
            self.piece
        };
        match self.pieces - 1 {
            0 => begin,
            last => {
                begin + (i128::from(self.end - begin) * i128::from(at) / i128::from(last)) as i64
            }
        }
    }

    fn next(&mut self, segment_max: u64) -> Packet {
        let (time, whole) = (self.time(), self.packet);
        if self.acknowledge {
            self.acknowledge = false;
            let received = self.cut(self.piece, segment_max) - whole.from;
            return Packet {
                time,
                side: whole.side.other(),
                flags: ACK,
                seq: whole.ack,
                ack: whole.seq.wrapping_add(received as u32),
                from: 0,
                to: 0,
            };
        }
        let from = self.cut(self.piece, segment_max);
        self.piece += 1;
        let last = self.piece == self.pieces;
        self.acknowledge = self.heard && !last && self.piece % 2 == 0;
        Packet {
            time,
            flags: if last { ACK | PSH } else { ACK },
            seq: whole.seq.wrapping_add((from - whole.from) as u32),
            from,
            to: self.cut(self.piece, segment_max),
            ..whole
        }
    }

    /// Where a piece begins: full segments, or equal parts where there are more pieces than that.
    fn cut(&self, piece: u64, segment_max: u64) -> u64 {
        let len = self.packet.to - self.packet.from;
        let at = if len.div_ceil(segment_max) == self.pieces {
            (piece * segment_max).min(len)
        } else {
            (u128::from(len) * u128::from(piece) / u128::from(self.pieces)) as u64
        };
        self.packet.from + at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(mut talk: Talk) -> Vec<Packet> {
        let mut all = Vec::new();
        while let Some(due) = talk.due() {
            let packet = talk.pop().unwrap_or_else(|| unreachable!());
            assert_eq!(packet.time, due);
            all.push(packet);
        }
        all
    }

    #[test]
    fn bytes_go_out_in_segments_from_the_first_moment_to_the_last() {
        let mut talk = Talk::new([Message::default(), Message::default()], [10, 20], 100);
        talk.bytes(Side::Server, (1000, 2000), (0, 250), 1, true);
        assert_eq!(talk.next, [10, 270]);
        let all = packets(talk);
        let data: Vec<_> = all.iter().filter(|p| p.to > p.from).collect();
        let ranges: Vec<_> = data.iter().map(|p| (p.from, p.to, p.time)).collect();
        assert_eq!(ranges, [(0, 100, 1000), (100, 200, 1500), (200, 250, 2000)]);
        assert_eq!(
            data.iter().map(|p| p.seq).collect::<Vec<_>>(),
            [20, 120, 220]
        );
        let acks: Vec<_> = all.iter().filter(|p| p.to == p.from).collect();
        assert_eq!(acks.len(), 1);
        assert_eq!((acks[0].seq, acks[0].ack, acks[0].time), (10, 220, 1500));
    }

    #[test]
    fn a_repeated_first_segment_carries_the_first_bytes_again() {
        let mut talk = Talk::new(
            [Message::with_body(Vec::new(), 150), Message::default()],
            [10, 20],
            100,
        );
        talk.bytes(Side::Client, (5, 5), (0, 150), 1, true);
        talk.first_again(200);
        let last = packets(talk).pop();
        assert_eq!(
            last.map(|p| (p.seq, p.from, p.to, p.time)),
            Some((10, 0, 100, 200))
        );
    }
}
