"""All interactions of an experiment: RUBBoS's with the file's changes, and the file's own."""

from __future__ import annotations

from tailrace.experiment import rubbos
from tailrace.experiment.interactions import Interaction
from tailrace.experiment.model import Experiment


def interactions(experiment: Experiment) -> dict[str, Interaction]:
    tables = rubbos.interactions(experiment.rubbos)
    for name, own in experiment.interactions.items():
        table = tables.get(name, {})
        changes = own.model_dump(mode="json", by_alias=True, exclude_unset=True)
        at = dict(table.get("at", {}))
        for place, work in changes.pop("at", {}).items():
            at[place] = {**at.get(place, {}), **work}
        tables[name] = {**table, **changes, "at": at}
    return {name: Interaction.model_validate(table) for name, table in tables.items()}
