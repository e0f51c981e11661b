"""The load generator: RUBBoS's clients and other loads, as real requests to real servers (docs/reference/load.md).

```text
experiment ─┐
            ├▶ lowering ─▶ a plan for each worker ─▶ running ─▶ worker (a process) ─▶ its log ─┐
URLs ─ targets                                          └──────── tables of a run folder ◀─────┘
```
"""
