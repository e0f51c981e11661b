"""The reporting side of a watch, with the recording of a real host as its ring. It notices incidents as fast as the hub
takes them, and then waits until it is stopped. It prints one line when all have been sent.

reporters.py HUB:PORT FOLDER NUMBER HOSTS ALL FROM TO NOW: host NUMBER of HOSTS notices the incidents FROM to TO of ALL.
Each is a minute from the next, and the last ends at NOW, in nanoseconds.
"""

import sys
import time
from pathlib import Path

import bench

from tailrace.hub import reporting
from tailrace.units import SECOND

_, hub, folder, number, hosts, everything, first, end, now = sys.argv
name = f"host-{number}"
token = (Path(folder) / "token").read_text()
reporter = reporting.Reporter(reporting.address(f"https://{hub}", Path(folder) / "hub.pem"), token, name)
# Host 0 of that bench has the visits of all hosts, and each other one has its own.
reporter.begin(bench.ring(Path(folder) / name, int(number) + 1, int(hosts) + 1))
for incident in range(int(first), int(end)):
    at = int(now) - (int(everything) - incident) * 60 * SECOND
    while len(reporter._notices) >= reporting.NOTICES_MAX:
        time.sleep(0.2)
    reporter.noticed(at - SECOND, at, ["5 requests to web took 950 ms or longer"])
while reporter._notices:
    time.sleep(0.2)
print(name, *reporter.failures(), flush=True)
time.sleep(24 * 3600)
