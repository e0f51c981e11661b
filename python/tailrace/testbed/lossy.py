"""Rules of nftables that lose packets: the node of a server drops them when they arrive, before its TCP sees them.

The recording shows them, because they have passed the bridge. The kernel counts no drop of its queues.
"""

from __future__ import annotations

from tailrace.testbed import net
from tailrace.testbed.commands import run
from tailrace.testbed.program import command, where

OF = 1_000_000
"""A share is so many parts of a million."""


def problem() -> str | None:
    """Why this machine cannot lose packets."""
    return None if command("nft") else "it lacks nft (Debian's nftables)"


def rules(table: str, port: int, senders: list[str], share: float) -> str:
    """A table that drops this share of what these addresses (none: all) send to the port."""
    sent = f"ip saddr {{ {', '.join(senders)} }} " if senders else ""
    chance = f"numgen random mod {OF} < {round(share * OF)} " if share < 1.0 else ""
    return f"""table inet {table} {{
    chain arriving {{
        type filter hook prerouting priority raw
        policy accept
        tcp dport {port} {sent}{chance}drop
    }}
}}
"""


def apply(namespace: str, text: str) -> None:
    """Give rules to the kernel."""
    run(*net.inside(namespace), where("nft"), "-f", "-", text=text, advice="see `tailrace testbed doctor`")


def forget(namespace: str, table: str) -> None:
    apply(namespace, f"delete table inet {table}\n")
