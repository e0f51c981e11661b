//! Messages between the recorder and the process that decodes its packets: a head as JSON, bytes,
//! and open sockets.
//!
//! ```text
//! length of the head, length of the bytes (4 each) │ head │ bytes        sockets go beside the lengths
//! ```

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::entrance::Sockets;
use crate::host::sys;

const LENGTHS: usize = 8;
/// The largest size of each part. A segment is a second of visits: some megabytes on the busiest
/// host. The reader allocates as much as announced.
const PART_MAX: usize = 64 << 20;
const SOCKETS: usize = 2;

pub struct Channel(UnixStream);

pub struct Frame<T> {
    pub head: T,
    pub bytes: Vec<u8>,
    pub sockets: Option<Sockets>,
}

impl Channel {
    /// This end, and the other, for another process.
    pub fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (own, other) = UnixStream::pair()?;
        Ok((Channel(own), other.into()))
    }

    pub fn of(end: OwnedFd) -> Channel {
        Channel(end.into())
    }

    /// Whether something arrives within this many milliseconds: a frame, or the end.
    pub fn wait(&self, ms: i32) -> bool {
        sys::wait(None, self.0.as_fd(), ms).1
    }

    pub fn send<T: Serialize>(
        &self,
        head: &T,
        bytes: &[u8],
        sockets: Option<&Sockets>,
    ) -> io::Result<()> {
        let head = serde_json::to_vec(head)?;
        if head.len().max(bytes.len()) > PART_MAX {
            let said = format!("more than {PART_MAX} bytes in a second");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        let mut lengths = [0; LENGTHS];
        lengths[..4].copy_from_slice(&(head.len() as u32).to_ne_bytes());
        lengths[4..].copy_from_slice(&(bytes.len() as u32).to_ne_bytes());
        let fds: Vec<BorrowedFd<'_>> = sockets
            .iter()
            .flat_map(|both| [both.packets.as_fd(), both.events.as_fd()])
            .collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let whole = [IoSlice::new(&lengths)];
        let sent = retry_on_intr(|| {
            rustix::net::sendmsg(&self.0, &whole, &mut beside, SendFlags::NOSIGNAL)
        })?;
        let mut stream = &self.0;
        stream.write_all(lengths.get(sent..).unwrap_or_default())?;
        stream.write_all(&head)?;
        stream.write_all(bytes)
    }

    /// The next frame; None at the end. Invalid bytes are an error.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<Frame<T>>> {
        let mut lengths = [0; LENGTHS];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut whole = [IoSliceMut::new(&mut lengths)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got =
            retry_on_intr(|| rustix::net::recvmsg(&self.0, &mut whole, &mut beside, flags))?.bytes;
        if got == 0 {
            return Ok(None);
        }
        let fds: Vec<OwnedFd> = beside
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
                _ => Vec::new(),
            })
            .collect();
        let mut stream = &self.0;
        stream.read_exact(lengths.get_mut(got..).unwrap_or_default())?;
        let [a, b, c, d, e, f, g, h] = lengths;
        let head = self.part(u32::from_ne_bytes([a, b, c, d]))?;
        let bytes = self.part(u32::from_ne_bytes([e, f, g, h]))?;
        Ok(Some(Frame {
            head: serde_json::from_slice(&head)?,
            bytes,
            sockets: both(fds),
        }))
    }

    fn part(&self, length: u32) -> io::Result<Vec<u8>> {
        let length = length as usize;
        if length > PART_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut part = vec![0; length];
        (&self.0).read_exact(&mut part)?;
        Ok(part)
    }
}

fn both(fds: Vec<OwnedFd>) -> Option<Sockets> {
    let mut fds = fds.into_iter();
    Some(Sockets {
        packets: fds.next()?,
        events: fds.next()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn pair() -> (Channel, Channel) {
        let (own, other) = Channel::pair().unwrap();
        (own, Channel::of(other))
    }

    #[test]
    fn frames_arrive_whole_with_their_sockets_and_then_the_end() {
        let (here, there) = pair();
        let large = vec![7; 1 << 20];
        let sending = std::thread::spawn(move || {
            here.send(&"one", &large, None).unwrap();
            let (one, other) = UnixStream::pair().unwrap();
            (&one).write_all(b"x").unwrap();
            let sockets = Sockets {
                packets: other.into(),
                events: one.into(),
            };
            here.send(&"two", b"", Some(&sockets)).unwrap();
        });
        let first: Frame<String> = there.receive().unwrap().unwrap();
        assert_eq!((first.head.as_str(), first.bytes.len()), ("one", 1 << 20));
        assert!(first.sockets.is_none());
        let second: Frame<String> = there.receive().unwrap().unwrap();
        let mut seen = [0];
        UnixStream::from(second.sockets.unwrap().packets)
            .read_exact(&mut seen)
            .unwrap();
        assert_eq!((second.head.as_str(), seen), ("two", *b"x"));
        sending.join().unwrap();
        assert!(there.wait(0));
        assert!(there.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn what_is_no_frame_is_an_error_and_takes_no_memory() {
        for bytes in [
            &b"abc"[..],
            &[0xff; 8],
            b"\x03\0\0\0\0\0\0\0{}}",
            b"\x01\0\0\0\0\0\0\0",
        ] {
            let (here, there) = pair();
            (&here.0).write_all(bytes).unwrap();
            drop(here);
            assert!(there.receive::<String>().is_err(), "{bytes:?}");
        }
    }
}
