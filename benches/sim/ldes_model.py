"""`ldes_model.py MODEL COMPLETIONS`: `single` and `tiers` in LINE's simulator LDES, with processor sharing.

A plain closed network: LDES has no threads held through calls, which do not bind in these models, and so does less.
COMPLETIONS is LDES's own limit, of all stations; it counts the think stage too (2 of them a request in `single`, 6 in
`tiers`). LDES prints means, not counts: the requests are completions divided by stages.
"""

from __future__ import annotations

import json
import sys

from line_solver import LDES, ClosedClass, Delay, Exp, GlobalConstants, Network, Queue, SchedStrategy, VerboseLevel

GlobalConstants.set_verbose(VerboseLevel.SILENT)
name, completions = sys.argv[1], int(sys.argv[2])
stages = (
    [("s", 5e-4)] if name == "single" else [("web", 1e-4), ("app", 2e-4), ("db", 5e-4), ("app", 2e-4), ("web", 1e-4)]
)

model = Network(name)
think = Delay(model, "think")
stations = {station: Queue(model, station, SchedStrategy.PS) for station in dict(stages)}
# A class for each burst of computing, so that a request takes the stations in their order.
classes = [ClosedClass(model, "stage-0", 1000, think, 0)]
classes += [ClosedClass(model, f"stage-{i}", 0, think, 0) for i in range(1, len(stages))]
think.setService(classes[0], Exp(1.0))
for cls, (station, mean) in zip(classes, stages, strict=True):
    stations[station].setService(cls, Exp(1 / mean))
routing = model.initRoutingMatrix()
routing.set(classes[0], classes[0], think, stations[stages[0][0]], 1.0)
for i in range(len(stages) - 1):
    routing.set(classes[i], classes[i + 1], stations[stages[i][0]], stations[stages[i + 1][0]], 1.0)
routing.set(classes[-1], classes[0], stations[stages[-1][0]], think, 1.0)
model.link(routing)
table = LDES(model, seed=1, samples=completions).getAvgTable()
means = {(str(row["Station"]), str(row["JobClass"])): row for _, row in table.iterrows()}
response = sum(means[station, f"stage-{i}"]["RespT"] for i, (station, _) in enumerate(stages))
answered = completions // (len(stages) + 1)
print(json.dumps({"answered": answered, "response_ns": response * 1e9 * answered, "over_1s": 0, "drops": 0}))
