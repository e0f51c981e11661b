"""Dask: a scheduler that runs (`dask://HOST:PORT`), or workers on this machine (`dask://local?workers=N`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import SplitResult

from distributed import Client, LocalCluster, as_completed

from tailrace.engines import address


class Engine:
    def __init__(self, parts: SplitResult) -> None:
        self._address = address(parts)

    def map_tasks(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Dask gives a dead worker's tasks to others, up to its setting `allowed-failures`."""
        at, workers = self._address.at, self._address.workers
        if at is not None:
            with Client(f"tcp://{at}") as client:
                yield from _done(client, function, tasks)
            return
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            yield from _done(client, function, tasks)


def _done(client: Client, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
    mark = uuid.uuid4().hex
    futures = [client.submit(function, task, key=f"tailrace-{mark}-{i}", pure=False) for i, task in enumerate(tasks)]
    for future in as_completed(futures):
        yield future.result()
        future.release()
