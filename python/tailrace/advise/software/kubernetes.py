"""Kubernetes: resources of a container, replicas, and the kubelet's control of CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.experiment.tiers import Quota
from tailrace.units import exact_duration

NAME, TITLE = "kubernetes", "Kubernetes"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier)
    deployment = f"deployment {step.tier}"
    match step.what:
        case "quota":
            note = "remove it" if step.then is None else "resources.limits of the container"
            yield line(deployment, _limit(step.now), _limit(step.then), note)
            if step.now and step.then and step.now.period != step.then.period:
                period = exact_duration(step.then.period).replace(" ", "")
                yield line("kubelet", "cpuCFSQuotaPeriod: 100ms", f"cpuCFSQuotaPeriod: {period}", "for a whole node")
        case "count":
            yield line(deployment, f"replicas: {step.now}", f"replicas: {step.then}")
        case "cores":
            note = "resources.requests and limits of the container"
            yield line(deployment, f'cpu: "{step.now:g}"', f'cpu: "{step.then:g}"', note)
        case "policy" if step.then == "peak_ewma":
            note = f"annotation of the Ingress of {step.callee}, where its controller is ingress-nginx"
            yield line(f"ingress {step.callee}", "", "nginx.ingress.kubernetes.io/load-balance: ewma", note)
        case "weight" | "pin":
            note = "and whole CPUs as requests and limits: the container gets cores of its own"
            yield line("kubelet", "cpuManagerPolicy: none", "cpuManagerPolicy: static", note)
        case "backlog":
            note = "securityContext of the pod; an unsafe sysctl, which the kubelet must allow"
            yield line(deployment, "", f'sysctls: [{{ name: net.core.somaxconn, value: "{step.then}" }}]', note)


def _limit(quota: Quota | None) -> str:
    return "" if quota is None else f"cpu: {1000 * quota.time / quota.period:.0f}m"
