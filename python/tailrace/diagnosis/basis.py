"""A run folder may be made from several inputs: this module names those that each finding rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailrace.dataset import COUNTED, Input
from tailrace.diagnosis.finding import Diagnosis, Episode, Finding, Step
from tailrace.topology import Topology

_STEPS: dict[Step, tuple[str, ...]] = {
    "vlrt": ("responses",),
    "drops": ("losses", "responses"),
    "overflow": ("queues",),
    "millibottleneck": ("resources", "queues"),
    "cause": ("resources", "queues"),
}
"""What a finding of a step rests on. The second counts where no input carries the first about the place."""


def named(diagnosis: Diagnosis, topology: Topology, inputs: Sequence[Input]) -> Diagnosis:
    """Return the diagnosis whose findings have their inputs. With one input, there is nothing to tell apart."""
    if len(inputs) < 2:
        return diagnosis

    def with_inputs(finding: Finding) -> Finding:
        return replace(finding, inputs=_of(finding, topology, inputs))

    def in_episode(episode: Episode) -> Episode:
        first, second, third, fourth, fifth = map(with_inputs, episode.findings)
        return replace(episode, findings=(first, second, third, fourth, fifth))

    return replace(diagnosis, episodes=tuple(map(in_episode, diagnosis.episodes)))


def _of(finding: Finding, topology: Topology, inputs: Sequence[Input]) -> tuple[str, ...]:
    for carried in _STEPS[finding.step]:
        found = [
            one.file for one in inputs if _carries(one, carried) and _is_about(one, carried, finding.place, topology)
        ]
        if found:
            return tuple(dict.fromkeys(found))
    return ()


def _carries(one: Input, step: str) -> bool:
    """Return whether the run folder has what the input carries of the step. Losses of requests and visits that another
    input has are not there."""
    counted = one.carries.get("responses", COUNTED) == COUNTED
    if step == "losses":
        return step in one.carries and (counted or "queues" in one.carries)
    return step in one.carries and (counted or step != "responses")


def _is_about(one: Input, step: str, place: str | None, topology: Topology) -> bool:
    """Return whether the input may show this place. One that does not name what it shows may show any."""
    if place is None or step == "responses":
        return True
    known = (*one.servers, *one.places) if step != "resources" else one.places
    return not known or any(place in _names(topology, name) for name in known)


def _names(topology: Topology, place: str) -> set[str]:
    server, node = topology.place_to_server(place), topology.place_to_node(place)
    on_node = topology.servers_on(node.name) if node else ()
    return {place, *((server.name,) if server else ()), *((node.name,) if node else ()), *(one.name for one in on_node)}
