"""The answer under a cell of a notebook: small, without scripts, in the notebook's own colours."""

from __future__ import annotations

from html import escape

from tailrace.diagnosis.finding import Diagnosis, Episode
from tailrace.foreign import listed
from tailrace.report import words

EPISODES_MAX = 12
SIGNS = {"found": "●", "absent": "○", "unknown": "?"}
CELL = "text-align:left;padding:2px 16px 2px 0"
NUMBER = "text-align:right;padding:2px 16px 2px 0"


def repr_html(diagnosis: Diagnosis) -> str:
    """HTML for `Diagnosis._repr_html_`."""
    parts = [f"<p style='margin:0 0 4px'>{_safe(s)}</p>" for s in diagnosis.answer[1:]]
    if diagnosis.answer:
        parts.insert(0, f"<p style='margin:0 0 4px;font-size:1.15em'><strong>{_safe(diagnosis.answer[0])}</strong></p>")
    part = diagnosis.vlrt / diagnosis.requests if diagnosis.requests else 0.0
    facts = f"{words.count(diagnosis.requests)} requests, {words.count(diagnosis.vlrt)} VLRT ({words.share(part)})"
    if diagnosis.vlrt:
        facts += f", {words.share(diagnosis.explained)} explained"
    parts.append(f"<p style='margin:0 0 8px;opacity:.7'>{_safe(facts)}</p>")
    if diagnosis.summary:
        parts.append(_summary(diagnosis))
    shown = diagnosis.episodes[:EPISODES_MAX]
    parts += [_episode(n, this) for n, this in enumerate(shown, 1)]
    if len(diagnosis.episodes) > len(shown):
        left = len(diagnosis.episodes) - len(shown)
        parts.append(f"<p>… and {_safe(words.plural(left, 'more episode'))}.</p>")
    if diagnosis.unknown:
        items = "".join(f"<li>{_safe(u.what)}. Would settle it: {_safe(u.datum)}</li>" for u in diagnosis.unknown)
        parts.append(f"<details><summary>Not known ({len(diagnosis.unknown)})</summary><ul>{items}</ul></details>")
    return f"<div class='tailrace' style='max-width:60em;line-height:1.45'>{''.join(parts)}</div>"


def _summary(diagnosis: Diagnosis) -> str:
    heads = "".join(f"<th scope='col' style='{CELL}'>{h}</th>" for h in ("Dropped by", "Origin", "Cause", "Overflow"))
    rows = []
    for row in diagnosis.summary:
        cells = (row.dropper or "–", row.origin or "–", words.cause(row.cause), words.CTQO_WORDS[row.ctqo])
        text = "".join(f"<td style='{CELL}'>{_safe(words.name(c))}</td>" for c in cells)
        rows.append(f"<tr>{text}<td style='{NUMBER}'>{words.count(row.vlrt)}</td></tr>")
    head = f"<thead><tr>{heads}<th scope='col' style='{NUMBER}'>VLRT</th></tr></thead>"
    return f"<table style='margin:0 0 8px'>{head}<tbody>{''.join(rows)}</tbody></table>"


def _episode(number: int, this: Episode) -> str:
    findings = "".join(
        f"<li><span title='{f.verdict}'>{SIGNS[f.verdict]}</span> <b>{words.STEP_TITLES[f.step]}</b> "
        f"({f.verdict}): {_safe(f.sentence)}{_safe(' Would settle it: ' + f.missing) if f.missing else ''}"
        f"{_safe(f' (from {listed(f.inputs)})') if f.inputs else ''}</li>"
        for f in this.findings
    )
    replayed = "" if this.ledger is None else f"<p style='margin:0 0 8px'>{_safe(this.ledger.sentence)}</p>"
    title = f"Episode {number}: {words.plural(this.vlrt, 'VLRT', 'VLRT')} at {words.clock(this.begin)}"
    return f"<details><summary>{_safe(title)}</summary><ol style='margin:4px 0 8px'>{findings}</ol>{replayed}</details>"


def _safe(text: str) -> str:
    return escape(words.sentence(text), quote=True)
