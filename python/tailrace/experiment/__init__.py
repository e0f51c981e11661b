"""An experiment: `experiment.toml`, the same for every engine (docs/reference/experiment.md).

`model` has the keys, their defaults and their sources. `reading` combines files (extends, --set, the defaults of
software) and checks the result. `references` finds names that are not declared. `places` lists servers and nodes.
`rubbos` is the benchmark as data.
"""

from tailrace.experiment.model import Experiment
from tailrace.experiment.reading import from_table, json_schema, read, to_table

__all__ = ["Experiment", "from_table", "json_schema", "read", "to_table"]
