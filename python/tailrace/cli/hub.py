"""`tailrace hub`: one incident of what the watches of several hosts noticed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.recording import Duration
from tailrace.cli.words import duration_ns, tell, tell_at
from tailrace.errors import UsageError
from tailrace.units import SECOND

if TYPE_CHECKING:
    import ssl

    from tailrace.hub.admission import Admission

TOKENS_BYTES = 1 << 20
"""Of the file with a token for each host: a thousand hosts take 130 kB."""
EPILOG = (
    "Example:\n\n`tailrace hub -o incidents --listen 10.0.0.9:9465 --token-file token --certificate hub.pem --key "
    "hub.key`, and on each host `tailrace watch … --report-to https://hub.example:9465 --token-file token`"
)


def hub(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for incidents.")],
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="The secret that the hub and its hosts share.")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead: a secret for each host, in lines of HOST TOKEN."),
    ] = None,
    listen: Annotated[str, typer.Option(metavar="ADDR:PORT", help="Where hosts report.")] = "127.0.0.1:9465",
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM certificate; needed for other hosts.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its PEM key. Default: in the file of the certificate.")
    ] = None,
    wait: Annotated[str, typer.Option(metavar="TIME", help="How long to wait for the hosts of an incident.")] = "60s",
    most: Annotated[int, typer.Option(min=1, help="The most incidents that the folder may hold.")] = 200,
    duration: Duration = None,
) -> None:
    """Receive what `tailrace watch --report-to` notices, ask the neighbours, and write one incident of it."""
    from tailrace import endings
    from tailrace._core import give_up_rights
    from tailrace.hub import opened
    from tailrace.hub.serving import Server
    from tailrace.recorder import Stop
    from tailrace.watch.serving import is_loopback, shown
    from tailrace.watch.serving import listen as listen_at

    admission = _admission(token_file, tokens)
    tls = _tls(certificate, key)
    wait_ns = duration_ns(f"--wait {wait}", wait)
    lasting = None if duration is None else duration_ns(f"--duration {duration}", duration)
    listening = listen_at(listen, "--listen")
    address, port = listening.getsockname()[:2]
    if tls is None and not is_loopback(address):
        raise UsageError(
            f"--listen {listen}: the token would cross the network unencrypted",
            advice="add --certificate, or listen at 127.0.0.1 behind a proxy that ends TLS",
        )
    stop = Stop()
    endings.handle(stop)
    one = opened(out, tell_at, wait_ns / SECOND, most)
    give_up_rights()
    tell(f"hub at {shown(address, port, tls=tls is not None)}; incidents go to {out}", lenient=True)
    until = None if lasting is None else time.monotonic_ns() + lasting
    one.run(Server(listening, one.desk, admission, tls), lambda: stop.asked or _is_over(until))


def _admission(token_file: Path | None, tokens: Path | None) -> Admission:
    from tailrace.hub.admission import Admission
    from tailrace.untrusted import read_text

    if tokens is not None and token_file is None:
        return Admission.each(read_text(tokens, TOKENS_BYTES), f"--tokens {tokens}")
    if token_file is not None and tokens is None:
        return Admission.shared(token_of(token_file))
    found = "no token is given" if tokens is None else "both --token-file and --tokens are given"
    raise UsageError(found, advice="--token-file FILE has one for all hosts, --tokens FILE has one for each")


def token_of(path: Path) -> str:
    from tailrace.hub.wire import token
    from tailrace.untrusted import read_text

    return token(read_text(path, 4_096), f"--token-file {path}")


def _is_over(until: int | None) -> bool:
    return until is not None and time.monotonic_ns() >= until


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    import ssl

    if certificate is None:
        if key is not None:
            raise UsageError("--key belongs to a certificate", advice="add --certificate")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"it is no usable certificate ({error.strerror or error})",
            where=str(certificate),
            advice="give PEM files: --certificate, and --key if the key is in another file",
        ) from error
    return context
