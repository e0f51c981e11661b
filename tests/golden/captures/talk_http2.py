"""The HTTP/2 session: curl with prior knowledge and with an upgrade, nghttp with streams that overlap, and h2load."""

import subprocess

BASE = "http://127.0.0.1:8081"


def run(*command: str) -> None:
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)


run("curl", "-s", "--http2-prior-knowledge", f"{BASE}/small.html", f"{BASE}/missing", f"{BASE}/3000.html")
run("curl", "-s", "--http2", f"{BASE}/small.html", f"{BASE}/gone")
run("curl", "-s", "--http2-prior-knowledge", "-I", f"{BASE}/3000.html")
run("curl", "-s", "--http2-prior-knowledge", "--data", "x" * 20000, f"{BASE}/small.html")
run("nghttp", "-n", f"{BASE}/3000.html", f"{BASE}/small.html", f"{BASE}/missing", f"{BASE}/large.bin")
run("h2load", "-n", "24", "-c", "2", "-m", "4", f"{BASE}/3000.html")
# The answer takes longer than the client waits: it cancels the stream.
run("curl", "-s", "--http2-prior-knowledge", "-m", "0.3", f"{BASE}/cgi/slow")
