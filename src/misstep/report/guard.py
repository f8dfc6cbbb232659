"""The guard's log as one self-contained page: nothing in it is executed, nothing is loaded."""

from __future__ import annotations

import time
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from misstep.guard.journal import Firing, Log

_STYLE = """
:root{color-scheme:light dark;--fg:#1d1d1f;--bg:#fff;--soft:#6b6b70;--line:#d9d9de;--deny:#b3261e;--tell:#8a5a00;--quiet:#4a4a50}
@media(prefers-color-scheme:dark){:root{--fg:#e6e6ea;--bg:#16161a;--soft:#9a9aa2;--line:#34343a;--deny:#ff8a80;--tell:#ffca6b;--quiet:#b8b8c0}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}summary{cursor:pointer;padding:.4rem 0;border-top:1px solid var(--line)}
.soft{color:var(--soft)}.firing{margin:.6rem 0 1rem 1rem;padding-left:.8rem;border-left:3px solid var(--line)}
.deny{border-color:var(--deny)}.instruct{border-color:var(--tell)}
code,pre{font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:5rem 1fr;gap:.2rem .8rem;margin:.4rem 0}dt{color:var(--soft)}dd{margin:0}
.told{color:var(--quiet)}
"""


def page(logs: Iterable[Log], made: float) -> str:
    """The HTML of the sessions' logs, in the order given. made: seconds since the epoch."""
    sessions = [_session(log) for log in logs]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(made))
    body = "\n".join(sessions) or "<p>No session was guarded yet.</p>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>What the guard did</title><style>{_STYLE}</style></head><body>\n"
        f'<h1>What the guard did</h1><p class="soft">{len(sessions)} sessions, {when}</p>\n{body}\n</body></html>\n'
    )


def _session(log: Log) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(log.started)) if log.started else ""
    name = f"{log.session}/{log.agent}" if log.agent else log.session
    acted = sum(1 for f in log.firings if f.record.get("action"))
    head = f"{when} <b>{_text(log.host)}</b> <code>{_text(name)}</code> "
    head += (
        f'<span class="soft">{log.counts.get("before", 0)} calls, {len(log.firings)} fired, {acted} intervened</span>'
    )
    parts = [f"<details{' open' if log.firings else ''}><summary>{head}</summary>"]
    if log.eligible:
        parts.append(
            "<dl>"
            + "".join(f"<dt>eligible</dt><dd>{_text(p)}: {_text(w)}</dd>" for p, w in log.eligible.items())
            + "</dl>"
        )
    parts += [_firing(f) for f in log.firings]
    parts += [f'<p class="soft">{_text(note)}</p>' for note in log.notes]
    return "".join([*parts, "</details>"])


def _firing(firing: Firing) -> str:
    record = firing.record
    action = str(record.get("action") or "")
    done = {"deny": "denied", "instruct": "instructed"}.get(
        action
    ) or f"nothing done ({_text(record.get('held') or '')})"
    names = ", ".join(_text(r.get("policy")) + ("" if r.get("fired") else " (held back)") for r in firing.policies)
    rows = [("at", event(firing.event))]
    if record.get("text"):
        rows.append(("told", str(record["text"])))
    rows += [("then", event(line)) for line in firing.next]
    inner = "".join(f'<dt>{k}</dt><dd class="{k}"><code>{_text(v)}</code></dd>' for k, v in rows)
    kind = action if action in ("deny", "instruct") else ""
    return f'<div class="firing {kind}"><b>#{_text(record.get("at"))} {names}</b>: {done}<dl>{inner}</dl></div>'


def event(line: dict[str, Any]) -> str:
    """A record of the log in words."""
    kind = line.get("e", "")
    given = line.get("input")
    what = ""
    if isinstance(given, dict):
        what = str(given.get("command") or given.get("file_path") or given)
    if kind == "before":
        return f"{line.get('tool')}: {what}"
    if kind == "after":
        result = line.get("result") or {}
        how = (
            "failed" if result.get("failed") else f"exit {result['exit']}" if result.get("exit") is not None else "done"
        )
        return f"result of {line.get('tool')}: {what} -> {how}"
    if kind == "stop":
        return f"stop: {line.get('message', '')}"
    if kind == "prompt":
        return f"{'own text' if line.get('own') else 'prompt'}: {line.get('text', '')}"
    return str({k: v for k, v in line.items() if k != "t"})


def _text(value: Any) -> str:
    """Escaped, harmless, credentials left out, at most 2,000 characters."""
    from misstep.scan.redact import redact

    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in redact(str(value)[:8000]))
    return escape(plain if len(plain) <= 2000 else plain[:1997] + "...")
