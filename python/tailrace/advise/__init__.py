"""Advice: what to change so that fewer requests take seconds, what each change buys, and the lines to change.

`remedies` has the changes, one a file. `trials` simulates changed experiments within a time budget, `sizing` finds the
sensible size of each, `ranking` compares them and `advising` is the whole, in order. `recordings` makes an experiment
of a recording, and `facts` keeps what is known of it. `software` has the lines to change, and `answer`, `terminal`,
`page` and `serialise` show the advice.
"""

from tailrace.advise.advice import Advice
from tailrace.advise.advising import advise
from tailrace.advise.recordings import RefusedError
from tailrace.advise.writing import write

__all__ = ["Advice", "RefusedError", "advise", "write"]
