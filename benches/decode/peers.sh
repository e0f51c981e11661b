#!/bin/sh
# Gets the peers of the decode benchmark: tshark from Debian's packages, and a driver of the flowscope crate.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v tshark >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends tshark
fi
cargo build --release --locked --manifest-path "$here/flowscope-driver/Cargo.toml"
