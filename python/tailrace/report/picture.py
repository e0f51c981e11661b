"""A topology as an SVG drawing: servers from the clients on the left to the last tier on the right, what limits their
queues and their calls, and who calls whom. Names may come from strangers, so all text is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from markupsafe import escape

from tailrace import foreign
from tailrace.diagnosis.words import count
from tailrace.topology import Server, Topology

WIDTH, LINE, GAP_X, GAP_Y, EDGE = 210, 16, 90, 24, 20
"""Of a server's box, a line of text, and the space between columns, between rows and around everything, in pixels."""
CHARACTERS = 31
"""As many letters of 12 pixels fit into a box."""
ROWS_MAX, COLUMNS_MAX = 24, 24
"""More servers of a tier are counted and not drawn, and so are more tiers."""
NO_NAMES: Mapping[str, str] = MappingProxyType({})
BESIDE_MAX = 3
"""So many other servers of a machine are named."""
STYLE = (
    ".topology text{font:12px sans-serif;fill:#1d2530}.topology .name{font-weight:bold}"
    ".topology .server{fill:#eef3f9;stroke:#4a6a8a}.topology .async{stroke-dasharray:5 3}"
    ".topology .call{stroke:#7a8794;fill:none}"
)


@dataclass(frozen=True)
class _Box:
    server: Server
    x: int
    y: int
    lines: tuple[str, ...]

    @property
    def height(self) -> int:
        return LINE * len(self.lines) + LINE // 2

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


def svg(topology: Topology, title: str, names: Mapping[str, str] = NO_NAMES) -> str:
    """Equal topologies give equal text. Servers are called by these `names`, with their own in brackets."""
    columns = _columns(topology)
    boxes: dict[str, _Box] = {}
    heights, notes = [], []
    for number, servers in enumerate(columns[:COLUMNS_MAX]):
        x, y = EDGE + number * (WIDTH + GAP_X), EDGE + 2 * LINE
        for server in servers[:ROWS_MAX]:
            box = _Box(server, x, y, (*_lines(server, topology, names), *_pools(topology, server.name, names)))
            boxes.setdefault(server.name, box)
            y += box.height + GAP_Y
        if len(servers) > ROWS_MAX:
            notes.append(_text(x, y + LINE, f"and {len(servers) - ROWS_MAX:,} more servers"))
            y += 2 * LINE
        heights.append(y)
    if len(columns) > COLUMNS_MAX:
        title += f" (and {len(columns) - COLUMNS_MAX:,} more tiers)"
    width = 2 * EDGE + max(1, len(heights)) * (WIDTH + GAP_X) - GAP_X
    height = max(heights, default=EDGE + 2 * LINE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{escape(foreign.visible(title))}</title><style>{STYLE}</style>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(EDGE, EDGE + LINE // 2, title, "name", width // 7),
        *_calls(topology, boxes),
        *(_box(box) for box in boxes.values()),
        *notes,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _columns(topology: Topology) -> list[list[Server]]:
    """Servers by tier; those whose tier is unknown stand with the first."""
    tiers: dict[int, list[Server]] = {}
    for server in topology.servers:
        tiers.setdefault(server.tier or 1, []).append(server)
    return [tiers[tier] for tier in sorted(tiers)]


def _lines(server: Server, topology: Topology, names: Mapping[str, str]) -> Iterator[str]:
    yield f"{names[server.name]} ({server.name})" if server.name in names else server.name
    workers = f"{server.workers:,} workers" if server.workers else ""
    about = ", ".join(filter(None, ("asynchronous" if server.kind == "async" else "", workers)))
    if about:
        yield about
    if server.backlog:
        yield f"backlog {server.backlog:,}"
    if server.queue_max:
        yield f"holds at most {server.queue_max:,}"
    node = topology.node_of(server.name)
    if node:
        yield f"on {node.name}" + (f", {count(node.cores, 'core')}" if node.cores else "")
    around = topology.servers_on(node.name) if node else ()
    beside = [names.get(other.name, other.name) for other in around if other.name != server.name]
    if beside:
        more = f" and {len(beside) - BESIDE_MAX:,} more" if len(beside) > BESIDE_MAX else ""
        yield f"beside {', '.join(beside[:BESIDE_MAX])}{more}"
    balancers = topology.balancers_of(server.name)
    if balancers:
        yield f"balances by {balancers[-1].policy or 'an unknown policy'}"


def _pools(topology: Topology, server: str, shown: Mapping[str, str]) -> Iterator[str]:
    """The pools of a caller, in one line for callees with equal ones."""
    sizes: dict[str, Counter[int]] = {}
    for pool in topology.pools_of(server):
        for member in topology.members(pool.callee):
            sizes.setdefault(member, Counter())[pool.size] += 1
    callees: dict[str, list[str]] = {}
    for callee, found in sizes.items():
        words = ", ".join(f"{n} pools of {size:,}" if n > 1 else f"pool of {size:,}" for size, n in found.items())
        callees.setdefault(words, []).append(callee)
    for words, names in callees.items():
        yield f"{words} to {shown.get(names[0], names[0]) if len(names) == 1 else f'each of {len(names):,}'}"


def _calls(topology: Topology, boxes: dict[str, _Box]) -> Iterator[str]:
    for name, caller in boxes.items():
        for callee in filter(None, map(boxes.get, topology.callees_of(name))):
            yield f'<path class="call" d="M{caller.x + WIDTH} {caller.middle}L{callee.x} {callee.middle}"/>'


def _box(box: _Box) -> str:
    kind = "server async" if box.server.kind == "async" else "server"
    frame = f'<rect class="{kind}" x="{box.x}" y="{box.y}" width="{WIDTH}" height="{box.height}" rx="4"/>'
    rows = (
        _text(box.x + 8, box.y + LINE * (number + 1), line, "" if number else "name")
        for number, line in enumerate(box.lines)
    )
    return "".join((frame, *rows))


def _text(x: int, y: int, words: str, kind: str = "", characters: int = CHARACTERS) -> str:
    """One line of text; what does not fit is in the tooltip."""
    words = foreign.visible(words)
    shown = words if len(words) <= characters else words[: characters - 1] + "…"
    tip = f"<title>{escape(words)}</title>" if shown != words else ""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{named}>{escape(shown)}{tip}</text>'
