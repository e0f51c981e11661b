"""One experiment many times: what is measured in a run, how it varies, and runs that are never made twice.

```text
experiment, seed ─▶ Job ─ runs.py: simulate, ask, keep ─▶ answers ─ intervals.py ─▶ mean, 95 % interval
                     ▲
       questions: measures.py (one number a run), drawn.py (what a figure draws)
```
`reproduce` and `sweep` are the doors over it.
"""
