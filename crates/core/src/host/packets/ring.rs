//! Packets from the kernel without copying or a system call for each: AF_PACKET with a ring of
//! blocks (TPACKET_V3). The kernel fills a block, and the recorder returns it
//! (Documentation/networking/packet_mmap.rst).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::filter;
use crate::host::sys;

/// The recorder gets a block when it is full or this old.
const BLOCK: usize = 1 << 18;
const BLOCK_MS: u32 = 20;
/// The smallest frame that the kernel accepts; only its product with the count matters to version
/// 3.
const FRAME: usize = 1 << 11;

const NO_RING: libc::tpacket_req3 = libc::tpacket_req3 {
    tp_block_size: 0,
    tp_block_nr: 0,
    tp_frame_size: 0,
    tp_frame_nr: 0,
    tp_retire_blk_tov: 0,
    tp_sizeof_priv: 0,
    tp_feature_req_word: 0,
};

// Offsets in linux/if_packet.h: struct tpacket_hdr_v1 within a block, struct tpacket3_hdr of a packet, and the struct
// sockaddr_ll behind it.
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const CAPTURED: usize = 12;
const LENGTH: usize = 16;
const DATA: usize = 24;
const INTERFACE: usize = 52;

/// A packet of the ring, from its IP header on.
#[derive(Clone, Copy, Debug)]
pub struct RingPacket<'a> {
    /// Nanoseconds since the Unix epoch.
    pub time: i64,
    pub bytes: &'a [u8],
    /// Its length before it was cut.
    pub length: u32,
    pub interface: u16,
}

pub struct Ring {
    socket: OwnedFd,
    memory: Memory,
    blocks: usize,
    next: usize,
    /// The interface that it is bound to, 0: all; None: none yet, and no packets come.
    bound: Option<u32>,
}

/// Memory shared with the kernel.
struct Memory {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and has one owner.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

impl Ring {
    /// The ring of a packet socket, with this much memory. No packets come before it is bound.
    pub fn new(socket: OwnedFd, bytes: usize) -> io::Result<Ring> {
        // An earlier process may have had a ring on this socket. If not, this call is refused, and
        // there is nothing to remove.
        let _ = sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &NO_RING);
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let blocks = (bytes / BLOCK).max(4);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (blocks * BLOCK / FRAME) as u32,
            tp_retire_blk_tov: BLOCK_MS,
            ..NO_RING
        };
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let memory = map(&socket, blocks * BLOCK)?;
        Ok(Ring {
            socket,
            memory,
            blocks,
            next: 0,
            bound: None,
        })
    }

    /// From now on, only packets of these interfaces (empty: all) and ports come, cut to a length.
    pub fn pick(&self, interfaces: &[u32], ports: &[u16], snap: u32) -> io::Result<()> {
        sys::attach_filter(&self.socket, &mut filter::program(interfaces, ports, snap))
    }

    /// Binds it to an interface, or (0) to all. Packets are lost for a moment, unless it is already
    /// bound so.
    pub fn bind(&mut self, interface: u32) -> io::Result<()> {
        if self.bound != Some(interface) {
            sys::bind_packets(&self.socket, interface as i32)?;
            // Binding to an interface that is down succeeds as well, and is reported as an error.
            let _ = self.failure();
            self.bound = Some(interface);
        }
        Ok(())
    }

    /// Packets of this interface for other hosts come, too.
    pub fn see_all(&self, interface: u32) -> io::Result<()> {
        sys::see_all_packets(&self.socket, interface as i32)
    }

    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The error of its interface: it went down or away. It must be bound again, because the next
    /// one may have its number.
    pub fn failure(&mut self) -> Option<io::Error> {
        let error = match sys::get_option(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR) {
            Ok(0) => return None,
            Ok(code) => io::Error::from_raw_os_error(code),
            Err(error) => error,
        };
        self.bound = None;
        Some(error)
    }

    /// Passes on the next full block and returns it to the kernel; false if there is none.
    pub fn take(&mut self, each: &mut impl FnMut(RingPacket<'_>)) -> bool {
        // SAFETY: blocks lie within the mapping, page-aligned. The status alternates between the
        // kernel and the recorder, and while it is the recorder's the kernel does not write to the
        // block.
        let (status, block) = unsafe {
            let at = self.memory.at.as_ptr().add(self.next * BLOCK);
            (
                &*at.add(BLOCK_STATUS).cast::<AtomicU32>(),
                std::slice::from_raw_parts(at.cast_const(), BLOCK),
            )
        };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        packets(block, each);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }

    /// Packets without room in the ring, since the last call.
    pub fn dropped(&self) -> io::Result<u64> {
        let counts: libc::tpacket_stats_v3 =
            sys::get_option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(u64::from(counts.tp_drops))
    }
}

fn map(socket: &OwnedFd, length: usize) -> io::Result<Memory> {
    // SAFETY: a new mapping of the socket's ring, owned from here on.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            socket.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Memory { at, length })
}

/// The packets of a block. A length that points outside ends it.
fn packets(block: &[u8], each: &mut impl FnMut(RingPacket<'_>)) {
    let count = word(block, BLOCK_PACKETS).unwrap_or(0);
    let mut at = word(block, BLOCK_FIRST).unwrap_or(0) as usize;
    for _ in 0..count {
        let Some(packet) = block.get(at..).and_then(packet) else {
            return;
        };
        each(packet);
        at += word(block, at + NEXT).unwrap_or(0) as usize;
    }
}

fn packet(header: &[u8]) -> Option<RingPacket<'_>> {
    let data = usize::from(u16::from_ne_bytes(*header.get(DATA..)?.first_chunk()?));
    let captured = word(header, CAPTURED)? as usize;
    Some(RingPacket {
        time: i64::from(word(header, SECONDS)?) * 1_000_000_000
            + i64::from(word(header, NANOSECONDS)?),
        bytes: header.get(data..data.checked_add(captured)?)?,
        length: word(header, LENGTH)?,
        interface: word(header, INTERFACE)? as u16,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(payloads: &[&[u8]]) -> Vec<u8> {
        let mut block = vec![0; 48];
        block[BLOCK_PACKETS..BLOCK_PACKETS + 4]
            .copy_from_slice(&(payloads.len() as u32).to_ne_bytes());
        block[BLOCK_FIRST..BLOCK_FIRST + 4].copy_from_slice(&48_u32.to_ne_bytes());
        for (i, payload) in payloads.iter().enumerate() {
            let mut packet = vec![0; 80];
            let length = payload.len() as u32;
            for (at, value) in [
                (NEXT, 80 + length),
                (SECONDS, 5),
                (NANOSECONDS, i as u32),
                (CAPTURED, length),
                (LENGTH, 1500),
                (INTERFACE, 3),
            ] {
                packet[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            }
            packet[DATA..DATA + 2].copy_from_slice(&80_u16.to_ne_bytes());
            block.extend(packet);
            block.extend(*payload);
        }
        block
    }

    #[test]
    fn packets_of_a_block_follow_each_other() {
        let mut found = Vec::new();
        packets(&block(&[b"first", b"second"]), &mut |p| {
            found.push((p.time, p.bytes.to_vec(), p.length, p.interface))
        });
        let expected = [
            (5_000_000_000, b"first".to_vec(), 1500, 3),
            (5_000_000_001, b"second".to_vec(), 1500, 3),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn a_block_of_any_bytes_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), edits in prop::collection::vec((0_usize..260, any::<u8>()), 0..8)) {
            packets(&bytes, &mut |_| {});
            let mut near = block(&[b"first", b"second"]);
            for (at, byte) in edits {
                if let Some(place) = near.get_mut(at) {
                    *place = byte;
                }
            }
            packets(&near, &mut |packet| assert!(packet.bytes.len() <= 400));
        }
    }
}
