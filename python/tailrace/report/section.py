"""A section that another part of Tailrace adds to the report, such as the advice."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Section:
    anchor: str
    title: str
    body: Markup
    """Its content, from `page.fragment`."""
