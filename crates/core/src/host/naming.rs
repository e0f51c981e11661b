//! What the servers of a recording are called, after the processes that listen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::processes::Processes;
use super::together::{self, Place};

impl Processes {
    /// Names of the listening servers: that of their process, with the port if the process has
    /// several, and with the node if several nodes have such a process. A loopback address counts
    /// only in the namespace whose packets are recorded: each namespace has one.
    pub fn servers(&self, recorded: Option<&Path>) -> Vec<(String, Vec<SocketAddr>)> {
        let bearers = self.bearers();
        let mut servers: FxHashMap<String, Vec<SocketAddr>> = FxHashMap::default();
        for ((node, ip, port), (_, name)) in &self.names {
            let name = self.called(&bearers, (*node, *port), name);
            let namespace = self.namespaces.get(*node);
            let ips = match ip.is_unspecified() {
                true => namespace.map_or_else(Default::default, |n| n.addresses.as_slice()),
                false => std::slice::from_ref(ip),
            };
            let is_recorded = namespace.is_some_and(|n| n.path() == recorded);
            let seen = ips.iter().filter(|ip| is_recorded || !ip.is_loopback());
            let mut addresses = seen.map(|ip| SocketAddr::new(*ip, *port)).peekable();
            if addresses.peek().is_some() {
                servers.entry(name).or_default().extend(addresses);
            }
        }
        let mut servers: Vec<_> = servers.into_iter().collect();
        servers.sort();
        servers
    }

    /// The ports that the processes of each name listen on.
    fn bearers(&self) -> FxHashMap<&str, BTreeSet<Place>> {
        let mut bearers: FxHashMap<&str, BTreeSet<Place>> = FxHashMap::default();
        for ((node, _, port), (_, name)) in &self.names {
            bearers.entry(name).or_default().insert((*node, *port));
        }
        bearers
    }

    /// The name of the server at a port.
    fn called(
        &self,
        bearers: &FxHashMap<&str, BTreeSet<Place>>,
        (node, port): Place,
        name: &str,
    ) -> String {
        let namesakes = bearers.get(name).into_iter().flatten();
        let several = namesakes.clone().count() > 1;
        let elsewhere = namesakes.clone().any(|(other, _)| *other != node);
        match self.namespaces.get(node) {
            Some(namespace) if elsewhere => format!("{}/{name}:{port}", namespace.node),
            _ if several => format!("{name}:{port}"),
            _ => name.to_owned(),
        }
    }

    /// The servers that listen on several ports: the name of each, and by the names that [`Self::servers`] gives to its
    /// ports, the places of these in the samples. The name has no port if no other server bears it.
    pub fn together(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let bearers = self.bearers();
        let named = self.names.iter();
        let names = named
            .map(|((node, _, port), (_, name))| ((*node, *port), name.clone()))
            .collect();
        let mut found = BTreeMap::new();
        for group in together::groups(&self.holders, &names) {
            let place = |&(node, port): &Place| {
                let namespace = self.namespaces.get(node)?;
                let called = self.called(&bearers, (node, port), &group.name);
                Some((called, format!("{}:{port}", namespace.node)))
            };
            let places: BTreeMap<String, String> = group.places.iter().filter_map(place).collect();
            let is_alone = bearers.get(group.name.as_str()) == Some(&group.places);
            let first = group.places.first().and_then(place).map(|(name, _)| name);
            let name = match is_alone {
                true => Some(group.name),
                false => first,
            };
            found.extend(name.map(|name| (name, places)));
        }
        found
    }
}
