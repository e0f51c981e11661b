#!/usr/bin/env python3
"""A recorder that is there or not, as it is told: `on` or `off`, a line each on standard input, answered when it is so.

    switched.py FOLDER PLAN     PLAN: the recorder's options as JSON (crates/core/src/host/options.rs)

Off, its sockets are closed and its threads have ended; the interpreter waits for a line. What it recorded stays in
FOLDER, for removing it would be work, too.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tailrace._core import record


@contextmanager
def recording(plan: str, folder: Path) -> Iterator[None]:
    begun, over = threading.Event(), threading.Event()

    def go_on(kind: str, sentence: str) -> bool:
        if kind == "recording":
            begun.set()
        return not over.is_set()

    folder.mkdir(parents=True)
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(record, plan, str(folder), go_on)
        done.add_done_callback(lambda _: begun.set())
        begun.wait()
        try:
            yield
        finally:
            over.set()
    done.result()


def main() -> None:
    folder, plan = Path(sys.argv[1]), sys.argv[2]
    for number, wanted in zip(count(), sys.stdin, strict=False):
        if wanted != "on\n":
            continue
        with recording(plan, folder / str(number)):
            print("on", flush=True)
            sys.stdin.readline()
        print("off", flush=True)


if __name__ == "__main__":
    main()
