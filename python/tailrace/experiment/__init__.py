"""What is tried: `experiment.toml`, the same for every engine (docs/reference/experiment.md).

`model` has the keys, their defaults and where these come from; `reading` puts a file together (extends, --set, what a
program brings along) and checks it; `references` finds names that lead nowhere; `places` says which servers and nodes
there are; `rubbos` is the benchmark as data.
"""

from tailrace.experiment.model import Experiment
from tailrace.experiment.reading import from_table, json_schema, read, to_table

__all__ = ["Experiment", "from_table", "json_schema", "read", "to_table"]
