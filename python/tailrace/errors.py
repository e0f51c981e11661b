"""Errors of Tailrace: each says what was found, where, and what to do.

An error keeps its values; `str()` builds the sentence. Only the command line prints or exits.
"""

from __future__ import annotations

import errno
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any


class TailraceError(Exception):
    """`where: found; advice`, and the commands that fix it, one on each line."""

    def __init__(self, found: str, *, where: str = "", advice: str = "", commands: tuple[str, ...] = ()) -> None:
        super().__init__(found)
        self.found = found
        self.where = where
        self.advice = advice
        self.commands = commands

    def __str__(self) -> str:
        sentence = f"{self.where}: {self.found}" if self.where else self.found
        return f"{sentence}; {self.advice}" if self.advice else sentence

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickling an error of a worker keeps its class and values."""
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[TailraceError], args: tuple[Any, ...]) -> TailraceError:
    return kind.__new__(kind, *args)


class UsageError(TailraceError):
    """The options or arguments contradict each other."""


class InputError(TailraceError):
    """A file is missing, unreadable, or not what it should be. `line` counts from 1, `row` and `byte` from 0."""

    def __init__(
        self,
        path: str | PathLike[str],
        found: str,
        advice: str = "",
        *,
        key: str | None = None,
        column: str | None = None,
        row: int | None = None,
        line: int | None = None,
        byte: int | None = None,
        commands: tuple[str, ...] = (),
    ) -> None:
        self.path = fspath(path)
        self.key, self.column, self.row, self.line, self.byte = key, column, row, line, byte
        spots = [("", key), ("column ", column), ("row ", row), ("line ", line), ("byte ", byte)]
        spot = ", ".join(f"{name}{value}" for name, value in spots if value is not None)
        where = f"{self.path}: {spot}" if spot else self.path
        super().__init__(found, where=where, advice=advice, commands=commands)


class OutputError(TailraceError):
    """A result could not be written; no half-written file remains."""

    def __init__(self, path: str | PathLike[str], found: str, advice: str = "") -> None:
        self.path = fspath(path)
        super().__init__(found, where=self.path, advice=advice)


_READING: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("there is no such file or folder", "check the path"),
    errno.EACCES: ("permission to read it is missing", "change its permissions or run as a user who may read it"),
    errno.EPERM: ("permission to read it is missing", "change its permissions or run as a user who may read it"),
    errno.EISDIR: ("it is a folder where a file is needed", "name a file in it"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "check the path"),
    errno.ELOOP: ("it is a symbolic link where a file is needed", "name the file that it leads to"),
    errno.ENAMETOOLONG: ("the name is too long", "check the path"),
}
_WRITING: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", "free some space or write to another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space or write to another disk"),
    errno.EACCES: ("permission to write there is missing", "choose another folder or change its permissions"),
    errno.EPERM: ("permission to write there is missing", "choose another folder or change its permissions"),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.ENOENT: ("the folder to write into does not exist", "create it first"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "check the path"),
    errno.EISDIR: ("it is a folder where a file is needed", "name a file in it"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
}


def cannot_read(path: str | PathLike[str], error: OSError) -> InputError:
    """The sentence for an error of the operating system while reading."""
    found, advice = _READING.get(error.errno or 0, (error.strerror or str(error), ""))
    return InputError(path, found, advice)


def cannot_write(path: str | PathLike[str], error: Exception) -> OutputError:
    """The sentence for an error while writing. Engines that wrap the system's error keep its number in the text."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        number = next((code for code in _WRITING if f"os error {code})" in str(error)), 0)
    if number == 0 and "No space left" in str(error):
        number = errno.ENOSPC
    found, advice = _WRITING.get(number, (str(error), ""))
    return OutputError(PurePath(path), found, advice)
