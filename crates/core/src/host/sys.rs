//! System calls that the standard library lacks, each behind a safe function. All `unsafe` of the
//! recorder is here, except for the packet ring's memory.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::mem::{size_of, size_of_val, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::thread::CapabilitySet;

use crate::confine::capabilities;

/// Nanoseconds since the Unix epoch: the clock of the kernel's packet stamps.
pub fn epoch_ns() -> i64 {
    clock(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// Nanoseconds of a clock that cannot be set.
pub fn steady_ns() -> i64 {
    clock(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// CPU time of all threads of a process; None if there is no such process. It is far finer than the
/// 10 ms of `/proc/PID/stat`. The clock's number is built as in `clock_getcpuclockid(3)`.
pub fn process_cpu_ns(pid: i32) -> Option<i64> {
    const CPUCLOCK_SCHED: i32 = 2;
    clock((!pid) << 3 | CPUCLOCK_SCHED).ok()
}

/// What the steady clock showed when a process began, of which the kernel counts ticks since boot. The
/// steady clock stood still while the host slept.
pub fn steady_of_ticks(ticks: u64) -> i64 {
    let asleep = clock(libc::CLOCK_BOOTTIME).unwrap_or(0) - steady_ns();
    ticks_ns(ticks).saturating_sub(asleep)
}

/// The length of so many ticks, in which the kernel tells times of processes.
pub fn ticks_ns(ticks: u64) -> i64 {
    // SAFETY: a constant of the system.
    let in_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1);
    let ns = u64::try_from(1_000_000_000 / in_second).unwrap_or(1);
    i64::try_from(ticks.saturating_mul(ns)).unwrap_or(i64::MAX)
}

/// CPU time of this process.
pub fn own_cpu_ns() -> i64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0)
}

fn clock(id: libc::clockid_t) -> io::Result<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills the timespec it is given; an unknown clock is an error.
    checked(unsafe { libc::clock_gettime(id, &mut time) })?;
    Ok(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// Sleeps until the steady clock shows `until`; signals do not shorten it.
pub fn sleep_until(until: i64) {
    let time = libc::timespec {
        tv_sec: until / 1_000_000_000,
        tv_nsec: until % 1_000_000_000,
    };
    loop {
        // SAFETY: reads the timespec; the remaining time is not asked for with an absolute one.
        let result = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &time,
                std::ptr::null_mut(),
            )
        };
        if result != libc::EINTR {
            return;
        }
    }
}

/// Lets this thread run as soon as it wakes, before all ordinary ones: for work of a fraction of a
/// millisecond. False if that is not permitted.
pub fn be_prompt() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: plain numbers about the calling thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) == 0
    }
}

/// `struct sched_attr` of linux/sched/types.h, its first version.
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Longer than that of other threads (0.7 to 3 ms).
const LONG_SLICE_NS: u64 = 10_000_000;

/// Gives this thread low priority: a tenth of the weight of others, and a longer slice. From Linux
/// 6.12 on, a thread that wakes up preempts one with a longer slice than its own; before, the slice
/// changes nothing. It needs no rights.
pub fn stand_back() {
    let wanted = Scheduling {
        size: size_of::<Scheduling>() as u32,
        policy: libc::SCHED_OTHER as u32,
        nice: 10,
        runtime: LONG_SLICE_NS,
        ..Scheduling::default()
    };
    // SAFETY: the kernel reads a live structure of the given size; 0 is the calling thread. If it
    // is refused, nothing changes.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &wanted, 0) };
}

/// Size of a memory page, the kernel's unit for dirty pages.
pub fn page_bytes() -> u64 {
    // SAFETY: a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// CPUs that are online.
pub fn cpus() -> u64 {
    // SAFETY: a number of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// CPUs that the threads of a process may use; None if there is no such process.
pub fn allowed_cpus(pid: i32) -> Option<BTreeSet<u32>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let names = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
    let allowed: BTreeSet<u32> = names.filter_map(cpus_of_thread).flatten().collect();
    (!allowed.is_empty()).then_some(allowed)
}

fn cpus_of_thread(thread: i32) -> Option<BTreeSet<u32>> {
    // SAFETY: a plain C structure whose zero is valid, which the kernel fills up to its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        checked(libc::sched_getaffinity(thread, size_of_val(&set), &mut set)).ok()?;
        set
    };
    // SAFETY: the numbers are within the set.
    let allowed =
        (0..libc::CPU_SETSIZE as u32).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu as usize, &set) });
    Some(allowed.collect())
}

/// Runs `work` in a network namespace, on a thread of its own that ends with it. Files of
/// `/proc/thread-self/net` and sockets opened there stay in that namespace.
pub fn in_namespace<T: Send>(
    namespace: &File,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            capabilities::raised(CapabilitySet::SYS_ADMIN, || {
                // SAFETY: changes the namespace of this thread alone, which then ends.
                checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
            })?;
            work()
        });
        inside
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace died")))
    })
}

/// Addresses of the interfaces of this thread's network namespace, without link-local ones.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the list is the library's; it is walked while it lives, and freed.
    checked(unsafe { libc::getifaddrs(&mut first) })?;
    let mut found = Vec::new();
    let mut next = first;
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if let Some(address) = unsafe { entry.ifa_addr.as_ref() } {
            found.extend(match i32::from(address.sa_family) {
                libc::AF_INET => {
                    let v4 = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in>() };
                    Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
                }
                libc::AF_INET6 => {
                    let v6 = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in6>() };
                    Some(Ipv6Addr::from(v6.sin6_addr.s6_addr))
                        .filter(|ip| !ip.is_unicast_link_local())
                        .map(IpAddr::V6)
                }
                _ => None,
            });
        }
    }
    unsafe { libc::freeifaddrs(first) };
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

pub fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor, owned from here on.
    unsafe {
        let fd = checked(libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sets an option whose value is the plain C structure `value`.
pub fn set_option<T: Copy>(fd: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let at = std::ptr::from_ref(value).cast();
    // SAFETY: the kernel reads `length` bytes of a live value.
    checked(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, at, length) }).map(drop)
}

/// Reads an option whose value is the plain C structure `T`, all of whose bit patterns are valid.
pub fn get_option<T: Copy>(fd: &OwnedFd, level: i32, option: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes; what it leaves is zero.
    unsafe {
        let at = value.as_mut_ptr().cast();
        checked(libc::getsockopt(
            fd.as_raw_fd(),
            level,
            option,
            at,
            &mut length,
        ))?;
        Ok(value.assume_init())
    }
}

/// The number of an interface in the network namespace of a socket; None: it does not exist.
pub fn interface_number(socket: &OwnedFd, name: &str) -> Option<u32> {
    // SAFETY: a plain C structure whose zero is valid.
    let mut asked: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = asked.ifr_name.len() - 1;
    if name.is_empty() || name.len() > room || name.contains('\0') {
        return None;
    }
    for (to, from) in asked.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the kernel reads the name, which a zero ends, and fills in the number.
    unsafe {
        checked(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFINDEX as _,
            &mut asked,
        ))
        .ok()?;
        u32::try_from(asked.ifr_ifru.ifru_ifindex).ok()
    }
}

/// Subscribes a netlink socket to these groups.
pub fn bind_netlink(fd: &OwnedFd, groups: u32) -> io::Result<()> {
    // SAFETY: a plain C structure whose zero is valid.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = groups;
    let length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    let at = std::ptr::from_ref(&address).cast();
    // SAFETY: the kernel reads a live structure of that length.
    checked(unsafe { libc::bind(fd.as_raw_fd(), at, length) }).map(drop)
}

/// Installs a classic BPF program as the socket's filter.
pub fn attach_filter(fd: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_mut_ptr(),
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Binds a packet socket to an interface (0: all) and begins to receive.
pub fn bind_packets(fd: &OwnedFd, interface: i32) -> io::Result<()> {
    // SAFETY: a plain C structure whose zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let at = std::ptr::from_ref(&address).cast();
    // SAFETY: the kernel reads a live structure of that length.
    checked(unsafe { libc::bind(fd.as_raw_fd(), at, length) }).map(drop)
}

/// Lets an interface pass on packets for other hosts, as long as the packet socket is open.
pub fn see_all_packets(fd: &OwnedFd, interface: i32) -> io::Result<()> {
    let wanted = libc::packet_mreq {
        mr_ifindex: interface,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wanted)
}

/// Waits at most `ms` until one of the two is readable: returns whether the first reports an error,
/// and whether the second is readable.
pub fn wait(first: Option<&OwnedFd>, second: impl AsFd, ms: i32) -> (bool, bool) {
    let asked = |fd: i32| libc::pollfd {
        fd, // a negative one is ignored
        events: libc::POLLIN,
        revents: 0,
    };
    let mut both = [
        first.map_or(-1, AsRawFd::as_raw_fd),
        second.as_fd().as_raw_fd(),
    ]
    .map(asked);
    let until = steady_ns() + i64::from(ms) * 1_000_000;
    let ready = loop {
        let left = ((until - steady_ns()) / 1_000_000).clamp(0, i64::from(ms)) as i32;
        // SAFETY: two live structures.
        let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, left) };
        if ready >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break ready;
        }
    };
    let is = |fd: &libc::pollfd, what| ready > 0 && fd.revents & what != 0;
    (
        is(&both[0], libc::POLLERR),
        is(&both[1], libc::POLLIN | libc::POLLERR),
    )
}

/// Sends bytes to the kernel on a netlink socket.
pub fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads a live slice.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    usize::try_from(sent)
        .map(drop)
        .map_err(|_| io::Error::last_os_error())
}

/// Receives one datagram that has already arrived, or nothing; returns its bytes.
pub fn receive<'a>(fd: &OwnedFd, into: &'a mut [u8]) -> io::Result<&'a [u8]> {
    // SAFETY: the kernel writes at most into a live slice.
    let got = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            into.as_mut_ptr().cast(),
            into.len(),
            libc::MSG_DONTWAIT,
        )
    };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    Ok(into.get(..got).unwrap_or_default())
}

/// A file that has no name, and lies in memory.
pub fn memory_file() -> io::Result<File> {
    // SAFETY: reads a C string, and gives a new descriptor, owned from here on.
    unsafe {
        let fd = checked(libc::memfd_create(c"tailrace".as_ptr(), libc::MFD_CLOEXEC))?;
        Ok(File::from_raw_fd(fd))
    }
}

/// The process that started this one handles Ctrl-C, `kill` and the end of a terminal.
pub fn ignore_endings() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: no handler is called.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

pub fn checked(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_on() {
        let (epoch, steady) = (epoch_ns(), steady_ns());
        sleep_until(steady + 2_000_000);
        assert!(epoch_ns() > epoch);
        assert!(steady_ns() >= steady + 2_000_000);
    }

    #[test]
    fn cpu_time_of_a_process_is_that_of_its_clock() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let before = own_cpu_ns();
        let seen = process_cpu_ns(pid).unwrap();
        assert!(before <= seen && seen <= own_cpu_ns());
        assert_eq!(process_cpu_ns(i32::MAX >> 3), None);
    }

    #[test]
    fn a_thread_of_low_priority_weighs_little_and_is_preempted() {
        let own = |until: fn()| {
            let asked = std::thread::spawn(move || {
                until();
                let mut seen = Scheduling::default();
                let size = size_of::<Scheduling>();
                // SAFETY: the kernel fills the structure up to the size that it is told; 0 is the calling thread.
                let result =
                    unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut seen, size, 0) };
                assert_eq!(result, 0);
                seen
            });
            asked.join().unwrap()
        };
        let (usual, back) = (own(|| ()), own(stand_back));
        assert_eq!(back.nice, 10);
        // Kernels before 6.12 have no slices of threads, and report none.
        assert!(usual.runtime == 0 || back.runtime > usual.runtime);
    }

    #[test]
    fn a_process_may_use_some_cpu() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(allowed_cpus(pid).is_some_and(|cpus| !cpus.is_empty()));
        assert_eq!(allowed_cpus(i32::MAX >> 3), None);
    }

    #[test]
    fn loopback_is_among_the_addresses() {
        let found = addresses().unwrap();
        assert!(found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
