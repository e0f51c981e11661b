"""Many runs of one experiment: measures of a run, their variation, and a store, so that no run is made twice.

```text
experiment, seed ─▶ Job ─ runs.py: simulate, ask, keep ─▶ answers ─ intervals.py ─▶ mean, 95 % interval
                     ▲
       questions: measures.py (one number a run), drawn.py (what a figure draws), diagnosed.py
```
`reproduce` and `sweep` use it.
"""
