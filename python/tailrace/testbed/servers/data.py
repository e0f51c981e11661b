"""The bulletin board's stories, users and comments: written once for each build of the board, then copied."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.testbed import program
from tailrace.testbed.program import Room, where
from tailrace.testbed.servers import board
from tailrace.testbed.servers.setting import Setting

FILL_S = 600.0


def fill(setting: Setting, room: Room, data: Path) -> None:
    """Make `data` a database folder that is filled."""
    kept = setting.folder.parent.parent / "databases" / hashlib.sha256(board.jar().read_bytes()).hexdigest()[:16]
    if not kept.exists():
        for older in kept.parent.glob("*"):  # of other builds, or half-written
            shutil.rmtree(older)
        partial = kept.with_suffix(".partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        _write(setting, room, partial)
        partial.rename(kept)
    _run("cp", "-a", "--reflink=auto", str(kept), str(data))


def _write(setting: Setting, room: Room, data: Path) -> None:
    accounts = "--auth-root-authentication-method=normal"
    _run(where("mariadb-install-db"), "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db", accounts)
    log = setting.folder / "data.log"
    server = [where("mariadbd"), f"--defaults-file={setting.folder}/mariadb.cnf", f"--datadir={data}"]
    database = program.start(f"{setting.at.name} for its data", server, room, log)
    try:
        database.wait_until(program.listening(room, setting.at.port))
        properties = setting.folder / "data.properties"
        properties.write_text(setting.render("data.properties.j2"))
        writer = program.start("the board's data", board.java([], "data", str(properties)), room, log)
        try:
            if writer.process.wait(FILL_S) != 0:
                raise TailraceError(f"the bulletin board could not write its data: {writer.told()}")
        finally:
            writer.stop()
    finally:
        database.stop()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TailraceError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
