"""Examines many random systems: draw, simulate, diagnose, judge; on all cores, resumable.

```text
seeds ─ a process each ─▶ results.jsonl   one line a seed, written when the seed is examined: a killed sweep resumes
                              └─▶ results.parquet, summary.json   written when all seeds are examined
```
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from tailrace import untrusted, whole
from tailrace.engines import Mapping, answers
from tailrace.errors import cannot_write
from tailrace.score import papers
from tailrace.score.figures import Score

Row = dict[str, Any]
Progress = Callable[[int, int], None]

CHAINS, GRAPHS, BOTH, PAPERS = "chains", "graphs", "both", "papers"
EXPERIMENTS = Path("experiments")
"""Where the papers' systems are, from the folder of the project."""
LINES, TABLE, SUMMARY = "results.jsonl", "results.parquet", "summary.json"
_COUNTS = tuple(one.name for one in fields(Score) if one.name != "causes")


@dataclass(frozen=True)
class Summary:
    runs: int
    counts: dict[str, int]
    """Sums of the numbers of `Score`."""
    runs_without_vlrt: int
    right_of_runs: float
    """Mean of the share of right VLRT over the runs with VLRT: a system that never recovers counts once."""
    causes: dict[str, dict[str, int]]
    """The sums of the counts of `Score.causes`."""

    def share(self, part: str, of: str = "vlrt") -> float:
        """One count as a share of another; the best possible share where the other is 0."""
        best = 0.0 if part in ("wrong", "causes_false") else 1.0
        return self.counts[part] / self.counts[of] if self.counts[of] else best

    def as_dict(self) -> dict[str, Any]:
        shares = {
            "right_share": self.share("right"),
            "named_share": self.share("named", "removable"),
            "wrong_share": self.share("wrong"),
            "false_share": self.share("causes_false", "causes_told"),
        }
        return {**asdict(self), **shares}


def shape(seed: int, systems: str) -> str:
    """Return the kind of system that a seed draws. For `both`, even seeds draw chains and odd seeds draw graphs. A seed
    therefore draws the same system alone and in a range of seeds."""
    return systems if systems != BOTH else GRAPHS if seed % 2 else CHAINS


def draw(seed: int, systems: str = BOTH, experiments: Path = EXPERIMENTS) -> Row:
    """The experiment of a seed as a table; `experiments` is where the papers' systems are."""
    from tailrace.score import drawing, graphs

    drawn = shape(seed, systems)
    if drawn == PAPERS:
        return papers.draw(seed, experiments)
    if drawn == GRAPHS:
        return graphs.draw(seed)
    return drawing.draw(seed)


def examine(seed: int, systems: str = BOTH, thin: bool = False, experiments: Path = EXPERIMENTS) -> Row:
    """One seed: the score of the system that it draws; `thin` makes its recording as poor as a real one."""
    return _examined(seed, systems, thin, draw(seed, systems, experiments))


def examine_there(task: tuple[int, tuple[str, int, str, bool, Row]]) -> tuple[int, Row]:
    """What a worker of a cluster does. It gets the system, because the papers' experiments may not be there."""
    number, (_, seed, systems, thin, table) = task
    return number, _examined(seed, systems, thin, table)


def _examined(seed: int, systems: str, thin: bool, table: Row) -> Row:
    from tailrace import sim
    from tailrace.dataset import Dataset
    from tailrace.diagnosis import diagnose
    from tailrace.diagnosis.serialise import as_dict
    from tailrace.experiment import from_table
    from tailrace.score import judging, thinning

    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        made = Path(folder) / "run"
        sim.simulate(from_table(table, f"seed {seed}"), made)
        run, thinned = Dataset.open(made), ""
        if thin:
            thinned = thinning.thin(run, Path(folder) / "thin", seed)
            run = Dataset.open(Path(folder) / "thin")
        found = judging.by_removing(run, as_dict(diagnose(run)), made, table)
    return {"seed": seed, "systems": shape(seed, systems), "thinned": thinned, **found.as_dict()}


def sweep(
    seeds: Iterable[int],
    out: str | PathLike[str] | None = None,
    *,
    systems: str = BOTH,
    thin: bool = False,
    experiments: Path = EXPERIMENTS,
    processes: int = 0,
    cluster: Mapping | None = None,
    progress: Progress | None = None,
) -> tuple[Row, ...]:
    """Examine every seed, and return the rows in the order of seeds. Seeds with a row in the folder `out` are not
    examined again. A `cluster`'s workers examine instead of this machine's processes."""
    if systems == PAPERS:
        papers.find(experiments)
    wanted = list(dict.fromkeys(seeds))
    lines = None if out is None else Path(out) / LINES
    done = {row["seed"]: row for row in _earlier(lines) if _is_one(row, systems, thin) and row["seed"] in wanted}
    left = [seed for seed in wanted if seed not in done]
    if cluster is None:
        made = _here(left, systems, thin, experiments, processes)
    else:
        tasks = [(f"seed {seed}", seed, systems, thin, draw(seed, systems, experiments)) for seed in left]
        made = (row for _, row in answers(cluster, examine_there, tasks))
    for row in made:
        done[row["seed"]] = row
        _append(lines, row)
        if progress is not None:
            progress(len(done), len(wanted))
    rows = tuple(done[seed] for seed in sorted(wanted))
    if out is not None:
        _write(Path(out), rows)
    return rows


def _here(seeds: list[int], systems: str, thin: bool, experiments: Path, processes: int) -> Iterator[Row]:
    with ProcessPoolExecutor(processes or os.cpu_count(), multiprocessing.get_context("spawn"), _alone) as pool:
        for future in as_completed([pool.submit(examine, seed, systems, thin, experiments) for seed in seeds]):
            yield future.result()


def _is_one(row: Row, systems: str, thin: bool) -> bool:
    """Whether a line of an earlier sweep has the result that this sweep would compute."""
    known = row.keys() >= {*_COUNTS, "systems", "thinned", "causes"}
    return known and row["systems"] == shape(row["seed"], systems) and bool(row["thinned"]) == thin


def summarise(rows: Iterable[Row]) -> Summary:
    known = tuple(rows)
    causes: dict[str, Counter[str]] = {}
    for row in known:
        for cause, counts in row["causes"].items():
            causes.setdefault(cause, Counter()).update(counts)
    shares = [row["right"] / row["vlrt"] for row in known if row["vlrt"]]
    return Summary(
        runs=len(known),
        counts={name: sum(row[name] for row in known) for name in _COUNTS},
        runs_without_vlrt=sum(row["vlrt"] == 0 for row in known),
        right_of_runs=sum(shares) / len(shares) if shares else 1.0,
        causes={cause: dict(counts) for cause, counts in sorted(causes.items())},
    )


def _alone() -> None:
    """Each process has one core, so libraries in it start no further threads."""
    os.environ["POLARS_MAX_THREADS"] = "1"


def _earlier(lines: Path | None) -> list[Row]:
    if lines is None or not untrusted.regular(lines):
        return []
    # The last line may be incomplete if the sweep was killed.
    ended = untrusted.read_inside(lines).split("\n")[:-1]
    rows = [
        untrusted.parse_json(line, lines, "name a folder to create, or one of an earlier examination") for line in ended
    ]
    whole.write(lines, "".join(f"{line}\n" for line in ended).encode())
    return [row for row in rows if isinstance(row, dict)]


def _append(lines: Path | None, row: Row) -> None:
    if lines is None:
        return
    try:
        lines.parent.mkdir(parents=True, exist_ok=True)
        with lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise cannot_write(lines, error) from error


def _write(out: Path, rows: tuple[Row, ...]) -> None:
    import polars as pl

    summary = summarise(rows)
    table = pl.DataFrame([{name: row[name] for name in ("seed", "systems", "thinned", *_COUNTS)} for row in rows])
    with whole.replacing(out / TABLE) as file:
        table.write_parquet(file)
    whole.write(out / SUMMARY, (json.dumps(summary.as_dict(), indent=2) + "\n").encode())
