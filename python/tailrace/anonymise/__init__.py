"""A run folder for publication: names become keyed hashes, times are shifted, and texts are left out.

`tokens` replaces names, `vocabulary` lists the record's own words, which stay, and `tables` and `described` apply both
to the tables and to topology and manifest (docs/how-to/show-a-run.md).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tailrace import dataset, untrusted
from tailrace.anonymise import described, tables
from tailrace.anonymise.tokens import Tokens
from tailrace.dataset import Dataset
from tailrace.errors import InputError, UsageError

KEY_MIN, KEY_MAX = 16, 1 << 20
"""The size of a key in a file: fewer than 128 bits can be guessed."""


@dataclass(frozen=True)
class Anonymised:
    """The written run folder. `names` maps names of the original to their tokens."""

    run: Dataset
    names: Mapping[str, str]
    shift_ns: int


def anonymise(
    run: Dataset, out: str | PathLike[str], *, key: bytes | None = None, overwrite: bool = False
) -> Anonymised:
    """Write the run folder `out`, whose diagnosis is that of `run`. Runs that are anonymised with the same `key` have
    the same tokens and the same shift of times; without a key, one is drawn and forgotten."""
    if Path(out).resolve() == run.path.resolve():
        raise UsageError("it is the run folder itself", where=str(out), advice="choose another name")
    tokens = Tokens(secrets.token_bytes(64) if key is None else key)
    described.learn(run, tokens)
    with dataset.create(out, overwrite) as writer:
        for table in dataset.TABLES.values():
            tables.rewrite(run, table, tokens, writer)
        described.rewrite(run, tokens, writer)
    return Anonymised(Dataset.open(out), tokens.names, tokens.shift_ns)


def key_of(path: Path) -> bytes:
    """The key in a file, whatever its bytes are."""
    content = untrusted.read_bytes(path, KEY_MAX)
    if len(content) < KEY_MIN:
        found = f"a key has {KEY_MIN} bytes to {KEY_MAX:,}, and this has {len(content)}"
        raise InputError(path, found, "make one: head -c 32 /dev/urandom > FILE")
    return hashlib.blake2b(content).digest()
