"""`tailrace reproduce`: the papers' figures and tables beside ours (docs/how-to/add-a-reproduction.md).

```text
experiments/<paper>/<figure-N>/   experiment.toml  expected.toml  README.md  (testbed.toml)
        shelf ─▶ expected ──┬─▶ plan of questions ─ study.runs ─▶ outcome ─▶ reproduction ─▶ page, JSON
                 (scaled) ──┘                       simulator, testbed
```
"""

from tailrace.reproduce.expected import Expected, json_schema
from tailrace.reproduce.outcome import Outcome
from tailrace.reproduce.reproduction import Reproduction, as_dict, reproduce, to_json
from tailrace.reproduce.shelf import Entry, entries, find

__all__ = [
    "Entry",
    "Expected",
    "Outcome",
    "Reproduction",
    "as_dict",
    "entries",
    "find",
    "json_schema",
    "reproduce",
    "to_json",
]
