"""The testbed: an experiment on real servers of this machine, each in a namespace and a control group of its own."""

from tailrace.testbed.site import Site

__all__ = ["Site"]
