"""Which sources are lakes. The commands must know it before they give up their rights, and a library that is loaded
earlier keeps threads with all rights."""

from __future__ import annotations

from typing import TypeGuard
from urllib.parse import urlsplit

STORES = ("s3", "gs", "gcs", "file")
FORMATS = ("delta", "iceberg")


def is_lake(source: object) -> TypeGuard[str]:
    return isinstance(source, str) and urlsplit(source).scheme in (*STORES, *FORMATS)
