#!/usr/bin/env bash
# Cuts the recordings that come with the project out of the full ones: make.sh FOLDER_OF_THE_FULL_RECORDINGS
set -euo pipefail
cd "$(dirname "$0")/../../.."
full=$1
crop() { PYTHONPATH=python .venv/bin/python tests/golden/recordings/crop.py "$full/$1" "$2" "$3" "$4"; }
crop sync-neighbour demo 1.5 10.5
crop sync-control tests/golden/recordings/sync-control 4 8
crop sync-gc tests/golden/recordings/sync-gc 8.2 14.8
crop sync-burst tests/golden/recordings/sync-burst 2.5 9
crop nx1-neighbour tests/golden/recordings/nx1-neighbour 3.5 8.7
crop nx3-neighbour tests/golden/recordings/nx3-neighbour 4.4 8.2
