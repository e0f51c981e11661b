//! What the kernel says: texts of /proc, /sys and control groups, and answers of netlink.

use std::hint::black_box;

use tailrace_core::host::formats::{
    cgroup, cpus, disks, netstat, only, pressure, process, schedstat, stat, value, vmstat,
};
use tailrace_core::host::listeners;

/// Every parser takes every text: a kernel of another version, or one that is read while it changes.
pub fn proc(text: &[u8]) {
    black_box((
        cpus::list(text),
        pressure::parse(text).is_some(),
        process::parse(text).is_some(),
        stat::parse(text).is_some(),
    ));
    black_box((
        schedstat::waited_ns(text),
        vmstat::parse(text).is_some(),
        only(text),
        value(text, b"cpu"),
    ));
    black_box((
        cgroup::throttled(text).is_some(),
        cgroup::period_ns(text),
        cgroup::used_ns(text),
        cgroup::io_bytes(text),
    ));
    black_box(disks::parse(text).count());
    let mut columns = netstat::Columns::default();
    black_box(columns.parse(text).is_some());
    // The columns of one text are looked for in the next one.
    black_box(columns.parse(&text[text.len() / 2..]).is_some());
    black_box(columns.parse(text).is_some());
}

pub fn netlink(answer: &[u8]) {
    let mut listeners = 0;
    let turn = listeners::parse(answer, &mut |listener| {
        black_box(listener);
        listeners += 1;
    });
    assert!(
        listeners <= answer.len() / 72,
        "more listeners than the answer has room for"
    );
    black_box(turn.is_ok());
}
