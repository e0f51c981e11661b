//! Seccomp forbids system calls that a process which only reads, computes and writes does not need,
//! and that an attacker would use. They fail with EPERM, in all of its threads.
#![allow(unsafe_code)]

use std::io;

use libc::sock_filter;

/// Of linux/audit.h, where we know it: numbers of system calls are those of the architecture.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

// struct seccomp_data of linux/seccomp.h
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
/// Numbers of x86_64's second table of system calls (x32) begin here; elsewhere there are none so high.
const SECOND_TABLE: u32 = 0x4000_0000;

// linux/bpf_common.h
const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Other machines and other processes; programs; what the kernel is and how it is set up; whose a file is.
const DENIED: &[libc::c_long] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    FCHMODAT2,
];
/// `fchmodat2` of asm-generic/unistd.h, of Linux 6.6: the same number everywhere.
const FCHMODAT2: libc::c_long = 452;

pub fn restrict() -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else {
        return Ok(());
    };
    let mut steps = program(architecture, DENIED, std::process::id());
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: steps.as_mut_ptr(),
    };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the kernel reads a live program of the given length.
    let set = unsafe {
        let (mode, all_threads) = (
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
        );
        libc::syscall(libc::SYS_seccomp, mode, all_threads, &program)
    };
    match set {
        0 => Ok(()),
        ..=-1 => refused(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!(
            "thread {thread} has a filter of its own"
        ))),
    }
}

/// A kernel without seccomp changes nothing.
fn refused(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EINVAL) => Ok(()),
        _ => Err(error),
    }
}

/// ```text
/// of this architecture? one of its first table? denied? → EPERM
/// tgkill → of this process, as raise(3) and abort(3) are?
/// ```
fn program(architecture: u32, denied: &[libc::c_long], process: u32) -> Vec<sock_filter> {
    let mut steps = vec![
        step(LOAD, ARCH),
        step(EQUAL, architecture),
        step(LOAD, NUMBER),
        step(AT_LEAST, SECOND_TABLE),
    ];
    steps.extend(denied.iter().map(|&number| step(EQUAL, number as u32)));
    steps.extend([
        step(EQUAL, libc::SYS_tgkill as u32),
        step(LOAD, FIRST_ARGUMENT),
        step(EQUAL, process),
        step(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ]);
    let deny = steps.len() - 2;
    let allow = steps.len() - 1;
    let tgkill = steps.len() - 5;
    for (at, step) in steps.iter_mut().enumerate() {
        let to = |target: usize| (target - at - 1) as u8;
        match step.code {
            EQUAL if at == 1 => step.jf = to(deny),
            AT_LEAST => step.jt = to(deny),
            EQUAL if at == tgkill => step.jf = to(allow),
            EQUAL if at == tgkill + 2 => (step.jt, step.jf) = (to(allow), to(deny)),
            EQUAL => step.jt = to(deny),
            _ => {}
        }
    }
    steps
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u32 = 7;

    /// The kernel's answer to a call.
    fn answer(architecture: u32, number: u32, argument: u32) -> u32 {
        let program = program(HERE, DENIED, 4711);
        let (mut a, mut at) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            match (step.code, step.k) {
                (LOAD, ARCH) => a = architecture,
                (LOAD, NUMBER) => a = number,
                (LOAD, FIRST_ARGUMENT) => a = argument,
                (EQUAL, k) => at += jump(a == k),
                (AT_LEAST, k) => at += jump(a >= k),
                (_, k) => return k,
            }
        }
    }

    #[test]
    fn what_is_denied_is_denied_and_the_rest_is_allowed() {
        let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        for &number in DENIED {
            assert_eq!(answer(HERE, number as u32, 0), denied, "{number}");
        }
        for number in [
            libc::SYS_read,
            libc::SYS_openat,
            libc::SYS_mmap,
            libc::SYS_clone,
        ] {
            assert_eq!(
                answer(HERE, number as u32, 0),
                libc::SECCOMP_RET_ALLOW,
                "{number}"
            );
        }
        let tgkill = libc::SYS_tgkill as u32;
        assert_eq!(answer(HERE, tgkill, 4711), libc::SECCOMP_RET_ALLOW);
        assert_eq!(answer(HERE, tgkill, 1), denied);
        assert_eq!(answer(HERE + 1, libc::SYS_read as u32, 0), denied);
        assert_eq!(
            answer(HERE, SECOND_TABLE | libc::SYS_read as u32, 0),
            denied
        );
    }
}
