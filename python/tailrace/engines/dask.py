"""Dask: a scheduler that runs (`dask://HOST:PORT`), or workers on this machine (`dask://local?workers=N`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import SplitResult

import distributed

from tailrace.engines import address

_DASK: Any = distributed
"""Its calls are untyped."""


class Engine:
    def __init__(self, parts: SplitResult) -> None:
        self._address = address(parts)

    def map_tasks(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Dask gives a dead worker's tasks to others, up to its setting `allowed-failures`."""
        at, workers = self._address.at, self._address.workers
        if at is not None:
            with _DASK.Client(f"tcp://{at}") as client:
                yield from _done(client, function, tasks)
            return
        with (
            _DASK.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            _DASK.Client(cluster) as client,
        ):
            yield from _done(client, function, tasks)


def _done(client: Any, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
    mark = uuid.uuid4().hex
    futures = [client.submit(function, task, key=f"tailrace-{mark}-{i}", pure=False) for i, task in enumerate(tasks)]
    for future in _DASK.as_completed(futures):
        yield future.result()
        future.release()
