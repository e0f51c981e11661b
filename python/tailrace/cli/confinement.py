"""The rights that a command gives up before it reads files that strangers may have made.

It keeps none of root's rights, writes only below the folders of its outputs and its own temporary folder, and opens no
sockets and starts no programs. An attacker who takes it over through a damaged file reaches only that file and those
folders. docs/security.md has the details.
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

from tailrace.errors import UsageError

_READ, _SEARCH, _WRITE = 4, 1, 2
"""The mode bits of owner, group and others."""
_ENTRIES_MAX = 1_000
"""The most files that are checked in a folder: a run folder has ten files, a recording three a second."""

T = TypeVar("T")

_own_process = False


def begin() -> None:
    """This process runs a single command, so it does not need the rights again."""
    global _own_process
    _own_process = True


def confine(inputs: Iterable[str | Path | None], outputs: Iterable[Path | None] = ()) -> None:
    """Give up everything that is not needed to read `inputs` and to write `outputs`: files or folders, which may not
    exist yet. The folder for temporary files stays writable. Raises UsageError if an output is one of the inputs."""
    read, written = [str(path) for path in inputs if path], [output for output in outputs if output]
    for output in written:
        _refuse_input(output, read)
    if not _own_process:
        return
    try:
        from tailrace._core import confine as give_up
    except ImportError:  # the engine has this on Linux
        return
    folders = {output.absolute().parent for output in written}
    with suppress(FileNotFoundError):  # there is none
        folders.add(Path(tempfile.gettempdir()))
    give_up([str(folder) for folder in folders if os.path.isdir(folder)], _needed(read, folders))  # noqa: PTH112 (never raises)


def _needed(inputs: Iterable[str], folders: Iterable[Path]) -> list[str]:
    """Return the capabilities that root must keep to read the inputs and to write into the folders. Without them, root
    can use another user's file only as its mode allows."""
    if os.geteuid() != 0:
        return []
    needed = []
    if not all(_may(path, _READ) for text in inputs for path in _paths_of(text)):
        needed.append("CAP_DAC_READ_SEARCH")
    if not all(_may(folder, _WRITE | _SEARCH) for folder in folders):
        needed.append("CAP_DAC_OVERRIDE")
    return needed


def _refuse_input(output: Path, inputs: Iterable[str]) -> None:
    """A file that is read, under whatever name, is not replaced. A result of an earlier command in a run folder is, if
    the user did not name it as an input."""
    if not os.path.isfile(output):  # noqa: PTH113 (never raises)
        return
    from tailrace.dataset.overwriting import RESULTS

    for named, path in ((Path(text).absolute(), path) for text in inputs for path in _paths_of(text)):
        with suppress(OSError):
            if (path == named or path.name not in RESULTS) and path.samefile(output):
                raise UsageError("this command reads it", where=str(output), advice="choose another name")


def elsewhere(work: Callable[..., T], *words: object) -> T:
    """Run it in a process of its own; returns and raises what it does there. A library that it loads may begin threads,
    and in this process those would keep all rights."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, get_context("fork")) as process:
        return process.submit(work, *words).result()


def foreign(folder: Path) -> bool:
    """Whether root needs its special rights to write in the folder."""
    return os.geteuid() == 0 and not _may(folder.absolute(), _WRITE | _SEARCH)


def _paths_of(text: str) -> Iterator[Path]:
    """The paths that an argument may mean: FILE or NAME=FILE, and the content of a folder."""
    for path in {Path(text), Path(text.partition("=")[2] or text)}:
        yield path.absolute()
        try:
            with os.scandir(path) as entries:
                yield from (path.absolute() / entry.name for entry in islice(entries, _ENTRIES_MAX))
        except OSError:
            continue


def _may(path: Path, wanted: int) -> bool:
    """Whether the path's owner, group and mode let this user do it, and search all parent folders. True if nothing
    exists there: the command reports that."""
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
