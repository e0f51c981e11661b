"""The run folder: what makers write and analysts read (docs/reference/dataset.md).

`schema` defines the columns, `writing` writes a folder completely or not at all, `reading` opens one lazily, and
`validation` finds the first row that violates the format.
"""

from tailrace import endings
from tailrace.dataset.connections import Apart, Connections, ServerConnections
from tailrace.dataset.manifest import COUNTED, INFERRED, SEEN, Input, Manifest
from tailrace.dataset.overwriting import refuse, remove, remove_known
from tailrace.dataset.reading import Dataset, is_run
from tailrace.dataset.schema import EVENTS, FORMAT, REQUESTS, SAMPLES, TABLES, VISITS, Column, Table
from tailrace.dataset.tables import scan
from tailrace.dataset.writing import Writer, abandon, create, hold, leftovers

__all__ = [
    "COUNTED",
    "EVENTS",
    "FORMAT",
    "INFERRED",
    "REQUESTS",
    "SAMPLES",
    "SEEN",
    "TABLES",
    "VISITS",
    "Apart",
    "Column",
    "Connections",
    "Dataset",
    "Input",
    "Manifest",
    "ServerConnections",
    "Table",
    "Writer",
    "abandon",
    "create",
    "hold",
    "is_run",
    "leftovers",
    "refuse",
    "remove",
    "remove_known",
    "scan",
]

endings.end_waiting()  # Polars is loaded
