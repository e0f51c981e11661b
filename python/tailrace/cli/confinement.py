"""What a command gives up before it reads files that strangers may have made.

It keeps no right of root's, it writes nothing but beneath the folders of its outputs and its own temporary folder, and
it opens no sockets and starts no programs: whoever takes it over through a damaged file has that file and those
folders. docs/security.md says more.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

_READ, _SEARCH, _WRITE = 4, 1, 2
"""Of the bits of a mode, for its owner, its group and all others."""
_ENTRIES_MAX = 1_000
"""Looked at in a folder: a run folder has ten files, a recording three a second."""

T = TypeVar("T")

_own_process = False


def begin() -> None:
    """This process does nothing but one command: what it gives up, nobody misses afterwards."""
    global _own_process
    _own_process = True


def confine(inputs: Iterable[str | Path | None], outputs: Iterable[Path | None] = ()) -> None:
    """Give up all that is not needed to read `inputs` and to write `outputs`: files or folders, which may not be there
    yet. The folder for temporary files stays open to it."""
    if not _own_process:
        return
    try:
        from tailrace._core import confine as give_up
    except ImportError:  # the engine has this on Linux
        return
    folders = {output.absolute().parent for output in outputs if output}
    with suppress(FileNotFoundError):  # there is none
        folders.add(Path(tempfile.gettempdir()))
    read = [str(path) for path in inputs if path]
    give_up([str(folder) for folder in folders if os.path.isdir(folder)], _needed(read, folders))  # noqa: PTH112 (never raises)


def _needed(inputs: Iterable[str], folders: Iterable[Path]) -> list[str]:
    """Rights without which root cannot read or write files of others: it is a user like any other then."""
    if os.geteuid() != 0:
        return []
    needed = []
    if not all(_may(path, _READ) for text in inputs for path in _paths_of(text)):
        needed.append("CAP_DAC_READ_SEARCH")
    if not all(_may(folder, _WRITE | _SEARCH) for folder in folders):
        needed.append("CAP_DAC_OVERRIDE")
    return needed


def elsewhere(work: Callable[..., T], *words: object) -> T:
    """Do it in a process of its own; returns and raises what it does there. A library that it loads may begin threads,
    and those of this process would keep all of its rights."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, get_context("fork")) as process:
        return process.submit(work, *words).result()


def foreign(folder: Path) -> bool:
    """Whether root needs more than to be a user like any other to write in the folder."""
    return os.geteuid() == 0 and not _may(folder.absolute(), _WRITE | _SEARCH)


def _paths_of(text: str) -> Iterator[Path]:
    """What an argument may mean: FILE or NAME=FILE, and what is in it if it is a folder."""
    for path in {Path(text), Path(text.partition("=")[2] or text)}:
        yield path.absolute()
        try:
            with os.scandir(path) as entries:
                yield from (path.absolute() / entry.name for entry in islice(entries, _ENTRIES_MAX))
        except OSError:
            continue


def _may(path: Path, wanted: int) -> bool:
    """Whether the path's owner, group and mode let this user do it, and search all folders above. True where nothing is
    there: that is for the command to report."""
    for each, bits in [(path, wanted), *((above, _SEARCH) for above in path.parents)]:
        try:
            found = each.stat()
        except OSError:
            continue
        if found.st_uid == os.geteuid():
            given = found.st_mode >> 6
        elif found.st_gid == os.getegid():
            given = found.st_mode >> 3
        else:
            given = found.st_mode
        if stat.S_IMODE(given) & bits != bits:
            return False
    return True
