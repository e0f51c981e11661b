//! One TCP connection, by system calls.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr};

/// A non-blocking socket.
pub fn open(to: SocketAddr, from: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(from) = from {
        bind_without_port(&fd)?;
        net::bind(&fd, &SocketAddr::new(from, 0))?;
    }
    Ok(fd)
}

/// Sends the first SYN.
pub fn connect(fd: &OwnedFd, to: SocketAddr) -> Result<(), Errno> {
    match net::connect(fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Ends a connection that the other end has closed, and makes the socket ready for another. A RST
/// releases what the server still keeps of it, as when a client exits (connect(2), AF_UNSPEC).
pub fn disconnect(fd: &OwnedFd) -> Result<(), Errno> {
    net::connect_unspec(fd)
}

/// How many bytes were taken; None: not now. After a failed connect, its error.
pub fn send(fd: &OwnedFd, bytes: &[u8]) -> Result<Option<usize>, Errno> {
    match net::send(fd, bytes, SendFlags::NOSIGNAL) {
        Ok(n) => Ok(Some(n)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How many bytes arrived, 0 at the end; None: none yet.
pub fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    match net::recv(fd, buffer, RecvFlags::empty()) {
        Ok((n, _)) => Ok(Some(n)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Segments that this end has repeated so far, including SYNs (`tcpi_total_retrans`).
pub fn repeated(fd: &OwnedFd) -> u32 {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = std::mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes of a structure whose fields are integers, all valid as zero.
    #[allow(unsafe_code)]
    let info = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        );
        info.assume_init()
    };
    info.tcpi_total_retrans
}

/// connect() chooses the port, because it knows the target: a port can then serve several targets
/// at once.
fn bind_without_port(fd: &OwnedFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    // SAFETY: the value lives through the call and its length is given.
    #[allow(unsafe_code)]
    let done = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            std::ptr::from_ref(&on).cast(),
            std::mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}
