"""A node's own disk: a file system in a file, on a loop device that is slowed down to the experiment's bandwidth.

The root group of blkio (version 1) is slowed down, for this device alone. Kernel threads write dirty pages and the file
system's journal, and they are in that group. Servers stay in it, too (`cgroup` leaves blkio out), so that their
requests to the disk queue behind those writes. Version 2 cannot do this: its root group has no `io.max`, and queues of
different groups overtake each other.
"""

from __future__ import annotations

import os
from pathlib import Path

from tailrace.testbed.cgroup import mounted
from tailrace.testbed.commands import run
from tailrace.testbed.ledger import Ledger, refuse_taken
from tailrace.testbed.program import command, where

BYTES = 4 << 30
"""Room for a copy of the bulletin board's data. The file is sparse: it uses only what is written."""
PROGRAMS = ("losetup", "mount", "umount", "mkfs.ext4", "dd", "sync")
_MAKE = ("-q", "-F", "-N", "8192", "-J", "size=16", "-E", "lazy_itable_init=0,lazy_journal_init=0")
"""Few inodes and a short journal, both written at once, so that nothing remains to be written in the background."""


def problem() -> str | None:
    """Why this machine cannot slow a disk down, or cannot report which processes wait for it."""
    lacking = [name for name in PROGRAMS if command(name) is None]
    if lacking:
        return f"it lacks {', '.join(lacking)} (Debian's mount, e2fsprogs and coreutils)"
    if not Path("/dev/loop-control").exists():
        return "its kernel has no loop devices"
    root = mounted().v1.get("blkio")
    if root is None or not (root / "blkio.throttle.write_bps_device").exists():
        return (
            "version 1 of cgroup blkio with throttling is needed: version 2 cannot slow down the kernel's own threads"
        )
    return None


def up(ledger: Ledger, folder: Path) -> None:
    """Make the folder a disk of its own, at full speed at first."""
    image = _image(folder)
    refuse_taken(f"a disk {image}", image.exists(), f"rm {image}")
    ledger.note("disk", str(folder))
    folder.mkdir()
    with image.open("xb") as file:
        file.truncate(BYTES)
    ledger.made("disk", str(folder), known_by(image) or "")
    run(where("mkfs.ext4"), *_MAKE, str(image))
    device = attach(image)
    try:
        run(where("mount"), device, str(folder))
    finally:
        detach(device)


def attach(image: Path) -> str:
    """A loop device of this file."""
    return run(where("losetup"), "--find", "--show", "--direct-io=on", str(image)).strip()


def detach(device: str) -> None:
    """Let the loop device go when nothing uses it any longer."""
    run(where("losetup"), "--detach", device)


def slow_down(folder: Path, bytes_per_second: int) -> None:
    """0: full speed."""
    throttle("write_bps", folder.stat().st_dev, bytes_per_second)


def throttle(what: str, device: int, rate: int) -> None:
    """Limit a rate of a device, in units per second: write_bps, read_iops. 0: no limit."""
    root = mounted().v1.get("blkio")
    if root is not None:
        file = root / f"blkio.throttle.{what}_device"
        file.write_text(f"{os.major(device)}:{os.minor(device)} {rate}")


def clean(folder: Path) -> None:
    """Write dirty pages now; otherwise the kernel does when they are 30 s old (`dirty_expire_centisecs`)."""
    run(where("sync"), "--file-system", str(folder))


def remove(path: str, known: str | None) -> bool:
    """Remove the disk, even if it is in use; its folder stays. A later device is not slowed down."""
    folder, image = Path(path), _image(Path(path))
    if known is None or known_by(image) != known:
        return False
    if folder.is_mount() and file_of(folder.stat().st_dev) == str(image):
        slow_down(folder, 0)
        run(where("umount"), "--lazy", path)
    image.unlink()
    return True


def _image(folder: Path) -> Path:
    return folder.with_suffix(".disk")


def known_by(image: Path) -> str | None:
    """Identifies a file among later ones of its name; None if it does not exist."""
    try:
        found = image.lstat()
    except FileNotFoundError:
        return None
    return f"{found.st_dev}:{found.st_ino}"


def file_of(device: int) -> str | None:
    """The file of a loop device."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        return Path(f"/sys/dev/block/{number}/loop/backing_file").read_text().strip()
    except FileNotFoundError:
        return None
