"""Advice: what to change so that fewer requests take seconds, what each change buys, and the lines to change.

`remedies` has the changes, one a file. `trials` simulates changed experiments within a time budget, `sizing` finds the
sensible size of each, `ranking` compares them and `advising` is the whole, in order.
"""

from tailrace.advise.advice import Advice
from tailrace.advise.advising import advise

__all__ = ["Advice", "advise"]
