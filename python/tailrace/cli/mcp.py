"""`tailrace mcp`: tools for assistants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EPILOG = (
    'Example, in the configuration of an assistant:\n\n`{"command": "tailrace", "args": ["mcp", "/data/incidents"]}`'
)


def mcp(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The only folder that the assistant may read.")],
) -> None:
    """Serve tools to an assistant over standard input and output (Model Context Protocol): list incidents, diagnose,
    windows, info, advise. They write nothing."""
    from tailrace.mcp import server

    server(folder).run("stdio")
