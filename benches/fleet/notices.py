"""Notices of a host that the hub does not know otherwise, as fast as the hub takes them; prints how often it was busy.

notices.py HUB:PORT FOLDER ALL HOST FROM TO PEER NOW: the notices FROM to TO of ALL; each is a minute from the next, and
the last ends at NOW, in nanoseconds.
"""

import http.client
import json
import ssl
import sys
import time
from pathlib import Path

SECOND = 1_000_000_000
_, hub, folder, everything, host, first, end, peer, now = sys.argv
context = ssl.create_default_context(cafile=str(Path(folder) / "hub.pem"))
headers = {"Authorization": "Bearer " + (Path(folder) / "token").read_text()}
connection = http.client.HTTPSConnection(hub, timeout=60, context=context)
busy = 0
for number in range(int(first), int(end)):
    at = int(now) - (int(everything) - number) * 60 * SECOND
    notice = {"host": host, "begin": at - SECOND, "end": at, "peers": [peer], "reasons": ["slow"]}
    while True:
        connection.request("POST", "/v1/notice", json.dumps(notice | {"now": time.time_ns()}), headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 503:
            break
        busy += 1
        time.sleep(1)
print(busy)
