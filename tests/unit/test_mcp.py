"""The tools for assistants, called over the protocol as an assistant calls them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from doors import run_folder
from tailrace.cli import perform
from tailrace.errors import UsageError
from tailrace.mcp import EPISODES_MAX, Tools, server

anyio = pytest.importorskip("anyio", reason="the extra mcp is not installed")
pytest.importorskip("mcp", reason="the extra mcp is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("opened")
    shutil.copytree(run_folder(), found / "incident-2026-11-21T173144Z")
    (found / "out").symlink_to("/etc")
    return found


def session(folder: Path, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """What `work` returns of a session with `tailrace mcp FOLDER` as a process."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def talk() -> Any:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "tailrace", "mcp", str(folder)], env={**os.environ}
        )
        async with stdio_client(command) as (read, write), ClientSession(read, write) as open_session:
            await open_session.initialize()
            return await work(open_session)

    return anyio.run(talk)


def test_an_assistant_lists_and_explains_incidents(folder: Path) -> None:
    before = sorted(folder.rglob("*"))

    async def work(assistant: Any) -> tuple[Any, ...]:
        tools = await assistant.list_tools()
        listed = await assistant.call_tool("list_incidents", {})
        run = json.loads(listed.content[0].text)["name"]
        explained = await assistant.call_tool("diagnose", {"paths": [run], "threshold": "1ms"})
        outside = await assistant.call_tool("info", {"run": "../"})
        return tools.tools, explained, outside

    tools, explained, outside = session(folder, work)
    assert {tool.name for tool in tools} == {"list_incidents", "diagnose", "windows", "info", "advise"}
    assert all(tool.annotations.read_only_hint for tool in tools)
    found = json.loads(explained.content[0].text)
    assert "requests" in found["answer"][0]
    assert len(found["episodes"]) <= EPISODES_MAX
    assert outside.is_error
    assert sorted(folder.rglob("*")) == before


def test_windows_of_a_server_are_those_with_the_longest_queues(folder: Path) -> None:
    tools = Tools(folder.resolve())
    run = "incident-2026-11-21T173144Z"
    servers = [one["name"] for one in tools.info(run)["servers"]]
    found = tools.windows(run, servers[0], window="50ms")
    assert 0 < len(found["windows"]) <= found["windows_in_all"]
    assert {row["server"] for row in found["windows"]} == {servers[0]}
    with pytest.raises(ValueError, match="it has no visits"):
        tools.windows(run, "elsewhere")


@pytest.mark.parametrize("path", ["/etc/passwd", "../", "out/passwd", "missing", "a\0b", "x" * 5000])
def test_no_path_leads_out_of_the_opened_folder(folder: Path, path: str) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        Tools(folder.resolve()).diagnose([path])


def test_words_of_an_assistant_are_no_options(folder: Path) -> None:
    (folder / "--help").write_text("x")
    with pytest.raises(ValueError, match="tailrace: "):
        Tools(folder.resolve()).info("--help")
    with pytest.raises(ValueError, match="threshold"):
        Tools(folder.resolve()).diagnose(["--help"], threshold="--version")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert perform(["mcp", str(tmp_path / "missing")]) == 2


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(UsageError) as error:
        server(tmp_path)
    assert error.value.commands == ("pip install 'tailrace[mcp]'",)
