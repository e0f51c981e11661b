//! Accept queues of listening sockets, asked of the kernel by inet_diag: a fraction of the cost of `/proc/net/tcp`,
//! which walks every connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use super::sys;

/// `struct nlmsghdr` and `struct inet_diag_req_v2` of linux/netlink.h and linux/inet_diag.h.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const TCP_LISTEN: u32 = 10;
/// One answer of the kernel: it fills 32 KiB at most.
const ANSWER: usize = 1 << 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub ip: IpAddr,
    pub port: u16,
    /// Connections that wait to be accepted, and how many may.
    pub waiting: u32,
    pub limit: u32,
    /// The socket's number, by which processes that hold it are known.
    pub inode: u32,
}

/// Asks in the network namespace it was made in.
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

    /// Hands every listening TCP socket to `each`.
    pub fn ask(&mut self, each: &mut impl FnMut(Listener)) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            sys::send(&self.socket, &request(family as u8))?;
            loop {
                let answer = sys::receive(&self.socket, &mut self.buffer)?;
                if parse(answer, each)? == Turn::Done {
                    break;
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    More,
    Done,
}

pub fn request(family: u8) -> [u8; HEADER + REQUEST] {
    let mut bytes = [0; HEADER + REQUEST];
    let length = (HEADER + REQUEST) as u32;
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes[HEADER] = family;
    bytes[HEADER + 1] = libc::IPPROTO_TCP as u8;
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&(1_u32 << TCP_LISTEN).to_ne_bytes());
    bytes
}

/// The listeners of one datagram, and whether more are to come. An empty or cut datagram ends the answer.
pub fn parse(mut answer: &[u8], each: &mut impl FnMut(Listener)) -> io::Result<Turn> {
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
            SOCK_DIAG_BY_FAMILY => {
                if let Some(message) = body.first_chunk::<MESSAGE>() {
                    each(listener(message));
                }
            }
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
        message(SOCK_DIAG_BY_FAMILY, &body)
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
        let web = Listener {
            ip: [10, 0, 0, 3].into(),
            port: 80,
            waiting: 129,
            limit: 128,
            inode: 0,
        };
        assert_eq!(found[0], web);
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

    #[test]
    fn a_listener_of_this_process_is_seen_with_who_waits() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let _waits = std::net::TcpStream::connect(address).unwrap();
        let mut found = None;
        let mut asker = Asker::new().unwrap();
        asker
            .ask(&mut |listener| {
                if listener.port == address.port() {
                    found = Some(listener);
                }
            })
            .unwrap();
        let found = found.unwrap();
        assert_eq!((found.ip, found.waiting), (address.ip(), 1));
        assert!(found.limit >= 128);
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
