"""Text that a stranger could write, and what Tailrace must never output because of it."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser

from hypothesis import strategies as st

FORGED = "0 VLRT, all fine"
SEQUENCES = ["\x1b]0;title\x07", "\x1b]8;;http://evil.example\x1b\\", "\x1b[2J\x1b[H", "\x1b[31m", "\x9b31m"]
BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\t", f"\n{FORGED}\n", f"\r{FORGED}"]
UNSEEN = ["\u200b", "\u2060", "\ufeff", "\u00ad", "\u3164", "\u034f", "\U000e0041", "\x7f", "\x00", "\U0010fffd"]
TURNING = ["\u202e", "\u2066", "\u2069", "\u061c", "\u200f"]
MARKUP = ["[/nope]", "[red]", "[link=http://evil.example]x[/link]", ":smile:", "`", "``", "{{ 7 * 7 }}", "{% raw %}"]
HTML = ["</script>", "<script>alert(1)</script>", "<!--", "-->", "]]>", '" onmouseover="alert(1)', "' x='", "&lt;"]
PLAIN = ["\\", "\\u001b", "%s", "{0}", "=", ";", ",", '"', "'", " ", "  ", "ü", "日本", "x" * 100, "\u0301" * 40, "--"]
SHARDS = [*SEQUENCES, *BREAKS, *UNSEEN, *TURNING, *MARKUP, *HTML, *PLAIN]
SURROGATES = ["\udc80", "\ud800", "\udfff"]
"""File names that are not UTF-8 appear as these; Parquet and TOML cannot hold them."""

texts = (
    st.lists(st.one_of(st.sampled_from(SHARDS), st.text(max_size=8)), min_size=1, max_size=5).map("".join).filter(bool)
)


def hidden(text: str) -> list[str]:
    """Characters that are invisible or change what is visible, except line breaks of Tailrace."""
    return [
        c for c in text if c != "\n" and (unicodedata.category(c)[0] in "C" or c in "\u2028\u2029\u3164\u034f\u115f")
    ]


def assert_plain(text: str) -> None:
    """Nothing hidden is in the output, and no line is one that a name forged."""
    assert hidden(text) == []
    assert not any(line.strip().startswith(FORGED) for line in text.split("\n")), text


class Outline(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.scripts = 0
        self.links: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.attributes |= {(tag, name) for name, _ in attrs}
        self.links |= {
            value or "" for name, value in attrs if name in ("href", "src") and not (value or "").startswith("#")
        }
