//! Servers that other servers call over a Unix socket. No packet shows these calls, so a recording says who makes them.
//!
//! A server that listens on a TCP port and holds a connection to a Unix socket with a name calls the server behind it.
//! The kernel tells both ends of a connection apart by unix_diag.

use std::io;

use rustc_hash::{FxHashMap, FxHashSet};

use super::listeners::Asker;

/// `struct unix_diag_req` and `struct unix_diag_msg` of linux/unix_diag.h, and its attributes.
const REQUEST: usize = 24;
const STATES: usize = 4;
const SHOWN: usize = 12;
const MESSAGE: usize = 16;
const NUMBER: usize = 4;
const STATE: usize = 2;
const SHOW_NAME: u32 = 1;
const SHOW_PEER: u32 = 4;
const NAME: u16 = 0;
const PEER: u16 = 2;
/// States have the numbers of TCP's.
const ESTABLISHED: u32 = 1;
const LISTEN: u8 = 10;

/// Services of the system: a server logs to them, and no request waits for them.
const OF_SYSTEM: [&str; 3] = ["/run/systemd/", "/run/dbus/", "/dev/log"];
/// A connection may last a millisecond, so each check looks so many times.
const TRIES: u8 = 8;
/// A socket without such a caller in so many checks is not looked at again.
const CHECKS: u8 = 60;
/// With more names than these, as of a program that makes one for each call, the checks begin again.
const KNOWN: usize = 1000;
/// More sockets are not reported: a reader of warnings has learnt it by then.
const REPORTED: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Socket {
    inode: u32,
    listens: bool,
    /// The other end of its connection.
    peer: Option<u32>,
    name: Option<String>,
}

/// A call that no packet shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub caller: String,
    /// The process that listens, if it can be read.
    pub server: Option<String>,
    pub socket: String,
}

impl Call {
    pub fn sentence(&self) -> String {
        let Call { caller, socket, .. } = self;
        let server = self.server.as_deref().unwrap_or("another server");
        format!(
            "{caller} calls {server} over the Unix socket {socket}, and no packet shows these calls: what {server} does \
             counts as the time of {caller}; to see it apart, let {server} listen on a TCP port of 127.0.0.1"
        )
    }
}

/// The sockets that were reported, and in how many checks the others had no caller.
#[derive(Default)]
pub struct UnixSockets {
    reported: FxHashSet<String>,
    checks: FxHashMap<String, u8>,
}

impl UnixSockets {
    /// The calls that were not reported before. `servers` are the processes that listen on TCP ports, and `held` gives
    /// the sockets of a process. `holder` gives the name of the process that holds a socket.
    pub fn look(
        &mut self,
        asker: &mut Asker,
        servers: &[(i32, &str)],
        held: impl Fn(i32) -> Vec<u32>,
        holder: impl Fn(u32) -> Option<String>,
    ) -> io::Result<Vec<Call>> {
        if self.reported.len() >= REPORTED {
            return Ok(Vec::new());
        }
        if self.checks.len() >= KNOWN {
            self.checks.clear();
        }
        let (mut connected, mut calls) = (FxHashSet::default(), Vec::new());
        for _ in 0..TRIES {
            let sockets = sockets(asker)?;
            let ends = self.ends(&sockets);
            connected.extend(ends.values().map(|&name| name.to_owned()));
            for (pid, caller) in servers.iter().filter(|_| !ends.is_empty()) {
                for &name in held(*pid).iter().filter_map(|inode| ends.get(inode)) {
                    if self.reported.len() < REPORTED && self.reported.insert(name.to_owned()) {
                        let is_it =
                            |one: &&Socket| one.listens && one.name.as_deref() == Some(name);
                        calls.push(Call {
                            caller: (*caller).to_owned(),
                            server: sockets.iter().find(is_it).and_then(|one| holder(one.inode)),
                            socket: name.escape_debug().to_string(),
                        });
                    }
                }
            }
        }
        for name in connected {
            *self.checks.entry(name).or_default() += 1;
        }
        calls.sort_by(|a: &Call, b| a.socket.cmp(&b.socket));
        Ok(calls)
    }

    /// The ends of connections that have no name → the name of the other end, if it is worth a look.
    fn ends<'a>(&self, sockets: &'a [Socket]) -> FxHashMap<u32, &'a str> {
        let named: FxHashMap<u32, &str> = sockets
            .iter()
            .filter_map(|one| Some((one.inode, one.name.as_deref()?)))
            .collect();
        sockets
            .iter()
            .filter(|one| one.name.is_none())
            .filter_map(|one| Some((one.inode, *named.get(&one.peer?)?)))
            .filter(|(_, name)| self.is_new(name))
            .collect()
    }

    fn is_new(&self, name: &str) -> bool {
        !OF_SYSTEM.iter().any(|begin| name.starts_with(begin))
            && !self.reported.contains(name)
            && self.checks.get(name).is_none_or(|&checks| checks < CHECKS)
    }
}

fn sockets(asker: &mut Asker) -> io::Result<Vec<Socket>> {
    let mut found = Vec::new();
    asker.ask_for(&request(), &mut |body| found.extend(socket(body)))?;
    Ok(found)
}

/// A request of the names and peers of all sockets that listen or are connected.
fn request() -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[0] = libc::AF_UNIX as u8;
    let states = (1_u32 << ESTABLISHED) | (1_u32 << LISTEN);
    bytes[STATES..STATES + 4].copy_from_slice(&states.to_ne_bytes());
    bytes[SHOWN..SHOWN + 4].copy_from_slice(&(SHOW_NAME | SHOW_PEER).to_ne_bytes());
    bytes
}

/// What the kernel says of one socket. A name that begins with a zero byte belongs to no file; it is shown with an `@`.
fn socket(body: &[u8]) -> Option<Socket> {
    let message = body.first_chunk::<MESSAGE>()?;
    let mut found = Socket {
        inode: number(message.get(NUMBER..)?)?,
        listens: message[STATE] == LISTEN,
        ..Socket::default()
    };
    let mut rest = body.get(MESSAGE..)?;
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let (length, kind) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        let Some(value) = rest.get(4..usize::from(length)) else {
            break;
        };
        match kind {
            NAME => found.name = name(value),
            PEER => found.peer = number(value),
            _ => {}
        }
        rest = rest
            .get(usize::from(length).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Some(found)
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes
        .first_chunk::<4>()
        .map(|four| u32::from_ne_bytes(*four))
}

fn name(value: &[u8]) -> Option<String> {
    let text = match value.strip_prefix(&[0]) {
        Some(without) => format!("@{}", String::from_utf8_lossy(without)),
        None => String::from_utf8_lossy(value).into_owned(),
    };
    let text = text.trim_end_matches('\0');
    (!text.is_empty() && text != "@").then(|| text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn inode(socket: &impl AsRawFd) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let link = link.to_str().unwrap();
        let inside = link.strip_prefix("socket:[").unwrap();
        inside.strip_suffix(']').unwrap().parse().unwrap()
    }

    #[test]
    fn a_caller_of_a_named_socket_is_reported_once() {
        let path = std::env::temp_dir().join(format!("tailrace-unix-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let _accepted = listener.accept().unwrap();
        let (end, open) = (inode(&client), inode(&listener));
        let mut asker = Asker::new().unwrap();
        let mut known = UnixSockets::default();
        let mut look = |servers: Vec<(i32, &str)>| {
            let holder = |inode| (inode == open).then(|| "php-fpm".to_owned());
            known
                .look(&mut asker, &servers, |_| vec![end], holder)
                .unwrap()
        };
        assert_eq!(look(vec![]), []);
        let calls = look(vec![(7, "nginx")]);
        let socket = path.to_str().unwrap().to_owned();
        let expected = Call {
            caller: "nginx".to_owned(),
            server: Some("php-fpm".to_owned()),
            socket,
        };
        assert_eq!(calls, [expected]);
        assert_eq!(look(vec![(7, "nginx")]), []);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_name_without_a_file_is_shown_with_an_at_sign() {
        assert_eq!(name(b"\0app\0"), Some("@app".to_owned()));
        assert_eq!(name(b"/run/a.sock\0"), Some("/run/a.sock".to_owned()));
        assert_eq!((name(b""), name(b"\0")), (None, None));
    }

    #[test]
    fn sockets_of_the_system_are_left_out() {
        let known = UnixSockets::default();
        assert!(!known.is_new("/run/systemd/journal/stdout"));
        assert!(known.is_new("/run/php/php-fpm.sock"));
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = socket(&bytes);
        }
    }
}
