"""READMEs on the page: those of its figures and those that they link to, so that every link stays on the page."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from tailrace.reproduce.shelf import Entry

READER = MarkdownIt("commonmark", {"html": False}).enable("table")
Anchors = Container[str]
_WITH_ITS_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|us|ms|s|min|B|kB|MB|GB|GHz)(?![\w/]))|(?<=\d) (?=±)|(?<=±) (?=\d)")
"""Spaces at which a line must not break."""


def linked(entries: Sequence[Entry]) -> list[Entry]:
    """The READMEs that are linked, directly or not, beyond the entries: a paper's base, or a figure that was not
    requested."""
    every = list(entries)
    for entry in every:  # grows during the loop
        beside = (Entry(entry.paper, name, entry.folder.parent / name) for name in _names(entry))
        every += [other for other in beside if other not in every and other.readme()]
    return every[len(entries) :]


def markdown(entry: Entry, anchors: Anchors) -> Markup:
    """A README as HTML without its title: headings become smaller than the page's own, raw HTML stays text.

    A link to another folder of the paper leads to its place on this page, if it has one; other files are only named.
    """
    tokens = READER.parse(entry.readme())
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        tokens = tokens[3:]
    for token in tokens:
        if token.type.startswith("heading_"):
            token.tag = "h4" if token.tag in ("h1", "h2") else "h5"
        if token.type == "th_open":
            token.attrSet("scope", "col")
    for word in _words(tokens):
        word.content = _WITH_ITS_UNIT.sub("\u00a0", word.content)
    for link in _links(tokens):
        target = str(link.attrGet("href") or "")
        if target.startswith(("https://", "http://", "#")):
            continue
        link.attrs.pop("href", None)
        name = _folder(target)
        if name and f"{entry.paper}-{name}" in anchors:
            link.attrSet("href", f"#{entry.paper}-{name}")
    return Markup(READER.renderer.render(tokens, READER.options, {}))


def _words(tokens: Sequence[Token]) -> Iterator[Token]:
    return (inner for token in tokens for inner in token.children or () if inner.type == "text")


def _names(entry: Entry) -> Iterator[str]:
    """Folders of the same paper that a README links to."""
    for link in _links(READER.parse(entry.readme())):
        name = _folder(str(link.attrGet("href") or ""))
        if name:
            yield name


def _links(tokens: Sequence[Token]) -> Iterator[Token]:
    return (inner for token in tokens for inner in token.children or () if inner.type == "link_open")


def _folder(target: str) -> str | None:
    found = re.fullmatch(r"\.\./([\w-][\w.-]*)(?:/(?:README\.md)?)?", target)
    return found[1] if found else None
