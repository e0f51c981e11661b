//! The addresses and protocols of the servers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;

use super::names::Names;
use super::wire::Protocol;
use crate::error::{Error, Result};
use crate::record::NO_NAME;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub snaplen: u32,
    pub servers: Vec<ServerOption>,
    #[serde(default)]
    pub hosts: BTreeMap<String, IpAddr>,
    pub anyone: IpAddr,
    #[serde(default)]
    pub callers: BTreeMap<String, String>,
    #[serde(default)]
    pub pools: Vec<(String, String)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerOption {
    pub name: String,
    pub address: SocketAddr,
    pub protocol: Protocol,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub name: String,
    pub address: SocketAddr,
    pub protocol: Protocol,
}

/// The options by the numbers that names have in the tables.
pub struct Parties {
    servers: FxHashMap<u32, Server>,
    hosts: FxHashMap<u32, IpAddr>,
    anyone: IpAddr,
    callers: FxHashMap<u32, u32>,
    pools: FxHashSet<(u32, u32)>,
}

impl Parties {
    pub fn new(options: &Options, names: &mut Names) -> Parties {
        let server = |server: &ServerOption| Server {
            name: server.name.clone(),
            address: server.address,
            protocol: server.protocol,
        };
        let mut id = |name: &String| names.id(name);
        Parties {
            servers: options
                .servers
                .iter()
                .map(|s| (id(&s.name), server(s)))
                .collect(),
            hosts: options
                .hosts
                .iter()
                .map(|(name, ip)| (id(name), *ip))
                .collect(),
            anyone: options.anyone,
            callers: options
                .callers
                .iter()
                .map(|(callee, caller)| (id(callee), id(caller)))
                .collect(),
            pools: options
                .pools
                .iter()
                .map(|(caller, callee)| (id(caller), id(callee)))
                .collect(),
        }
    }

    pub fn server(&self, id: u32, names: &Names) -> Result<&Server> {
        self.servers.get(&id).ok_or_else(|| {
            let name = names.text(id).unwrap_or("(unknown)");
            Error::Options(format!("server {name} has no address"))
        })
    }

    /// The server or host that called `server`.
    pub fn caller(&self, caller: u32, has_parent: bool, server: u32) -> u32 {
        if caller == NO_NAME && has_parent {
            return self.callers.get(&server).copied().unwrap_or(NO_NAME);
        }
        caller
    }

    /// The address of a caller. Both ends of a connection are of one family.
    pub fn host(&self, caller: u32) -> IpAddr {
        let server = self.servers.get(&caller).map(|server| server.address.ip());
        server
            .or_else(|| self.hosts.get(&caller).copied())
            .unwrap_or(self.anyone)
    }

    /// Whether these calls use connections that are kept.
    pub fn keeps(&self, caller: u32, server: u32, protocol: Protocol) -> bool {
        matches!(protocol, Protocol::Ajp | Protocol::MySql)
            || self.pools.contains(&(caller, server))
    }
}
