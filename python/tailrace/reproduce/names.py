"""The papers' names of servers, by their programs: Apache, Tomcat1, MySQL."""

from __future__ import annotations

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
    entry = places.entries(experiment)[0]
    for name in (entry, *places.behind(experiment, [entry])):
        tier = experiment.tiers[name]
        program = PROGRAMS.get(tier.software or "")
        if program and not any(shown.startswith(program) for shown in found.values()):
            servers = places.server_names(name, tier)
            found |= dict(zip(servers, places.numbered(program, len(servers)), strict=True))
    return found
