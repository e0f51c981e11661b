#!/usr/bin/env python3
"""A recorder that is switched `on` or `off` by lines on standard input; each is answered when it is done.

    switched.py FOLDER PLAN     PLAN: the recorder's options as JSON (crates/core/src/host/options.rs)

Off, its sockets are closed and its threads have ended; the interpreter waits for a line. What it recorded stays in
FOLDER, for removing it would be work, too.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from tailrace.testbed.recording import recorded


def main() -> None:
    folder, plan = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True)
    for number, wanted in zip(count(), sys.stdin, strict=False):
        if wanted != "on\n":
            continue
        with recorded(plan, folder / str(number)):
            print("on", flush=True)
            sys.stdin.readline()
        print("off", flush=True)


if __name__ == "__main__":
    main()
