//! Which listeners are one server: the same processes hold their sockets.
//!
//! Two ports of one process share its threads and its CPU, so what holds up one of them holds up the other.
//! Workers that each hold some of the ports share nothing, and are servers of their own.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

/// A node's number, and a port there.
pub type Place = (usize, u16);

/// These hold sockets on behalf of others: they start a service when a connection comes, or pass its bytes on to
/// somewhere else. Their ports are different services.
const HOLDERS: [&str; 14] = [
    "systemd",
    "init",
    "inetd",
    "xinetd",
    "launchd",
    "sshd",
    "sshd-session",
    "ssh",
    "docker-proxy",
    "rootlesskit",
    "slirp4netns",
    "pasta",
    "kube-proxy",
    "kubectl",
];

/// Whether a process of this name serves at its sockets itself.
pub fn serves(name: &str) -> bool {
    !HOLDERS.contains(&name)
}

/// Ports of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    /// The name of its process.
    pub name: String,
    pub places: BTreeSet<Place>,
}

/// Groups of two ports and more that the same processes hold. `holders`: these processes, without those that serve
/// nothing; `names`: those of the servers.
pub fn groups(
    holders: &FxHashMap<Place, BTreeSet<i32>>,
    names: &FxHashMap<Place, String>,
) -> Vec<Together> {
    let mut by_processes: BTreeMap<(usize, &BTreeSet<i32>, &str), BTreeSet<Place>> =
        BTreeMap::new();
    for (place, pids) in holders.iter().filter(|(_, pids)| !pids.is_empty()) {
        if let Some(name) = names.get(place) {
            let same = by_processes.entry((place.0, pids, name)).or_default();
            same.insert(*place);
        }
    }
    let several = by_processes
        .into_iter()
        .filter(|(_, places)| places.len() > 1);
    several
        .map(|((_, _, name), places)| Together {
            name: name.to_owned(),
            places,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(held: &[(Place, &str, &[i32])]) -> Vec<(String, Vec<u16>)> {
        let holders = held
            .iter()
            .map(|(place, _, pids)| (*place, pids.iter().copied().collect()))
            .collect();
        let names = held
            .iter()
            .map(|(place, name, _)| (*place, (*name).to_owned()))
            .collect();
        groups(&holders, &names)
            .into_iter()
            .map(|one| (one.name, one.places.iter().map(|place| place.1).collect()))
            .collect()
    }

    #[test]
    fn ports_that_the_same_processes_hold_are_one_server() {
        let nginx: &[i32] = &[10, 11, 12];
        let held = [
            ((0, 80), "nginx", nginx),
            ((0, 443), "nginx", nginx),
            ((0, 6379), "redis-server", &[20]),
        ];
        assert_eq!(found(&held), [("nginx".to_owned(), vec![80, 443])]);
    }

    #[test]
    fn instances_and_pools_of_workers_are_servers_of_their_own() {
        let held: [(Place, &str, &[i32]); 7] = [
            ((0, 6379), "redis-server", &[20]),
            ((0, 6380), "redis-server", &[21]),
            ((0, 9000), "php-fpm", &[30, 31]),
            ((0, 9001), "php-fpm", &[30, 32]),
            ((1, 80), "nginx", &[40]),
            // Nobody serves there, or nobody who can be read.
            ((0, 1), "systemd", &[]),
            ((0, 2), "systemd", &[]),
        ];
        assert_eq!(found(&held), []);
    }

    #[test]
    fn a_process_that_holds_sockets_for_others_serves_at_none() {
        assert!(!serves("systemd") && !serves("sshd") && serves("nginx"));
    }
}
