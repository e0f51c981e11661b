"""Making text from strangers safe to show: names in captures, run folders and logs, file names, messages.

`visible` is for a terminal and for text files, `html` for a page, `json_text` for JSON. Each escapes characters that
are invisible or that change the order of the text: control characters and escape sequences, line breaks, marks for the
direction of writing, zero-width characters, unpaired surrogates. `html` also escapes markup.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

NAME_LENGTH_MAX = 80
"""The longest name that is shown whole; interactions can be as long as a request line."""
SENTENCE_LENGTH_MAX = 2_000
"""The longest message that is shown whole: a screen of 80 by 25 characters."""

NAMES_MAX = 12
"""The most names that a sentence lists."""

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_SPACES = re.compile(r"\s{2,}")
# Letters and marks without width or ink: the part of Unicode's Default_Ignorable_Code_Point that is not in these
# categories, and U+2800.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def visible(text: str) -> str:
    """The text on one line, with every hidden character written as `\\u001b`."""
    return _written_out(text, _escape)


def name(text: str) -> str:
    """A name that is safe to show: `visible`, of bounded length, and without runs of spaces, which could push its end
    onto a line of its own."""
    head = text[: 4 * NAME_LENGTH_MAX]
    shown = _SPACES.sub(" ", visible(head))
    if len(shown) <= NAME_LENGTH_MAX and len(head) == len(text):
        return shown
    return shown[: NAME_LENGTH_MAX - 1] + "…"


def sentence(text: str) -> str:
    """A message that is safe to show: `visible`, and of bounded length. Its middle is cut, because its end says what to
    do."""
    half = SENTENCE_LENGTH_MAX // 2
    return visible(text if len(text) <= SENTENCE_LENGTH_MAX else f"{text[:half]} … {text[-half:]}")


def listed(names: Sequence[str]) -> str:
    """Names in a list; if there are many, the first ones and a count."""
    more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    return ", ".join(map(name, names[:NAMES_MAX])) + more


def html(value: Any) -> Any:
    """Safe values for an HTML template: text is made `visible` line by line; Tailrace's own markup and numbers stay
    unchanged."""
    return "\n".join(map(visible, value.split("\n"))) if type(value) is str else value


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """JSON on several lines; hidden characters become escapes, which every JSON parser reads back."""
    lines = json.dumps(value, indent=2, ensure_ascii=ascii_only).split("\n")
    return "\n".join(_written_out(line, _escape_in_json) for line in lines)


def _written_out(text: str, escape: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    return text.translate({ord(c): escape(c) for c in set(text) if _is_hidden(c)})


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN or bool(_BLANK.match(character))


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _escape_in_json(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"
