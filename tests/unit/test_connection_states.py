"""What packets can hold is representable; attempts that came to nothing are told from requests."""

from __future__ import annotations

from pathlib import Path

from packets import SYN, Capture, Connection
from tailrace import readers

WEB = ("10.0.0.2", 80)


def requests(capture: Capture, count: int = 20, begin: float = 0.0) -> None:
    for number in range(count):
        Connection(capture, begin + 0.1 * number, ("10.0.0.1", 40000 + number), WEB).open().get().close()


def test_a_packet_to_port_0_costs_nothing(tmp_path: Path) -> None:
    capture = Capture()
    requests(capture)
    for sender in ("10.66.0.1", "10.66.0.2"):
        Connection(capture, 0.5, (sender, 0), ("10.0.0.2", 0)).ask((1.0, 2.0)).accept().get().close()
    capture.tcp(0.7, (("10.66.0.3", 0), WEB), 7, 0, SYN)
    run = readers.read(capture.save(tmp_path / "zero.pcap"), out=tmp_path / "run")
    assert run.topology.server("10.0.0.2:0") is not None
    assert run.manifest.rows["requests"] == 22
