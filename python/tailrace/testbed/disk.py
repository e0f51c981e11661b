"""A node's own disk: a file system in a file, on a loop device that is slowed down to the experiment's bandwidth.

The root group of blkio (version 1) is slowed down, for this device alone. Kernel threads write dirty pages and the file
system's journal, and they are in that group. Servers stay in it, too (`cgroup` leaves blkio out), so that their
requests to the disk queue behind those writes. Version 2 cannot do this: its root group has no `io.max`, and queues of
different groups overtake each other.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.testbed.cgroup import mounted
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
    if _throttle() is None:
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
    ledger.made("disk", str(folder), _known_by(image) or "")
    _run(where("mkfs.ext4"), *_MAKE, str(image))
    device = _run(where("losetup"), "--find", "--show", "--direct-io=on", str(image))
    try:
        _run(where("mount"), device, str(folder))
    finally:
        _run(where("losetup"), "--detach", device)  # when it is no longer mounted


def slow_down(folder: Path, bytes_per_second: int) -> None:
    """0: full speed."""
    file = _throttle()
    if file is not None:
        file.write_text(f"{_device(folder)} {bytes_per_second}")


def clean(folder: Path) -> None:
    """Write dirty pages now; otherwise the kernel does when they are 30 s old (`dirty_expire_centisecs`)."""
    _run(where("sync"), "--file-system", str(folder))


def remove(path: str, known: str | None) -> bool:
    """Remove the disk, even if it is in use; its folder stays. A later device is not slowed down."""
    folder, image = Path(path), _image(Path(path))
    if known is None or _known_by(image) != known:
        return False
    if folder.is_mount() and _file_of(folder) == str(image):
        slow_down(folder, 0)
        _run(where("umount"), "--lazy", path)
    image.unlink()
    return True


def _image(folder: Path) -> Path:
    return folder.with_suffix(".disk")


def _known_by(image: Path) -> str | None:
    try:
        found = image.lstat()
    except FileNotFoundError:
        return None
    return f"{found.st_dev}:{found.st_ino}"


def _file_of(mounted: Path) -> str | None:
    """The file of the loop device that is mounted there."""
    try:
        return Path(f"/sys/dev/block/{_device(mounted)}/loop/backing_file").read_text().strip()
    except FileNotFoundError:
        return None


def _throttle() -> Path | None:
    root = mounted().v1.get("blkio")
    file = root / "blkio.throttle.write_bps_device" if root else None
    return file if file and file.exists() else None


def _device(folder: Path) -> str:
    number = folder.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TailraceError(f"`{' '.join(words)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()
