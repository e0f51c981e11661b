"""The bulletin board's stories, users and comments: written once for each version of their generator, then copied."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from tailrace.errors import TailraceError
from tailrace.testbed import program
from tailrace.testbed.commands import run
from tailrace.testbed.program import Room, where
from tailrace.testbed.servers import board
from tailrace.testbed.servers.setting import Setting

FILL_S = 600.0
MADE_BY = ("tailrace/board/data/", "tailrace/board/settings/Sizes")
"""Schema, generator and amounts, in the board's jar. If only pages change, the data stay valid."""


def fill(setting: Setting, room: Room, data: Path) -> None:
    """Make `data` a database folder that is filled."""
    kept = setting.folder.parent.parent / "databases" / contents(board.built())
    if not kept.exists():
        for older in kept.parent.glob("*"):  # from another generator, or half-written
            shutil.rmtree(older)
        partial = kept.with_suffix(".partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        _write(setting, room, partial)
        partial.rename(kept)
    run("cp", "-a", "--reflink=auto", str(kept), str(data))


def contents(jar: Path) -> str:
    """A name of what the board writes: jars that write the same data have the same name."""
    try:
        with ZipFile(jar) as packed:
            made_by = [(part.filename, part.CRC) for part in packed.infolist() if part.filename.startswith(MADE_BY)]
    except BadZipFile as error:
        raise TailraceError("it is not a complete jar", where=str(jar), advice="run `make testbed-setup`") from error
    return hashlib.sha256(repr(sorted(made_by)).encode()).hexdigest()[:16]


def _write(setting: Setting, room: Room, data: Path) -> None:
    accounts = "--auth-root-authentication-method=normal"
    run(where("mariadb-install-db"), "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db", accounts)
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
