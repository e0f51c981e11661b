"""MariaDB: a thread for each connection, or eight threads for all of them behind a deep backlog.

A server's data are a copy of what the bulletin board wrote once; the copy is removed when the testbed stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tailrace.experiment import places
from tailrace.testbed.program import where
from tailrace.testbed.servers import data
from tailrace.testbed.servers.kind import Kind, Refusal
from tailrace.testbed.servers.setting import Setting


def _files(setting: Setting) -> Mapping[str, str]:
    return {
        "mariadb.cnf": setting.render("mariadb.cnf.j2", pooled=setting.tier.kind == "bounded", disk=_disk(setting)),
        "accounts.sql": setting.render("accounts.sql.j2"),
    }


def _disk(setting: Setting) -> bool:
    """On a disk of its own, it waits for the disk at each commit, as databases do; otherwise it shares the
    machine's."""
    [node] = {server.node for server in places.servers(setting.experiment) if server.name == setting.at.name}
    return places.nodes(setting.experiment)[node].disk is not None


def _refuses(setting: Setting) -> Iterator[Refusal]:
    if setting.tier.kind == "async":
        yield "kind", "MariaDB is synchronous, or bounded by its pool of threads"
    if setting.tier.kind == "bounded" and not setting.tier.workers:
        yield "workers", "a pool of threads needs a size"
    if setting.calls:
        yield "calls", "a database calls no other tier"


KIND = Kind(
    port=lambda setting: 3306,
    files=_files,
    command=lambda setting: [where("mariadbd"), f"--defaults-file={setting.folder}/mariadb.cnf"],
    prepare=lambda setting, room: data.fill(setting, room, setting.folder / "data"),
    refuses=_refuses,
)
