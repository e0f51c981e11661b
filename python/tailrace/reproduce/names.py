"""The papers' names of servers, by their programs: Apache, Tomcat1, MySQL."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.experiment import Experiment, places

PROGRAMS = {
    "apache": "Apache",
    "nginx": "Nginx",
    "tomcat": "Tomcat",
    "xtomcat": "XTomcat",
    "cjdbc": "C-JDBC",
    "haproxy": "HAProxy",
    "mysql": "MySQL",
    "xmysql": "XMySQL",
}


def of_papers(experiment: Experiment) -> dict[str, str]:
    """The papers' names of the servers of the first system. A server of another system keeps its own name, because its
    program has the same name, and so does a server whose program the papers do not have."""
    found: dict[str, str] = {}
    for name in _first_system(experiment):
        tier = experiment.tiers[name]
        program = PROGRAMS.get(tier.software or "")
        if program and not any(shown.startswith(program) for shown in found.values()):
            servers = places.server_names(name, tier)
            found |= dict(zip(servers, numbered(program, len(servers)), strict=True))
    return found


def numbered(name: str, count: int) -> list[str]:
    """The name of each of so many servers: Tomcat1, Tomcat2; without a number if there is one."""
    return [name] if count == 1 else [f"{name}{number}" for number in range(1, count + 1)]


def _first_system(experiment: Experiment) -> Iterator[str]:
    """The first tier that clients call, and every tier that it calls, directly or not."""
    reached = [places.entries(experiment)[0]]
    for name in reached:  # grows during the loop
        yield name
        reached += [callee for callee in experiment.tiers[name].calls if callee not in reached]
