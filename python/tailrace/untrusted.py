"""Reading small files that somebody else made: special files, and files that are too long or too deep, are refused.

A file that the user names may be a link or a pipe. A file inside a folder that somebody else made may not: a link leads
elsewhere, a pipe has no end, and a device has no size.
"""

from __future__ import annotations

import json
import os
import re
import select
import stat
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from tailrace import whole
from tailrace.bounds import PIPE_SECONDS, TEXT_BYTES
from tailrace.errors import InputError, cannot_read

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that JSON may have for one half of a character."""
_HANDED_IN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def regular(path: Path) -> bool:
    """Whether a file exists in a folder that somebody else made. Raises InputError if it is not a regular file."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise cannot_read(path, error) from error
    found = whole.kind(mode)
    if found:
        raise InputError(path, f"it is {found}, not a file", "Tailrace opens nothing else in a folder that it reads")
    return True


def read_text(path: str | PathLike[str], most: int = TEXT_BYTES) -> str:
    """The content of a file that the user names, of at most so many bytes; with or without a byte order mark."""
    return _text(Path(path), most, os.O_RDONLY | os.O_CLOEXEC)


def read_bytes(path: str | PathLike[str], most: int) -> bytes:
    """The same for a file that is no text."""
    return _bytes(Path(path), most, os.O_RDONLY | os.O_CLOEXEC)


def read_inside(path: Path, most: int = TEXT_BYTES) -> str:
    """The same as `read_text` for a file in a folder that somebody else made."""
    regular(path)
    return _text(path, most, _HANDED_IN)


def _bytes(path: Path, most: int, flags: int) -> bytes:
    try:
        content = _content(path, most, flags)
    except OSError as error:
        raise cannot_read(path, error) from error
    if len(content) > most:
        raise InputError(path, f"it has more than {most:,} bytes", "docs/reference/limits.md lists what is read")
    return content


def _text(path: Path, most: int, flags: int) -> str:
    content = _bytes(path, most, flags)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, "not UTF-8 text", "save it as UTF-8", byte=error.start) from error


def _content(path: Path, most: int, flags: int) -> bytes:
    """At most one byte more than `most`. Opening a pipe waits for its writer, possibly for ever."""
    content = bytearray()
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        while len(content) <= most:
            if not ready.poll(PIPE_SECONDS * 1000):
                found = f"nothing has come out of it for {PIPE_SECONDS} s"
                raise InputError(path, found, "name a file, or a pipe with a writer")
            some = os.read(descriptor, most + 1 - len(content))
            if not some:
                break
            content += some
    finally:
        os.close(descriptor)
    return bytes(content)


def refuse_unusual(path: Path) -> None:
    """Raise InputError for an input that is opened more than once, and is neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:  # opening it reports the error
        return
    found = whole.kind(mode)
    if found and not stat.S_ISDIR(mode):
        raise InputError(path, f"it is {found}, not a file", "a capture may come through standard input, as -")


def parse_json(text: str, path: str | PathLike[str], advice: str = "") -> Any:
    """The value of a JSON text; numbers must be finite and of 64 bits. Errors name `path`."""
    try:
        return json.loads(text, parse_int=_whole, parse_float=finite, parse_constant=finite)
    except RecursionError as error:
        raise InputError(path, "lists or objects are nested hundreds deep", advice) from error
    except ValueError as error:
        raise InputError(path, f"not JSON ({error})", advice) from error


def whole_characters(value: Any, text: str, begin: int = 0, end: int | None = None) -> Any:
    """The value of a JSON text, with "?" in place of each half of a character (`"\\ud800"`), which no table can
    hold."""
    return _encodable(value) if _HALF.search(text, begin, len(text) if end is None else end) else value


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return value


def _whole(digits: str) -> int:
    number = int(digits) if len(digits) <= len(str(-(2**63))) else 2**64
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"a number of {len(digits)} digits, which has more than 64 bits")
    return number


def finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"{digits[:20]} is not a finite number")
    return number
