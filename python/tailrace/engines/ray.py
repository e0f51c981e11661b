"""Ray: a cluster that runs (`ray://HOST:PORT`), or workers on this machine (`ray://local?workers=N`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import SplitResult

import ray

from tailrace.engines import address
from tailrace.errors import UsageError

TRIES = 3
"""How often Ray repeats a task whose worker died; its own default."""
AT_ONCE = 1_000
"""Tasks that are submitted and not yet answered: each answer may be some MB in the object store."""

SLOW = "check that Ray starts here; on a busy machine, set RAY_raylet_start_wait_time_s to more seconds"


class Engine:
    def __init__(self, parts: SplitResult) -> None:
        self._address = address(parts)

    def map_tasks(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        at, workers = self._address.at, self._address.workers
        options: dict[str, Any] = (
            {"address": f"ray://{at}"} if at else {"num_cpus": workers, "include_dashboard": False}
        )
        try:
            ray.init(log_to_driver=False, configure_logging=False, **options)
        except ConnectionError as error:
            advice = "check the address; a cluster that asks for a token needs RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
            raise UsageError(f"--engine ray://{at}: {error}", advice=advice) from error
        except Exception as error:  # Ray's own error where its processes do not start has no class of its own
            raise UsageError(f"--engine ray://{at or 'local'}: {error}", advice=SLOW) from error
        try:
            remote = ray.remote(max_retries=TRIES)(function)
            waiting = list(reversed(tasks))
            running: list[Any] = []
            while waiting or running:
                while waiting and len(running) < AT_ONCE:
                    running.append(remote.remote(waiting.pop()))
                done, running = ray.wait(running)
                yield from ray.get(done)
        finally:
            ray.shutdown()
