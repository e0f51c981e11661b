//! Accept queues of listening sockets, read from the kernel by inet_diag: a fraction of the cost of
//! `/proc/net/tcp`, which goes through every connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use super::sys;

/// `struct nlmsghdr`, `struct inet_diag_req` and `struct inet_diag_req_v2` of linux/netlink.h and linux/inet_diag.h.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// For all listeners, the older of the two requests is used: only it covers both families at once,
/// and for each family the kernel goes through a table of the listeners of all namespaces, some 100
/// kB.
const TCPDIAG_GETSOCK: u16 = 18;
const ALL: usize = 60;
const ALL_STATES: usize = 52;
const REQUEST_DUMP: u16 = 0x301;

/// A single listener is requested by its cookie, which the kernel looks up.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const ONE: usize = 56;
const ONE_ID: usize = 8;
const REQUEST_ONE: u16 = 1;
/// `struct inet_diag_sockid`, here and in an answer.
const ID: usize = 48;
const ANSWER_ID: usize = 4;
const TCP_LISTEN: u32 = 10;
/// One answer of the kernel: it fills 32 KiB at most.
const ANSWER: usize = 1 << 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub ip: IpAddr,
    pub port: u16,
    /// Connections that wait to be accepted, and the most that may.
    pub waiting: u32,
    pub limit: u32,
    /// The socket's inode number, by which the processes that hold it are found.
    pub inode: u32,
    /// The kernel's identification of it.
    family: u8,
    id: [u8; ID],
}

/// Which listeners are recorded.
#[derive(Clone, Debug, Default)]
pub struct Picked {
    /// Only those on these ports, where there are some.
    pub ports: Vec<u16>,
    /// The recorder's own, which are in its own namespace.
    pub leave_out: Vec<SocketAddr>,
}

impl Picked {
    pub fn holds(&self, listener: &Listener, own_namespace: bool) -> bool {
        let address = SocketAddr::new(listener.ip, listener.port);
        let left_out = own_namespace && self.leave_out.contains(&address);
        !left_out && (self.ports.is_empty() || self.ports.contains(&listener.port))
    }
}

/// Sends requests in the network namespace in which it was created.
pub struct Asker {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Asker {
    pub fn new() -> io::Result<Asker> {
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG)?;
        Ok(Asker {
            socket,
            buffer: vec![0; ANSWER],
        })
    }

    /// Passes every listening TCP socket to `each`.
    pub fn ask(&mut self, each: &mut impl FnMut(Listener)) -> io::Result<()> {
        sys::send(&self.socket, &request_of_all())?;
        while parse(sys::receive(&self.socket, &mut self.buffer)?, each)? == Turn::More {}
        Ok(())
    }

    /// Sends a request for sockets of another kind, and passes the body of each answer to `each`.
    pub(super) fn ask_for(&mut self, body: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<()> {
        let mut bytes = vec![0; HEADER + body.len()];
        header(&mut bytes, SOCK_DIAG_BY_FAMILY, REQUEST_DUMP);
        bytes[HEADER..].copy_from_slice(body);
        sys::send(&self.socket, &bytes)?;
        while bodies(sys::receive(&self.socket, &mut self.buffer)?, each)? == Turn::More {}
        Ok(())
    }

    /// The current state of a known listener. An error if it is gone.
    pub fn ask_again(&mut self, known: &Listener) -> io::Result<Listener> {
        sys::send(&self.socket, &request_of(known))?;
        let mut found = None;
        let answer = sys::receive(&self.socket, &mut self.buffer)?;
        parse(answer, &mut |listener| found = Some(listener))?;
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    More,
    Done,
}

fn header(bytes: &mut [u8], kind: u16, flags: u16) {
    let length = bytes.len() as u32;
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
}

fn request_of_all() -> [u8; HEADER + ALL] {
    let mut bytes = [0; HEADER + ALL];
    header(&mut bytes, TCPDIAG_GETSOCK, REQUEST_DUMP);
    let states = HEADER + ALL_STATES;
    bytes[states..states + 4].copy_from_slice(&(1_u32 << TCP_LISTEN).to_ne_bytes());
    bytes
}

fn request_of(known: &Listener) -> [u8; HEADER + ONE] {
    let mut bytes = [0; HEADER + ONE];
    header(&mut bytes, SOCK_DIAG_BY_FAMILY, REQUEST_ONE);
    bytes[HEADER] = known.family;
    bytes[HEADER + 1] = libc::IPPROTO_TCP as u8;
    bytes[HEADER + ONE_ID..].copy_from_slice(&known.id);
    bytes
}

/// The listeners of one datagram, and whether more follow.
pub fn parse(answer: &[u8], each: &mut impl FnMut(Listener)) -> io::Result<Turn> {
    bodies(answer, &mut |body| {
        if let Some(message) = body.first_chunk::<MESSAGE>() {
            each(listener(message));
        }
    })
}

/// What one datagram says of each socket, and whether more follow. An empty or cut datagram ends the
/// answer.
fn bodies(mut answer: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<Turn> {
    while let Some(header) = answer.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(body) = answer.get(HEADER..length) else {
            return Ok(Turn::Done);
        };
        match u16::from_ne_bytes([header[4], header[5]]) {
            NLMSG_DONE => return Ok(Turn::Done),
            NLMSG_ERROR => {
                let code = body
                    .first_chunk::<4>()
                    .map_or(0, |code| i32::from_ne_bytes(*code));
                return match code {
                    0 => Ok(Turn::Done),
                    code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                };
            }
            TCPDIAG_GETSOCK | SOCK_DIAG_BY_FAMILY => each(body),
            _ => {}
        }
        // Messages are aligned to four bytes.
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
        if answer.is_empty() {
            return Ok(Turn::More);
        }
    }
    Ok(Turn::Done)
}

/// `struct inet_diag_msg`: family at 0, ports at 4, source address at 8, queues at 56 and 60,
/// number at 68.
fn listener(message: &[u8; MESSAGE]) -> Listener {
    let four = |at: usize| -> [u8; 4] {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&message[at..at + 4]);
        bytes
    };
    let mut id = [0; ID];
    id.copy_from_slice(&message[ANSWER_ID..ANSWER_ID + ID]);
    let ip = if i32::from(message[0]) == libc::AF_INET6 {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&message[8..24]);
        IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
    } else {
        IpAddr::V4(Ipv4Addr::from(four(8)))
    };
    Listener {
        ip,
        port: u16::from_be_bytes([message[4], message[5]]),
        waiting: u32::from_ne_bytes(four(56)),
        limit: u32::from_ne_bytes(four(60)),
        inode: u32::from_ne_bytes(four(68)),
        family: message[0],
        id,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn of(ip: [u8; 4], port: u16, waiting: u32, limit: u32) -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[0] = libc::AF_INET as u8;
        body[4..6].copy_from_slice(&port.to_be_bytes());
        body[8..12].copy_from_slice(&ip);
        body[56..60].copy_from_slice(&waiting.to_ne_bytes());
        body[60..64].copy_from_slice(&limit.to_ne_bytes());
        message(TCPDIAG_GETSOCK, &body)
    }

    fn all(bytes: &[u8]) -> (Vec<Listener>, io::Result<Turn>) {
        let mut found = Vec::new();
        let turn = parse(bytes, &mut |listener| found.push(listener));
        (found, turn)
    }

    #[test]
    fn a_datagram_may_hold_several_listeners() {
        let mut bytes = of([10, 0, 0, 3], 80, 129, 128);
        bytes.extend(of([0, 0, 0, 0], 8009, 0, 100));
        let (found, turn) = all(&bytes);
        let web = found[0];
        assert_eq!((web.ip, web.port), ([10, 0, 0, 3].into(), 80));
        assert_eq!((web.waiting, web.limit), (129, 128));
        assert_eq!(
            (found.len(), found[1].port, turn.unwrap()),
            (2, 8009, Turn::More)
        );
        bytes.extend(message(NLMSG_DONE, &[0; 4]));
        assert_eq!(all(&bytes).1.unwrap(), Turn::Done);
    }

    #[test]
    fn an_error_of_the_kernel_is_one() {
        let (_, turn) = all(&message(NLMSG_ERROR, &(-libc::EPERM).to_ne_bytes()));
        assert_eq!(turn.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    fn found(asker: &mut Asker, port: u16) -> Option<Listener> {
        let mut found = None;
        let mut each = |listener: Listener| {
            if listener.port == port {
                found = Some(listener);
            }
        };
        asker.ask(&mut each).unwrap();
        found
    }

    #[test]
    fn a_listener_of_this_process_is_seen_with_its_waiting_connections() {
        let mut asker = Asker::new().unwrap();
        for ip in ["127.0.0.1", "0.0.0.0", "::", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            // This host may have no IPv6.
            let Ok(server) = TcpListener::bind((ip, 0)) else {
                continue;
            };
            let address = server.local_addr().unwrap();
            let _waits = std::net::TcpStream::connect(address).unwrap();
            let first = found(&mut asker, address.port()).unwrap();
            assert_eq!((first.ip, first.waiting), (address.ip(), 1));
            assert!(first.limit >= 128);
            let _waits_too = std::net::TcpStream::connect(address).unwrap();
            let again = asker.ask_again(&first).unwrap();
            assert_eq!((again.inode, again.waiting), (first.inode, 2), "{ip}");
            drop(server);
            assert!(asker.ask_again(&first).is_err(), "{ip}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..300), length in 0_u8..120, kind in 0_u8..24) {
            let _ = all(&bytes);
            if bytes.len() >= 6 {
                bytes[..6].copy_from_slice(&[length, 0, 0, 0, kind, 0]);
                let _ = all(&bytes);
            }
        }
    }
}
