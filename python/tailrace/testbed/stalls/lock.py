"""Tables of a database that another session has locked. Queries that need them wait, and keep their threads."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from tailrace.errors import TailraceError
from tailrace.experiment.model import Lock
from tailrace.testbed.program import where
from tailrace.testbed.servers.setting import Account, Setting
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System

ALL = "SELECT CONCAT('`', table_name, '`') FROM information_schema.tables WHERE table_schema = DATABASE()"
DONE = "done"


def injections(system: System, stall: Lock) -> Iterator[Injection]:
    for server in system.servers(stall.place):
        session = Session(system.settings[server])
        tables = [f"`{table}`" for table in stall.tables] or session.rows(ALL)
        lock = "LOCK TABLES " + ", ".join(f"{table} WRITE" for table in tables)
        yield Injection("lock", server, partial(session.do, lock), partial(session.do, "UNLOCK TABLES"))


class Session:
    """A session on the server's own socket: its packets pass no network. It ends with this process or the server."""

    def __init__(self, setting: Setting) -> None:
        account, self.name = Account(), setting.at.name
        options = ["--no-defaults", f"--socket={setting.folder}/mariadb.sock", f"--user={account.user}"]
        options += [f"--password={account.password}", "--batch", "--skip-column-names", "--unbuffered", account.name]
        pipe = subprocess.PIPE
        self.client = subprocess.Popen(
            [where("mariadb"), *options], stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )

    def do(self, statement: str) -> None:
        self.rows(statement)

    def rows(self, statement: str) -> list[str]:
        """Run a statement to its end, and return its rows."""
        with suppress(BrokenPipeError):  # it has ended, so the answer is missing, too
            self._ask(f"{statement};\nSELECT '{DONE}';\n")
        found: list[str] = []
        for line in self.client.stdout or ():
            if line.strip() == DONE:
                return found
            found.append(line.strip())
        raise TailraceError(f"{self.name} did not run: {statement}", advice="see the lines of the mariadb client above")

    def _ask(self, text: str) -> None:
        if self.client.stdin:
            self.client.stdin.write(text)
            self.client.stdin.flush()
