"""One worker process: `python -m tailrace.load.worker LOG` reports that it is ready, reads its plan, and reports its
progress.

It writes lines of JSON to standard output: `{}` when ready, progress ten times a second, `{"report": …}` at the end. On
SIGINT, SIGTERM or SIGHUP, and when its parent has ended, it stops early; its log is then complete up to that moment.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress

from tailrace import endings


def main() -> int:
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    endings.handle(stop)
    from tailrace._core import load_worker

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def tell(progress: str) -> bool:
        return _say(progress) and not stopped

    _say("{}")
    plan = sys.stdin.readline()
    try:
        _say(f'{{"report": {load_worker(plan, sys.argv[1], tell)}}}')
    except (OSError, ValueError) as error:
        _say(json.dumps({"error": str(error), "errno": getattr(error, "errno", None)}))
        return 1
    return 0


def _say(line: str) -> bool:
    """False: the parent no longer reads."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
