"""The artifact of a panel: one folder that others can check without a model (`checking` is what checks it).

    README.md, manifest.json           what it is; SHA-256 and size of every other file
    design.toml, lock.json, schedule.jsonl, portfolio.lock     as they were locked
    attempts.jsonl, lineage.jsonl      every candidate, and every decision about one
    sources/                           the code of arms, markers and analysis, at the hashes of the lock
    markers.json                       the behaviour markers that attempts were read with, and their sources
    analysis/                          analysis.json, every table as CSV, and what the caller adds (report.html)
    schemas/                           JSON schemas of the above
    trials/                            only if asked for: the trials' folders

Credentials are redacted; a file that this changed is named in the manifest, and the lock keeps the hash of what it was.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import misstep
from misstep.catalogue import get
from misstep.experiment import records
from misstep.experiment.analysis import Analysis
from misstep.experiment.artifact import redaction
from misstep.experiment.artifact.schemas import schemas
from misstep.experiment.artifact.tables import csv_files
from misstep.experiment.attempts import Attempt, header, line
from misstep.experiment.plan import lock
from misstep.experiment.runs import archive

SCHEMA, VERSION = "misstep.panel.artifact", 1
MANIFEST, README = "manifest.json", "README.md"
ANALYSIS = "analysis/analysis.json"
REPORT = "analysis/report.html"
MARKERS = "markers.json"
LOCKED = (lock.DESIGN, lock.LOCK, lock.SCHEDULE, lock.PORTFOLIO)

Render = Callable[[Mapping[str, Any]], str]
"""An analysis in its plain form -> the text of report.html."""


class ArtifactError(ValueError):
    """An artifact that cannot be made, or cannot be read: one line."""


@dataclass(slots=True)
class Exported:
    """What was written."""

    folder: Path
    files: int
    sha256: str
    """Of the manifest: what to publish beside the artifact."""
    redacted: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def export(
    panel: Path,
    out: Path,
    *,
    primary: tuple[str, str] | None = None,
    cohort: str | None = None,
    render: Render | None = None,
    trajectories: bool = False,
) -> Exported:
    """Write the artifact of a panel's folder (or of a file of attempts).

    Args:
        primary, cohort: see `analyse`; kept in the manifest, so that a check asks the same.
        render: makes the report's page.
        trajectories: with the trials' folders.

    Raises:
        ArtifactError: `out` is there already, or a credential is where it cannot be left out.
        OSError, records.ERRORS: see `records.read`.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ArtifactError(f"{out}: is there already; expected a new folder")
    found = records.read(panel)
    made = _Files()
    clean = [redaction.attempt_of(one) for one in found.attempts]
    if clean != list(found.attempts):
        made.redacted.append(records.ATTEMPTS)
    analysis = found.analyse(primary, cohort)
    made.text[records.ATTEMPTS] = "".join(f"{one}\n" for one in (header(), *map(line, clean)))
    if panel.is_dir():
        _folder(made, panel)
    _markers(made, clean)
    plain = analysis.plain()
    made.text[ANALYSIS] = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    made.text |= {f"analysis/{name}": text for name, text in csv_files(analysis, clean).items()}
    if render:
        made.text[REPORT] = render(plain)
    made.text |= {f"schemas/{name}": json.dumps(one, indent=1) + "\n" for name, one in schemas().items()}
    if trajectories:
        _trials(made, panel)
    made.text[README] = readme(analysis, made.text, made.redacted)
    return _write(made, out, {"primary": list(primary) if primary else None, "cohort": cohort})


class _Files:
    """What goes in: texts by their path in the artifact."""

    def __init__(self) -> None:
        self.text: dict[str, str] = {}
        self.redacted: list[str] = []
        self.left_out: dict[str, str] = {}

    def add(self, name: str, text: str, clean: str | None = None) -> None:
        """A file, as it is or redacted."""
        self.text[name] = text if clean is None else clean
        if clean is not None and clean != text:
            self.redacted.append(name)


def _folder(made: _Files, panel: Path) -> None:
    """What was locked, and the lineage."""
    for name in LOCKED:
        path = panel / name
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            # A portfolio's words are what its hash is of, and hooks have shown them to the agent already.
            clean = text if name in (lock.PORTFOLIO, lock.SCHEDULE) else redaction.text_of(_as_json(name), text)
            made.add(name, text, clean)
    if lock.DESIGN in made.redacted:
        _parses(made.text[lock.DESIGN], panel / lock.DESIGN)
    lineage = panel / archive.LINEAGE
    if lineage.is_file():
        text = lineage.read_text(encoding="utf-8")
        text = text[: text.rfind("\n") + 1]
        made.add(archive.LINEAGE, text, redaction.text_of(archive.LINEAGE, text))
    if lock.LOCK in made.text:
        locked = lock.read_lock(panel / lock.LOCK)
        hashes = dict(locked["analysis"]["sources"])
        for arm in locked["arms"].values():
            hashes |= arm["sources"]
        base = panel / locked["base"]
        for name, sha in sorted(hashes.items()):
            _source(made, name, sha, base)


def _as_json(name: str) -> str:
    return "lock.json" if name == lock.LOCK else name


def _parses(text: str, path: Path) -> None:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise ArtifactError(
            f"{path}: holds what looks like a credential where it cannot be redacted; write ${{NAME}} and set it in the environment"
        ) from None


def place(name: str) -> str:
    """Where a source of the lock lies in an artifact."""
    parts = ["up" if part == ".." else part for part in PurePosixPath(name).parts if part not in ("/", ".")]
    return "/".join(["sources", *parts])


def _source(made: _Files, name: str, sha: str, base: Path) -> None:
    """A source of the lock, if it is still what it was."""
    own = not name.startswith("misstep/")
    path = base / name if own else lock.PACKAGE.parent / name
    try:
        data = path.read_bytes()
    except OSError as error:
        made.left_out[name] = error.strerror or "cannot be read"
        return
    if hashlib.sha256(data).hexdigest() != sha:
        made.left_out[name] = "changed since the lock was made"
        return
    text = data.decode("utf-8", "surrogateescape")
    made.add(place(name), text, redaction.text_of(name, text) if own else text)


def _markers(made: _Files, attempts: Iterable[Attempt]) -> None:
    """The markers that attempts carry, with the source of each."""
    entries = {}
    for name in sorted({one for attempt in attempts for one in attempt.behaviour}):
        try:
            module = type(get(name)).__module__
        except KeyError:
            made.left_out[f"marker {name}"] = "not in this version's catalogue"
            continue
        source = "/".join(module.split(".")) + ".py"
        path = lock.PACKAGE.parent / source
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        entries[name] = {"source": source, "sha256": sha}
        made.text.setdefault(place(source), path.read_text(encoding="utf-8"))
    made.text[MARKERS] = json.dumps(entries, indent=1) + "\n"


def _trials(made: _Files, panel: Path) -> None:
    """The trials' folders: texts redacted; links and what is no text are left out."""
    root = panel / archive.TRIALS
    for path in sorted(root.rglob("*")) if root.is_dir() else []:
        name = path.relative_to(panel).as_posix()
        if path.is_symlink():
            made.left_out[name] = "a link"
        elif path.is_file():
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                made.left_out[name] = "no text that can be read"
                continue
            made.add(name, text, redaction.text_of(name, text))


def _write(made: _Files, out: Path, options: dict[str, Any]) -> Exported:
    data = {name: text.encode("utf-8", "surrogateescape") for name, text in sorted(made.text.items())}
    manifest = {
        "schema": SCHEMA,
        "version": VERSION,
        "misstep": misstep.__version__,
        "options": options,
        "redacted": sorted(made.redacted),
        "left_out": dict(sorted(made.left_out.items())),
        "files": {
            name: {"sha256": hashlib.sha256(one).hexdigest(), "bytes": len(one)} for name, one in sorted(data.items())
        },
    }
    data[MANIFEST] = (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape")
    part = out.with_name(f".{out.name}.part")
    if part.exists():
        shutil.rmtree(part)
    try:
        for name, one in data.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(one)
        if out.exists():
            out.rmdir()
        part.rename(out)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sha = hashlib.sha256(data[MANIFEST]).hexdigest()
    return Exported(out, len(data), sha, manifest["redacted"], manifest["left_out"])  # type: ignore[arg-type]


_WHAT = {
    "design.toml": "the design, as it was written before anything ran",
    "lock.json": "SHA-256 of the design, the schedule, the tasks, every arm's sources and the analysis code",
    "schedule.jsonl": "every planned attempt in its randomised order; it follows from the lock's seed",
    "portfolio.lock": "the policies, and the words that they say",
    "attempts.jsonl": "one record for every candidate of every planned attempt",
    "lineage.jsonl": "what was decided about each candidate, and why",
    "markers.json": "the behaviour markers, and the source of each",
    "sources/": "the code of arms, markers and analysis",
    "analysis/": "every reported number: analysis.json, the same as CSV, the report's page",
    "schemas/": "a JSON schema of each file",
    "trials/": "the recorded trials",
}


def readme(analysis: Analysis, files: Iterable[str], redacted: Iterable[str]) -> str:
    """The README of an artifact with these files."""
    files = list(files)
    lines = [f"# {analysis.name or 'A panel'}", ""]
    if analysis.simulated:
        lines += [f"**Simulated: {analysis.simulated}. These figures say nothing about any agent.**", ""]
    lines += [analysis.sentence, ""]
    counts = (
        f"{len(analysis.tasks):,} tasks, {len(analysis.arms)} arms, {analysis.observed:,} of {analysis.planned:,} planned "
        "attempts observed."
    )
    lines += [
        counts,
        "",
        "## Check it",
        "",
        "No model and no key is needed:",
        "",
        "    pip install misstep",
        "    misstep panel verify .",
        "",
        "This compares every file with `manifest.json`, the attempts with the schedule and the lineage, and computes every",
        "reported number again from `attempts.jsonl`. It names the first one that differs.",
        "",
        "## What is here",
        "",
        "| file | what it is |",
        "|---|---|",
    ]
    for name, what in _WHAT.items():
        if any(one == name or (name.endswith("/") and one.startswith(name)) for one in files):
            lines.append(f"| `{name}` | {what} |")
    if analysis.limits:
        lines += ["", "## What it cannot say", "", *(f"- {one.text}" for one in analysis.limits)]
    redacted = sorted(redacted)
    if redacted:
        lines += ["", "## Redacted", "", "What looked like a credential was taken out of:", ""]
        lines += [f"- `{name}`" for name in redacted]
    return "\n".join(lines) + "\n"
