"""The lines to change, by server software, one a file. To add one, write the file with its `NAME`, `TITLE` and `lines`,
its line in SOFTWARE, and its golden text (`make golden`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tailrace.advise.software import (
    apache,
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
from tailrace.toml import wrong_name

__all__ = ["SOFTWARE", "Line", "Step", "chosen", "lacking", "lines", "of_step"]

SOFTWARE: dict[str, Callable[[Step], Iterator[Line]]] = {
    one.NAME: one.lines
    for one in (
        *(apache, mod_jk, mod_proxy, nginx, haproxy, envoy, tomcat, hikaricp, gunicorn, uwsgi, uvicorn, php_fpm),
        *(puma, node, mysql, postgresql, pgbouncer, systemd, kubernetes, linux, jvm),
    )
}
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
NAMED = {
    **{name: (name,) for name in ("nginx", "haproxy", "envoy", "gunicorn", "uwsgi", "uvicorn", "puma", "pgbouncer")},
    "apache": ("apache",),
    "httpd": ("apache",),
    "tomcat": ("tomcat", "jvm"),
    "php": ("php-fpm",),
    "node": ("node",),
    "mysql": ("mysql",),
    "maria": ("mysql",),
    "postgres": ("postgresql",),
}
"""Parts of a server's name or protocol that tell its software."""


def chosen(experiment: Experiment, given: Mapping[str, str], protocols: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """The software of each tier: as `given` (`app=tomcat,hikaricp`), else by the experiment, else by what its name or
    its protocol contains. Raises UsageError for unknown names."""
    for tier, names in given.items():
        if tier not in experiment.tiers:
            raise UsageError(wrong_name(f"--software {tier}={names}: tier", tier, experiment.tiers, "tier"))
        for name in names.split(","):
            if name not in SOFTWARE:
                raise UsageError(wrong_name(f"--software {tier}: software", name, SOFTWARE, "software"))
    return {
        name: given[name].split(",") if name in given else _guessed(name, tier.software, protocols.get(name))
        for name, tier in experiment.tiers.items()
    }


def _guessed(tier: str, software: str | None, protocol: str | None) -> Sequence[str]:
    if software in OF_PAPERS:
        return OF_PAPERS[software]
    words = f"{tier} {protocol or ''}".lower()
    return next((found for part, found in NAMED.items() if part in words), ())


def lines(before: Experiment, after: Experiment, software: Mapping[str, Sequence[str]]) -> list[Line]:
    """All lines that make of the servers of one experiment those of the other."""
    found: list[Line] = []
    for step in steps(before, after):
        own = software.get(step.tier, ())
        of_machine = [] if "kubernetes" in own else [name for name in MACHINE if name not in own]
        for name in (*own, *of_machine):
            found += of_step(name, step)
    return list(dict.fromkeys(found))


def lacking(before: Experiment, after: Experiment, software: Mapping[str, Sequence[str]]) -> str:
    """The first tier whose software is not known, and would have lines of its own; empty if there is none."""
    ours = [name for name in SOFTWARE if name not in (*MACHINE, "kubernetes")]
    unknown = (step for step in steps(before, after) if not software.get(step.tier))
    return next((step.tier for step in unknown if any(of_step(name, step) for name in ours)), "")


def of_step(software: str, step: Step) -> list[Line]:
    """The lines that one change needs in one software; none if it has no such setting."""
    return [line for line in SOFTWARE[software](step) if line.now != line.then]
