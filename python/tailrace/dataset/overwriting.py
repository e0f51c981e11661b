"""Which folder `--overwrite` may replace: a run folder that holds only files that Tailrace wrote.

A manifest identifies a run folder. Known names identify its files, and the manifest lists those in `raw/`. Any other
file belongs to the user and stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path

from tailrace import locks, whole
from tailrace.dataset import schema, unfinished
from tailrace.dataset.manifest import MANIFEST, Manifest
from tailrace.dataset.manifest import read as read_manifest
from tailrace.errors import InputError, UsageError

TOPOLOGY, TRUTH, RAW = "topology.toml", "truth.toml", "raw"
RESULTS = ("report.html", "diagnosis.json", "diagnosis.txt")
"""Files that Tailrace adds to a run folder that is already complete."""
_NAMES = {MANIFEST, TOPOLOGY, TRUTH, locks.LOCK, *RESULTS, *(table.file for table in schema.TABLES.values())}


def refuse(path: str | PathLike[str], overwrite: bool) -> None:
    """Raise UsageError if no run folder can be written at `path`. Makers call it before any work begins."""
    target = Path(path)
    if target.name in ("", ".."):
        raise UsageError("this cannot be the name of a run folder", where=str(target), advice="name a folder to create")
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise UsageError("it exists already", where=str(target), advice="choose another name, or --overwrite")
    if target.is_symlink() or not target.is_dir():
        kind = whole.kind(target.lstat().st_mode) or "a file"
        raise UsageError(f"it is {kind}, so it is not overwritten", where=str(target), advice="choose another name")
    if not any(target.iterdir()):
        return
    stranger = next(strangers(target), None)
    if stranger is None:
        return
    if stranger == Path(MANIFEST):
        found = "it exists and is not a run folder, so it is not overwritten"
        raise UsageError(found, where=str(target), advice="choose another name")
    found = f"it holds {stranger}, which Tailrace did not write, so it is not overwritten"
    raise UsageError(found, where=str(target), advice=f"move {stranger} elsewhere or choose another name")


def strangers(folder: Path) -> Iterator[Path]:
    """The files in a folder that Tailrace did not write, as relative paths. In a folder that is not a run folder these
    are all files; the manifest, which is missing or another program's, comes first."""
    manifest = _manifest(folder)
    if manifest is None:
        yield Path(MANIFEST)
    known = _known(manifest)
    for path in _files(folder):
        if not known(path.relative_to(folder)) or path.is_symlink() or not path.is_file():
            yield path.relative_to(folder)


def remove(folder: Path) -> bool:
    """Remove a run folder's files and then the folders that are empty; False if files of the user are left."""
    return remove_known(folder, _known(_manifest(folder)))


def remove_known(folder: Path, known: Callable[[Path], bool]) -> bool:
    """Remove the files whose relative path is `known`, and then the folders that are empty."""
    if folder.is_symlink():
        return False
    for path in list(_files(folder)):
        if known(path.relative_to(folder)):
            with suppress(OSError):
                path.unlink()
    for inner, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(inner).rmdir()
    return not os.path.lexists(folder)


def _manifest(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder / MANIFEST)
    except InputError:
        return None


def _known(manifest: Manifest | None) -> Callable[[Path], bool]:
    listed = {Path(name) for name in manifest.checksums} if manifest else set()

    def known(path: Path) -> bool:
        if manifest is None:
            return False
        if path.parts[0] == RAW:
            return path in listed
        of_ours = path.name in _NAMES or unfinished.belongs(path.name) or bool(whole.PARTIAL.fullmatch(path.name))
        return len(path.parts) == 1 and of_ours

    return known


def _files(folder: Path) -> Iterator[Path]:
    """Everything below a folder except folders; links are not followed, and empty folders do not count."""
    for inner, folders, files in os.walk(folder):
        yield from (Path(inner, name) for name in files)
        yield from (Path(inner, name) for name in folders if Path(inner, name).is_symlink())
