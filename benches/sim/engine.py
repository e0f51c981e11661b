"""`engine.py MODEL SECONDS`: a model of the benchmark through Tailrace's engine, counting alone."""

import json
import sys

from models import plan

from tailrace import _core

report = json.loads(_core.simulate(json.dumps(plan(sys.argv[1], int(sys.argv[2]))), None))
print(json.dumps(report["counts"]))
