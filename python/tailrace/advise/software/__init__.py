"""The lines to change, by server software, one a file. To add one, write the file with its `NAME`, `TITLE` and `lines`,
its line in SOFTWARE, and its golden text (`make golden`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tailrace.advise.software import (
    apache,
    elsewhere,
    envoy,
    gunicorn,
    haproxy,
    hikaricp,
    jvm,
    kubernetes,
    linux,
    mod_jk,
    mod_proxy,
    mysql,
    nginx,
    node,
    pgbouncer,
    php_fpm,
    postgresql,
    puma,
    systemd,
    tomcat,
    uvicorn,
    uwsgi,
)
from tailrace.advise.software.steps import Line, Step, steps
from tailrace.errors import UsageError
from tailrace.experiment import Experiment
from tailrace.experiment.tiers import Tier
from tailrace.toml import wrong_name
from tailrace.twin.origins import ASSUMED

__all__ = ["SOFTWARE", "Line", "Step", "chosen", "lacking", "lines", "nowhere", "of_step"]

SOFTWARE: dict[str, Callable[[Step], Iterator[Line]]] = {
    one.NAME: one.lines
    for one in (
        *(apache, mod_jk, mod_proxy, nginx, haproxy, envoy, tomcat, hikaricp, gunicorn, uwsgi, uvicorn, php_fpm),
        *(puma, node, mysql, postgresql, pgbouncer, systemd, kubernetes, linux, jvm),
    )
}
OF_EXPERIMENT = "seen in the experiment"
MACHINE = ("systemd", "linux")
"""What every server runs on, unless the user says otherwise."""
OF_PAPERS = {
    "apache": ("apache", "mod_jk"),
    "nginx": ("nginx",),
    "tomcat": ("tomcat", "jvm"),
    "xtomcat": ("tomcat", "jvm"),
    "haproxy": ("haproxy",),
    "mysql": ("mysql",),
    "xmysql": ("mysql",),
}
"""By the software of a tier in an experiment."""
NAMED: dict[str, Sequence[str]] = {
    **dict.fromkeys(("proxysql", "maxscale", "tidb", "vitess", "cockroach", "-yb-", "traefik", "caddy"), ()),
    **{name: (name,) for name in ("nginx", "haproxy", "envoy", "gunicorn", "uwsgi", "uvicorn", "puma", "pgbouncer")},
    "bouncer": ("pgbouncer",),
    "openresty": ("nginx",),
    "tengine": ("nginx",),
    "tomcat": ("tomcat", "jvm"),
    "coyote": ("tomcat", "jvm"),
    "apache": ("apache",),
    "httpd": ("apache",),
    "php": ("php-fpm",),
    "node": ("node",),
    "express": ("node",),
    "next.js": ("node",),
    "mysql": ("mysql",),
    "maria": ("mysql",),
    "postgres": ("postgresql",),
    **dict.fromkeys(("java", "jetty", "undertow", "jboss", "wildfly", "servlet"), ("jvm",)),
    "ajp": ("tomcat", "jvm"),
}
"""Parts of the program that a server runs, of its name or of its protocol that tell its software; the first one counts.
Some programs have no lines here."""
FORWARDERS = ("docker-proxy", "rootlessport", "conmon", "ssh")
"""Programs that listen for another one."""


def chosen(
    experiment: Experiment,
    given: Mapping[str, str],
    protocols: Mapping[str, str],
    programs: Mapping[str, str] | None = None,
) -> dict[str, Sequence[str]]:
    """The software of each tier: as `given` (`app=tomcat,hikaricp`), else by the experiment (its `software` or `runs`),
    else by the program that the recording names, else by what its name or its protocol contains, else by what it calls:
    only Apache speaks AJP to others. Raises UsageError for unknown names."""
    for tier, names in given.items():
        if tier not in experiment.tiers:
            raise UsageError(wrong_name(f"--software {tier}={names}: tier", tier, experiment.tiers, "tier"))
        for name in names.split(","):
            if name not in SOFTWARE:
                raise UsageError(wrong_name(f"--software {tier}: software", name, SOFTWARE, "software"))
    return {
        name: given[name].split(",") if name in given else _guessed(experiment, name, protocols, programs or {})
        for name in experiment.tiers
    }


def _guessed(
    experiment: Experiment, name: str, protocols: Mapping[str, str], programs: Mapping[str, str]
) -> Sequence[str]:
    tier = experiment.tiers[name]
    if tier.software in OF_PAPERS:
        return OF_PAPERS[tier.software]
    if tier.runs:
        return tuple(one for one in tier.runs if one in SOFTWARE)
    program = programs.get(name, "")
    program = "" if program in FORWARDERS else program
    protocol = "" if program or _pools(tier, name, protocols) else protocols.get(name, "")
    for words in (program, name, protocol):
        found = next((found for part, found in NAMED.items() if part in words.lower()), None)
        if found is not None:
            return (*found, "mod_jk") if found == ("apache",) and _speaks_ajp(tier, protocols) else found
    return OF_PAPERS["apache"] if _speaks_ajp(tier, protocols) else ()


def _pools(tier: Tier, name: str, protocols: Mapping[str, str]) -> bool:
    """Whether it is no database: it calls others by its own protocol, as a pool of connections does."""
    return any(protocols.get(callee) == protocols.get(name) for callee in tier.calls)


def _speaks_ajp(tier: Tier, protocols: Mapping[str, str]) -> bool:
    return any(protocols.get(callee) == "ajp" for callee in tier.calls)


def lines(
    before: Experiment,
    after: Experiment,
    software: Mapping[str, Sequence[str]],
    origins: Mapping[str, str] | None = None,
) -> list[Line]:
    """All lines that make of the servers of one experiment those of the other. `origins` says where values of a twin
    come from, by key; None: all are those of an experiment."""
    found: list[Line] = []
    for step in steps(before, after):
        known = OF_EXPERIMENT if origins is None else origins.get(step.key, ASSUMED)
        own = software.get(step.tier, ())
        of_machine = [] if "kubernetes" in own else [name for name in MACHINE if name not in own]
        for name in (*own, *of_machine):
            found += [replace(line, known=known) if line.now else line for line in of_step(name, step)]
    return list(dict.fromkeys(found))


def nowhere(before: Experiment, after: Experiment, software: Mapping[str, Sequence[str]]) -> list[str]:
    """Sentences about changes for which the known software of their tier has no line: which software has one."""
    without = (
        step
        for step in steps(before, after)
        if software.get(step.tier) and not any(of_step(name, step) for name in (*software[step.tier], *MACHINE))
    )
    return list(dict.fromkeys(sentence for step in without if (sentence := elsewhere.sentence(step))))


def lacking(before: Experiment, after: Experiment, software: Mapping[str, Sequence[str]]) -> str:
    """The first tier whose software is not known, and would have lines of its own; empty if there is none."""
    ours = [name for name in SOFTWARE if name not in (*MACHINE, "kubernetes")]
    unknown = (step for step in steps(before, after) if not software.get(step.tier))
    return next((step.tier for step in unknown if any(of_step(name, step) for name in ours)), "")


def of_step(software: str, step: Step) -> list[Line]:
    """The lines that one change needs in one software; none if it has no such setting."""
    return [line for line in SOFTWARE[software](step) if line.now != line.then]
