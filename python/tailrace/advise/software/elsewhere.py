"""Changes that most software has no setting for, and which software has one."""

from __future__ import annotations

from tailrace.advise.software.steps import Step

EWMA = (
    "Peak EWMA is a setting of ingress-nginx (annotation load-balance: ewma), and Linkerd and Finagle balance so by "
    "default; HAProxy, mod_jk, mod_proxy and nginx itself do not have it, and least connections comes nearest there."
)
PREQUAL = (
    "No software that Tailrace knows has Prequal's probes as a setting; the better of two random candidates by their "
    "requests in flight comes nearest (nginx: random two least_conn, Envoy: LEAST_REQUEST)."
)
POLICIES = {"peak_ewma": EWMA, "prequal": PREQUAL}
PRIORITY = (
    "Of the software that Tailrace knows, only HAProxy serves queued requests by priority (http-request "
    "set-priority-class, since 1.9); elsewhere it takes a change of code."
)
NEWEST = "No software that Tailrace knows serves the newest request first by a setting: it takes a change of code."

SILENCE = (
    "Tailrace knows no setting of this software for clients that send nothing: nginx, HAProxy or Apache's event MPM "
    "before it reads whole requests without holding one of its workers."
)


def sentence(step: Step) -> str:
    """Empty where there is nothing to say."""
    match step.what:
        case "policy":
            return POLICIES.get(step.then, "")
        case "silence":
            return SILENCE
        case "priority":
            return PRIORITY
        case "order":
            return NEWEST if step.then == "newest" else PRIORITY
    return ""
