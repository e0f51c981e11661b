//! Goes through the run in the order in which visits were sent: each becomes a conversation, and
//! the packets of all open conversations are written in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use rustc_hash::FxHashMap;

use super::connections::{Connection, Connections};
use super::conversation::{failed, Ending, Told, Visit};
use super::frame::{segment_max, Frame};
use super::losses::Losses;
use super::names::Names;
use super::options::{Options, Parties};
use super::pcap::{PcapFile, TIME_MAX};
use super::report::Report;
use super::rows::Rows;
use super::stay::Stay;
use super::talk::{Side, Talk};
use super::wire::is_login;
use crate::error::{Error, Result};
use crate::record::{NO_NAME, NO_TIME};

/// Statuses of a request that may never have become a visit.
const FAILURES: [&str; 4] = ["refused", "timeout", "reset", "abandoned"];
/// Rows and packets between two progress reports.
const ROWS_A_TICK: u64 = 1024;
const PACKETS_A_TICK: u64 = 1 << 16;

struct Open {
    talk: Talk,
    client: SocketAddr,
    server: SocketAddr,
    closes: bool,
}

type Tell<'a> = dyn FnMut(u64) -> Result<()> + 'a;

pub struct Sweep {
    parties: Parties,
    names: Names,
    losses: Losses,
    connections: Connections,
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    /// (time, number of the conversation, where it is in `open`).
    due: BinaryHeap<Reverse<(i64, u64, usize)>>,
    conversations: u64,
    /// IPv4 identification of each host's next packet.
    ids: FxHashMap<IpAddr, u16>,
    file: PcapFile,
    payload: Vec<u8>,
    frame: Vec<u8>,
    done: u64,
    report: Report,
}

impl Sweep {
    pub fn new(
        run: &Path,
        capture: &Path,
        options: &Options,
        mut names: Names,
        report: Report,
    ) -> Result<Sweep> {
        Ok(Sweep {
            parties: Parties::new(options, &mut names),
            names,
            losses: Losses::open(&run.join("events.parquet"))?,
            connections: Connections::default(),
            open: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            conversations: 0,
            ids: FxHashMap::default(),
            file: PcapFile::create(capture, options.snaplen)?,
            payload: Vec::new(),
            frame: Vec::new(),
            done: 0,
            report,
        })
    }

    pub fn all(&mut self, mut stays: Rows<Stay>, tell: &mut Tell<'_>) -> Result<()> {
        let mut together: Vec<Stay> = Vec::new();
        let mut no_names = Names::default();
        while let Some(stay) = stays.next(&mut no_names)? {
            let same = |first: &Stay| (first.sent, first.key) == (stay.sent, stay.key);
            if !together.first().is_none_or(same) {
                self.group(&mut together, tell)?;
            }
            together.push(stay);
            self.done += 1;
            if self.done % ROWS_A_TICK == 0 {
                tell(self.done)?;
            }
        }
        self.group(&mut together, tell)?;
        self.emit(i64::MAX, tell)
    }

    pub fn finish(mut self) -> Result<Report> {
        self.file.finish()?;
        let PcapFile {
            packets,
            bytes,
            begin,
            end,
            ..
        } = self.file;
        Ok(Report {
            packets,
            bytes,
            begin,
            end,
            connections: self.connections.opened,
            ..self.report
        })
    }

    /// A request and the visit at its root, or one of the two, or another visit.
    fn group(&mut self, together: &mut Vec<Stay>, tell: &mut Tell<'_>) -> Result<()> {
        let (mut requests, visits): (Vec<Stay>, Vec<Stay>) =
            together.drain(..).partition(|stay| stay.is_request);
        for stay in visits {
            let request = requests
                .iter()
                .position(|request| !stay.has_parent && request.server == stay.server)
                .map(|at| requests.swap_remove(at));
            self.emit(stay.sent, tell)?;
            self.visit(&stay, request.map_or(NO_TIME, |request| request.arrival))?;
        }
        for request in requests {
            self.emit(request.sent, tell)?;
            self.request_alone(&request)?;
        }
        Ok(())
    }

    fn visit(&mut self, stay: &Stay, connected: i64) -> Result<()> {
        let status = self.names.text(stay.status).unwrap_or("");
        let (ending, status_kept) = Ending::of(status);
        if ending == Ending::Refused {
            self.report
                .change("existence: refused, so a request without a visit");
            return self.attempt(stay, "refused");
        }
        let server = self.parties.server(stay.server, &self.names)?.clone();
        let caller = self
            .parties
            .caller(stay.caller, stay.has_parent, stay.server);
        let client = self.client(caller, server.address.ip());
        let interaction = self.names.text(stay.interaction).map(str::to_owned);
        let login = is_login(server.protocol, interaction.as_deref());
        let keeps = self.parties.keeps(caller, stay.server, server.protocol);
        let undisturbed = stay.drops == 0 && stay.data_drops == 0;
        let kept = keeps && undisturbed && !login && ending != Ending::Unseen;
        let mut connection = if kept {
            self.connections
                .take(client, server.address, stay.arrival)?
        } else {
            self.connections.open(client, server.address)?
        };
        let stays_open = (kept || login) && matches!(ending, Ending::Answered(_));
        let syns = match (kept, login && stay.drops == 0) {
            (true, _) => Vec::new(),
            (false, true) => vec![stay.sent],
            (false, false) => {
                let span = (stay.sent, stay.arrival);
                self.losses
                    .attempts(stay.server, span, stay.drops, &mut self.names)?
            }
        };
        let visit = Visit {
            stay,
            ending,
            interaction: interaction.as_deref(),
            host: &server.name,
            protocol: server.protocol,
            syns,
            connected,
            next: connection.next,
            segment_max: segment_max(client),
            stays_open,
        };
        let Told { talk, changed } = visit.talk();
        self.report.visits += 1;
        for what in changed {
            self.report.change(what);
        }
        if !status_kept {
            self.report.change("status");
        }
        if stays_open {
            connection.next = talk.next;
            self.connections.keep(connection, stay.departure);
        }
        self.begin(talk, connection, !stays_open);
        Ok(())
    }

    /// A request without a known visit.
    fn request_alone(&mut self, request: &Stay) -> Result<()> {
        let status = self.names.text(request.status).unwrap_or("").to_owned();
        if !FAILURES.contains(&status.as_str()) {
            self.report.leave_out("requests without a visit");
            return Ok(());
        }
        self.attempt(request, &status)
    }

    fn attempt(&mut self, stay: &Stay, status: &str) -> Result<()> {
        let server = self.parties.server(stay.server, &self.names)?.address;
        let client = self.client(stay.caller, server.ip());
        let span = (stay.sent, stay.departure);
        let answered = matches!(status, "refused" | "reset");
        let (lost, names) = (stay.drops, &mut self.names);
        let syns = self
            .losses
            .attempts_in_vain(stay.server, span, lost, answered, names)?;
        let connection = self.connections.open(client, server)?;
        let talk = failed(status, &syns, stay.departure, connection.next);
        self.report.failed_requests += 1;
        self.begin(talk, connection, true);
        Ok(())
    }

    /// The caller's address, in the family of the server's.
    fn client(&self, caller: u32, server: IpAddr) -> IpAddr {
        match (self.parties.host(caller), server) {
            (IpAddr::V4(ip), IpAddr::V6(_)) => IpAddr::V6(ip.to_ipv6_mapped()),
            (IpAddr::V6(_), IpAddr::V4(_)) => self.parties.host(NO_NAME),
            (ip, _) => ip,
        }
    }

    fn begin(&mut self, talk: Talk, connection: Connection, closes: bool) {
        let Some(due) = talk.due() else { return };
        let open = Some(Open {
            talk,
            client: connection.client,
            server: connection.server,
            closes,
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.open[slot] = open;
                slot
            }
            None => {
                self.open.push(open);
                self.open.len() - 1
            }
        };
        self.conversations += 1;
        self.due.push(Reverse((due, self.conversations, slot)));
    }

    /// Writes every packet before `time`.
    fn emit(&mut self, time: i64, tell: &mut Tell<'_>) -> Result<()> {
        while let Some(&Reverse((due, number, slot))) = self.due.peek() {
            if due >= time {
                break;
            }
            self.due.pop();
            let next = self.packet(slot)?;
            match next {
                Some(next) => self.due.push(Reverse((next, number, slot))),
                None => self.end(slot),
            }
            if self.file.packets % PACKETS_A_TICK == 0 {
                tell(self.done)?;
            }
        }
        Ok(())
    }

    /// Writes the next packet of a conversation; returns when the following one is due.
    fn packet(&mut self, slot: usize) -> Result<Option<i64>> {
        let Some(Some(open)) = self.open.get_mut(slot) else {
            return Ok(None);
        };
        let Some(packet) = open.talk.pop() else {
            return Ok(None);
        };
        if packet.time > TIME_MAX {
            return Err(Error::Options(
                "a packet would go out after the year 2106, which a pcap file cannot hold"
                    .to_owned(),
            ));
        }
        self.payload.clear();
        open.talk.messages[packet.side as usize].read(packet.from, packet.to, &mut self.payload);
        let (from, to) = match packet.side {
            Side::Client => (open.client, open.server),
            Side::Server => (open.server, open.client),
        };
        let id = self.ids.entry(from.ip()).or_insert(0);
        // 0 stands for a sender that does not count.
        *id = id.checked_add(1).unwrap_or(1);
        let frame = Frame {
            time: packet.time,
            from: (from.ip(), from.port()),
            to: (to.ip(), to.port()),
            seq: packet.seq,
            ack: packet.ack,
            flags: packet.flags,
            id: *id,
            payload: &self.payload,
        };
        frame.write(&mut self.frame);
        self.file.write(packet.time, &self.frame)?;
        Ok(open.talk.due())
    }

    fn end(&mut self, slot: usize) {
        let Some(open) = self.open.get_mut(slot).and_then(Option::take) else {
            return;
        };
        self.free.push(slot);
        if open.closes {
            self.connections.close(open.client, open.server);
        }
    }
}
