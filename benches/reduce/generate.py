"""Make the visits that `bench.py` reduces: by default 100 M of 12 servers in 20 files, 50 minutes, always the same.

33 300 visits a second with bursts; every few seconds one server stalls for 0.1 to 0.5 s and answers all at once; 0.27 %
take 1, 3 or 7 s longer, half of them before they arrive (lost connection attempts). Sorted by departure within a file.

    python benches/reduce/generate.py FOLDER [--files 20] [--rows 5000000]
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 7
SERVERS = [f"server-{i:02}" for i in range(12)]
RATE = 33_300
SECOND = 1_000_000_000
BEGIN = 1_795_193_376 * SECOND
ROW_GROUP = 1_000_000


def visits(part: int, rows: int) -> pa.Table:
    rng = np.random.default_rng([SEED, part])
    length = rows * SECOND // RATE
    # A tenth of the visits comes in bursts of 50 ms.
    bursts = rng.integers(0, length, max(rows // 20_000, 1))
    in_burst = rng.random(rows) < 0.1
    spread = bursts[rng.integers(0, bursts.size, rows)] + rng.integers(0, SECOND // 20, rows)
    arrival = np.sort(np.where(in_burst, spread, rng.integers(0, length, rows)))
    server = rng.integers(0, len(SERVERS), rows).astype(np.int32)
    response = rng.lognormal(np.log(4e6), 0.8, rows).astype(np.int64)

    late = rng.random(rows) < 0.0027
    extra = rng.choice(np.array([1, 3, 7]), rows, p=[0.7, 0.2, 0.1]) * SECOND
    dropped = late & (rng.random(rows) < 0.5)
    departure = arrival + response + np.where(late & ~dropped, extra, 0)
    sent = arrival - rng.integers(50_000, 200_000, rows) - np.where(dropped, extra, 0)

    for begin in range(0, length, 5 * SECOND):
        stalled, until = rng.integers(0, len(SERVERS)), begin + rng.integers(SECOND // 10, SECOND // 2)
        low, high = np.searchsorted(arrival, [begin, until])
        held = (server[low:high] == stalled) & (departure[low:high] < until)
        wait = until + rng.integers(0, SECOND // 50, high - low)
        departure[low:high] = np.where(held, wait, departure[low:high])

    order = np.argsort(departure, kind="stable")
    offset = BEGIN + part * length
    names = pa.DictionaryArray.from_arrays(pa.array(server[order]), pa.array(SERVERS))
    drops = np.where(dropped, np.minimum(extra // SECOND, 3), 0).astype(np.uint8)
    columns = {"server": names, "sent": sent, "arrival": arrival, "departure": departure}
    times = {name: pa.array(values[order] + offset) for name, values in columns.items() if name != "server"}
    fields = [pa.field("server", names.type, nullable=False)]
    fields += [pa.field(name, pa.int64(), nullable=False) for name in times]
    fields += [pa.field("drops", pa.uint8(), nullable=False)]
    return pa.table([names, *times.values(), pa.array(drops[order])], schema=pa.schema(fields))


def write(folder: Path, part: int, rows: int) -> None:
    pq.write_table(
        visits(part, rows),
        folder / f"visits-{part:03}.parquet",
        row_group_size=ROW_GROUP,
        use_dictionary=["server"],
        column_encoding=dict.fromkeys(("sent", "arrival", "departure"), "DELTA_BINARY_PACKED"),
        compression="zstd",
        compression_level=1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--rows", type=int, default=5_000_000, help="per file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="files made at a time, 1 GB each")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        parts = range(options.files)
        list(pool.map(write, [options.folder] * options.files, parts, [options.rows] * options.files))


if __name__ == "__main__":
    main()
