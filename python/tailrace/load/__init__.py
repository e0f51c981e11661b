"""The load generator sends real requests to real servers: RUBBoS's clients and other loads (docs/reference/load.md).

```text
experiment ─┐
            ├▶ lowering ─▶ a plan for each worker ─▶ running ─▶ worker (a process) ─▶ its log ─┐
URLs ─ targets                                          └──────── tables of a run folder ◀─────┘
```
"""
