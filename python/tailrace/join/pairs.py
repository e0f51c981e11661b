"""Which rows of two hosts are the same visit, or the same loss.

Two rows are a pair if each is the other's nearest in time among rows that look alike. Rows that are left over are
paired again, because their nearest may have been taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

ALIKE = ("server", "bytes_in", "bytes_out", "status")
"""Both ends count the same bytes. Names of interactions may differ, because each host folds what it saw."""
ROUNDS = 4


def paired(ours: pl.DataFrame, theirs: pl.DataFrame, within: int) -> pl.DataFrame:
    """Pairs of visits, with the columns of `theirs` as `…_other`; the times of both are on one clock."""
    columns = ("visit", *ALIKE, "arrival", "departure")
    found = nearest(ours.select(columns), theirs.select(columns), ALIKE, "departure", within, key="visit")
    # Both ends see a visit begin and end within the delay of the network.
    return found.filter((pl.col("arrival") - pl.col("arrival_other")).abs() <= within)


def nearest(
    ours: pl.DataFrame, theirs: pl.DataFrame, by: Sequence[str], time: str, within: int, key: str
) -> pl.DataFrame:
    """Pairs of rows that are each other's nearest in `time` among those with equal `by`, the unknown included."""
    left, right = ours.sort(time), theirs.sort(time)
    found = [pl.DataFrame(schema={key: ours.schema[key], f"{key}_other": theirs.schema[key]})]
    for _ in range(ROUNDS):
        there = _toward(left, right, by, time, within, key)
        back = _toward(right, left, by, time, within, key).rename({key: f"{key}_other", f"{key}_other": key})
        mutual = there.join(back, on=[key, f"{key}_other"], how="inner")
        if not mutual.height:
            break
        found.append(mutual)
        left = left.join(mutual, on=key, how="anti", maintain_order="left")
        right = right.join(mutual, left_on=key, right_on=f"{key}_other", how="anti", maintain_order="left")
    both = pl.concat(found).join(ours, on=key, how="left")
    other = theirs.drop(by).rename(lambda name: f"{name}_other")
    return both.join(other, on=f"{key}_other", how="left")


def _toward(
    left: pl.DataFrame, right: pl.DataFrame, by: Sequence[str], time: str, within: int, key: str
) -> pl.DataFrame:
    """For each row of `left`, the nearest of `right`. A join takes null for unequal, so null becomes a value."""
    known = [pl.col(name).cast(pl.String).fill_null("\0").alias(name) for name in by]
    other = right.select(*known, pl.col(time), pl.col(key).alias(f"{key}_other"))
    ours = left.select(*known, time, key)
    joined = ours.join_asof(other, on=time, by=list(by), strategy="nearest", tolerance=within, check_sortedness=False)
    return joined.select(key, f"{key}_other").drop_nulls()
