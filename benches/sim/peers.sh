#!/bin/sh
# Gets what the simulator is measured against: a loop written by hand, simcore, and SimPy and LINE in an environment of
# their own.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for driver in by-hand simcore-driver; do
    cargo build --release --quiet --locked --manifest-path "$here/$driver/Cargo.toml"
done
test -x "$here/.venv/bin/python" || python3 -m venv "$here/.venv"
"$here/.venv/bin/pip" install --quiet --disable-pip-version-check simpy==4.1.2 line-solver==3.0.8.0
