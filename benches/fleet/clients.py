"""Clients of the fleet: eight for each address ask its web server, each every four seconds, for ever."""

import http.client
import sys
import threading
import time

CLIENTS, PAUSE_S = 8, 4.0


def ask(address: str, first_s: float) -> None:
    time.sleep(first_s)
    while True:
        connection = http.client.HTTPConnection(address, 80, timeout=20)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(PAUSE_S)


for each in sys.argv[1:]:
    for number in range(CLIENTS):
        threading.Thread(target=ask, args=(each, number * PAUSE_S / CLIENTS)).start()
