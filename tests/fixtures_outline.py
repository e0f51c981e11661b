"""A page without its styles, scripts and drawings: its text and its elements."""

from __future__ import annotations

from html.parser import HTMLParser


class Outline(HTMLParser):
    """The page's elements and text, without styles, scripts, drawings and attributes that only place things."""

    SKIPPED = frozenset(("style", "script", "svg"))
    VOID = frozenset(("meta", "link", "br", "img", "path", "rect", "circle", "input"))
    TOLD = ("id", "href", "aria-label", "data-group", "open", "role", "scope")

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.stack: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if not self._inside():
            told = " ".join(f"{k}={v}" if v else k for k, v in attrs if k in self.TOLD)
            self.lines.append("  " * len(self.stack) + f"<{tag}{' ' + told if told else ''}>")
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._inside() and data.strip():
            self.lines.append("  " * len(self.stack) + " ".join(data.split()))

    def _inside(self) -> bool:
        return any(tag in self.SKIPPED for tag in self.stack)


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    return parser
