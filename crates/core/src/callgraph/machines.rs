//! Assigns loopback addresses to machines.
//!
//! A proxy that listens at an outer address calls its application at 127.0.0.1. In the capture
//! these are two hosts without a known relation. Both ends of a loopback connection are on one
//! machine, and that machine made the calls that lie inside the visits of its servers:
//! ```text
//! calls at a loopback address inside visits at an outer one      both are on one machine
//! calls from an outer address inside visits at a loopback one    likewise
//! ```
//!
//! Addresses without such evidence stay separate: captures of several machines may each have a
//! loopback address.

use super::edges::{choose, Nesting, Sample};
use crate::record::{Names, Visit, NO_NAME};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Servers tried as callers: those with the most visits. This bounds the cost of a scan of
/// thousands of ports.
const TRIED: usize = 64;

/// The inferred machines; empty without loopback addresses.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Machines {
    /// By host: whether it is a loopback address, and the host that names its machine.
    loopback: Vec<bool>,
    hosts: Vec<u32>,
    /// The same by server. Loopback servers that were not in the sample are included if all others
    /// are on one machine.
    servers: Vec<u32>,
    others: u32,
}

/// The host of each server.
#[derive(Clone, Copy)]
pub struct Hosts<'a> {
    pub names: &'a Names,
    pub machines: &'a Machines,
}

fn is_loopback(host: &str) -> bool {
    host.parse::<IpAddr>()
        .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

impl Machines {
    pub fn learn(visits: &[Visit], names: &Names) -> Machines {
        let loopback: Vec<bool> = names.hosts.iter().map(|host| is_loopback(host)).collect();
        if !loopback.contains(&true) {
            return Machines::default();
        }
        let sample = Sample::of(visits, names);
        let at_loopback = |host: u32| loopback.get(host as usize).copied().unwrap_or(false);
        let host_of = |server: u32| names.server_hosts.get(server as usize).copied();
        let edges = nested(&sample, at_loopback, host_of);
        let mut joined = Joined::new(names);
        for edge in &edges {
            let Some(host) = host_of(edge.caller) else {
                continue;
            };
            match (at_loopback(edge.host), at_loopback(host)) {
                (true, true) => joined.join(Node::Server(edge.callee), Node::Server(edge.caller)),
                (true, false) => joined.join(Node::Server(edge.callee), Node::Host(host)),
                (false, true) => joined.join(Node::Server(edge.caller), Node::Host(edge.host)),
                (false, false) => {}
            }
        }
        Machines::of(joined, loopback, names)
    }

    fn of(mut joined: Joined<'_>, loopback: Vec<bool>, names: &Names) -> Machines {
        let at_loopback = |host: u32| loopback.get(host as usize).copied().unwrap_or(false);
        let hosts: Vec<u32> = (0..names.hosts.len() as u32)
            .map(|host| joined.called(Node::Host(host)).unwrap_or(host))
            .collect();
        let mut machines: Vec<u32> = Vec::new();
        let mut servers = Vec::new();
        for (server, &host) in (0u32..).zip(&names.server_hosts) {
            let machine = match at_loopback(host) {
                true => joined.called(Node::Server(server)),
                false => hosts.get(host as usize).copied(),
            };
            if let Some(machine) = machine.filter(|_| at_loopback(host)) {
                machines.push(machine);
            }
            servers.push(machine.unwrap_or(NO_NAME));
        }
        machines.dedup();
        let others = match machines[..] {
            [one] => one,
            _ => NO_NAME,
        };
        Machines {
            loopback,
            hosts,
            servers,
            others,
        }
    }

    fn at_loopback(&self, host: u32) -> bool {
        self.loopback.get(host as usize).copied().unwrap_or(false)
    }

    /// The visit with its caller replaced by the host that names the machine.
    pub fn settle(&self, visit: &mut Visit, names: &Names) {
        let here = Hosts {
            names,
            machines: self,
        };
        visit.caller = match self.at_loopback(visit.caller) {
            // The caller of a loopback address is on the machine of that address.
            true => here.of(visit.server),
            false => *self
                .hosts
                .get(visit.caller as usize)
                .unwrap_or(&visit.caller),
        };
    }

    pub fn know_nothing(&self) -> bool {
        self.loopback.is_empty()
    }
}

impl<'a> Hosts<'a> {
    /// The host that names the machine of a server.
    pub fn of(&self, server: u32) -> u32 {
        let own = self.names.server_hosts.get(server as usize).copied();
        let own = own.unwrap_or(NO_NAME);
        match self.machines.servers.get(server as usize) {
            Some(&machine) if machine != NO_NAME => machine,
            _ if self.machines.others != NO_NAME && self.machines.at_loopback(own) => {
                self.machines.others
            }
            _ => *self.machines.hosts.get(own as usize).unwrap_or(&own),
        }
    }

    pub fn servers_on(self, host: u32) -> impl Iterator<Item = u32> + 'a {
        let all = 0..self.names.server_hosts.len() as u32;
        all.filter(move |&server| host != NO_NAME && self.of(server) == host)
    }
}

/// Calls at loopback addresses inside any visits, and calls from elsewhere inside visits at
/// loopback addresses or of their own host, if chance does not explain them.
fn nested(
    sample: &Sample,
    at_loopback: impl Fn(u32) -> bool,
    host_of: impl Fn(u32) -> Option<u32>,
) -> Vec<Nesting> {
    let callers = sample.busiest(TRIED);
    let mut found = Vec::new();
    for &(host, callee) in sample.calls.keys() {
        let may_call = |caller: u32| {
            let at = host_of(caller);
            let inner = at_loopback(host) || at.is_some_and(&at_loopback);
            caller != callee && (at == Some(host) || inner)
        };
        let nestings = callers
            .iter()
            .filter(|&&caller| may_call(caller))
            .filter_map(|&caller| sample.nesting(caller, host, callee));
        found.extend(nestings.filter(|nesting| {
            nesting.holds() && nesting.is_no_chance() && sample.is_caller(nesting)
        }));
    }
    choose(found, sample, |edge| at_loopback(edge.host))
}

#[derive(Clone, Copy)]
enum Node {
    Host(u32),
    Server(u32),
}

/// Hosts and servers, joined if they are on one machine.
struct Joined<'a> {
    names: &'a Names,
    parents: Vec<usize>,
    /// Whether another host or server was joined with it.
    with_others: Vec<bool>,
    loopback: Vec<bool>,
}

impl<'a> Joined<'a> {
    fn new(names: &'a Names) -> Joined<'a> {
        let nodes = names.hosts.len() + names.server_hosts.len();
        Joined {
            names,
            parents: (0..nodes).collect(),
            with_others: vec![false; nodes],
            loopback: names.hosts.iter().map(|host| is_loopback(host)).collect(),
        }
    }

    fn index(&self, node: Node) -> usize {
        match node {
            Node::Host(host) => host as usize,
            Node::Server(server) => self.names.hosts.len() + server as usize,
        }
    }

    fn root(&mut self, mut at: usize) -> Option<usize> {
        loop {
            let parent = *self.parents.get(at)?;
            if parent == at {
                return Some(at);
            }
            let above = *self.parents.get(parent)?;
            self.parents[at] = above;
            at = above;
        }
    }

    /// The least index is the representative: a host before a server, an earlier host before a
    /// later one.
    fn join(&mut self, a: Node, b: Node) {
        let (a, b) = (self.index(a), self.index(b));
        if let (Some(a), Some(b)) = (self.root(a), self.root(b)) {
            self.parents[a.max(b)] = a.min(b);
            self.with_others[a.min(b)] |= a != b;
        }
    }

    /// The host that names a machine, if there is evidence of one: its outer host, or the address of its first server
    /// if all its servers are at loopback addresses.
    fn called(&mut self, node: Node) -> Option<u32> {
        let at = self.index(node);
        let root = self.root(at)?;
        match root.checked_sub(self.names.hosts.len()) {
            Some(server) if self.with_others[root] => self.names.server_hosts.get(server).copied(),
            Some(_) => None,
            None => {
                let outer = !self.loopback.get(root).copied().unwrap_or(true);
                outer.then_some(root as u32)
            }
        }
    }
}
