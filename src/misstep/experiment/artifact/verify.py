"""`verify`: an artifact against its manifest, its lock, its schedule and lineage, and every number against the records."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import isclose
from pathlib import Path, PurePosixPath
from typing import Any

from misstep.experiment import records
from misstep.experiment.analysis import Analysis, analyse
from misstep.experiment.artifact.export import (
    ANALYSIS,
    MANIFEST,
    MARKERS,
    README,
    REPORT,
    SCHEMA,
    VERSION,
    ArtifactError,
    Render,
    place,
    readme,
)
from misstep.experiment.artifact.tables import csv_files
from misstep.experiment.attempts import Attempt, fair, read_attempts
from misstep.experiment.plan import lock
from misstep.experiment.plan.design import Design
from misstep.experiment.plan.schedule import Slot, read_schedule, schedule
from misstep.experiment.runs import archive
from misstep.experiment.runs.replacement import decided


@dataclass(slots=True)
class Verified:
    """What a check found. problem: '' where all holds, else one line that names the first thing that does not."""

    problem: str = ""
    files: int = 0
    attempts: int = 0
    numbers: int = 0
    """Of analysis.json that were computed again."""
    sha256: str = ""
    """Of the manifest."""
    locked: bool = False
    """There is a lock: design, schedule and lineage were held against it."""
    notes: list[str] = field(default_factory=list)
    """What could not be checked, and why."""


def verify(folder: Path, render: Render | None = None) -> Verified:
    """Check an artifact. render: as at export; without it report.html is held against its hash alone.

    Raises:
        ArtifactError: the folder is no artifact.
    """
    manifest = _manifest(folder)
    result = Verified(sha256=hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest())
    try:
        result.problem = next(_problems(folder, manifest, render, result), "")
    except (*records.ERRORS, archive.ArchiveError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        odd = isinstance(error, KeyError | TypeError | AttributeError)
        text = (
            f"a file has another shape than expected: {type(error).__name__}: {error}"
            if odd
            else (f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error))
        )
        result.problem = text.replace(f"{folder}/", "")
    return result


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}; expected an artifact (misstep panel export)") from None
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: not JSON: {error}") from None
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        raise ArtifactError(f"{path}: not a manifest (expected schema {SCHEMA!r})")
    if given.get("version") != VERSION:
        raise ArtifactError(f"{path}: version {given.get('version')!r}; this misstep reads {VERSION}")
    for key, kind in (("files", dict), ("options", dict), ("redacted", list), ("left_out", dict)):
        if not isinstance(given.get(key), kind):
            raise ArtifactError(f"{path}: {key}: missing, or of another kind than expected")
    return given


def _problems(folder: Path, manifest: dict[str, Any], render: Render | None, result: Verified) -> Iterator[str]:
    yield from _hashes(folder, manifest, result)
    redacted = set(manifest["redacted"])
    for name in sorted(redacted):
        against = ", so that its hash cannot be held against the lock" if name not in _FREE else ""
        if not name.startswith(f"{archive.TRIALS}/"):
            result.notes.append(f"{name}: redacted{against}")
    result.notes += [f"{name}: not in the artifact: {why}" for name, why in manifest["left_out"].items()]
    attempts = read_attempts(folder / records.ATTEMPTS)
    result.attempts = len(attempts)
    yield from _candidates(attempts)
    design = plan = None
    if (folder / lock.LOCK).exists():
        locked = lock.read_lock(folder / lock.LOCK)
        yield from _locked(folder, locked, redacted)
        design = Design.load(folder / lock.DESIGN, folder)
        slots = read_schedule(folder / lock.SCHEDULE)
        yield from _schedule(locked, slots)
        yield from _slots(attempts, slots)
        idle = len({slot.key for slot in slots} - {attempt.slot for attempt in attempts})
        if idle:
            result.notes.append(f"{idle:,} of {len(slots):,} slots have not run")
        if (folder / archive.LINEAGE).exists():
            yield from _lineage(attempts, list(archive.read_lineage(folder / archive.LINEAGE)), design)
        elif attempts:
            yield f"{archive.LINEAGE}: missing beside a lock: nothing says which candidate was kept, and why"
        plan = records.plan_of(lock.Panel(folder, locked, design, tuple(slots)))
        yield from _sources(folder, locked, redacted, manifest["left_out"])
        result.locked = True
    else:
        result.notes.append("there is no lock: nothing says what was planned")
        if (folder / lock.DESIGN).exists():
            design = Design.load(folder / lock.DESIGN, folder)
    yield from _markers(folder)
    primary = manifest["options"].get("primary")
    analysis = analyse(
        attempts,
        design,
        plan,
        primary=(str(primary[0]), str(primary[1])) if primary else None,
        cohort=manifest["options"].get("cohort"),
    )
    yield from _numbers(folder, analysis, result)
    yield from _tables(folder, csv_files(analysis, attempts))
    files = [name for name in manifest["files"] if name != README]
    made = readme(analysis, files, redacted)
    yield from _same_text(README, (folder / README).read_text(encoding="utf-8"), made)
    if (folder / REPORT).exists() and render:
        yield from _same_text(REPORT, (folder / REPORT).read_text(encoding="utf-8"), render(analysis.plain()))


def _hashes(folder: Path, manifest: dict[str, Any], result: Verified) -> Iterator[str]:
    files = manifest["files"]
    for name, entry in files.items():
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or not isinstance(entry, dict):
            yield f"{MANIFEST}: {name!r}: no path of an artifact"
            continue
        path = folder / name
        if path.is_symlink() or not path.is_file():
            yield f"{name}: in the manifest, and not in the artifact"
            continue
        data = path.read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if found != entry.get("sha256"):
            yield f"{name}: SHA-256 reported {entry.get('sha256')}, found {found}"
        if len(data) != entry.get("bytes"):
            yield f"{name}: bytes reported {entry.get('bytes')}, found {len(data)}"
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_dir() and name not in files and name != MANIFEST:
            yield f"{name}: not in the manifest"
    for name in (records.ATTEMPTS, ANALYSIS, MARKERS, README):
        if name not in files:
            yield f"{name}: not in the manifest, and every artifact has it"
    result.files = len(files) + 1


# -- what was planned, and what ran --------------------------------------------------------------------------------------


def _locked(folder: Path, locked: Mapping[str, Any], redacted: set[str]) -> Iterator[str]:
    """Design, schedule and portfolio against the hashes of the lock."""
    if not redacted & {lock.DESIGN, lock.LOCK}:
        found = lock.hash_of(Design.load(folder / lock.DESIGN, folder).plain())
        if found != locked["design"]["sha256"]:
            yield f"{lock.DESIGN}: the lock has SHA-256 {locked['design']['sha256']} of its plain form, found {found}"
        if lock.hash_of(locked["design"]["plain"]) != locked["design"]["sha256"]:
            yield f"{lock.LOCK}: design.plain is not what design.sha256 is of"
    found = hashlib.sha256((folder / lock.SCHEDULE).read_bytes()).hexdigest()
    if found != locked["schedule"]:
        yield f"{lock.SCHEDULE}: the lock has SHA-256 {locked['schedule']}, found {found}"
    found = lock.hash_of(json.loads((folder / lock.PORTFOLIO).read_text(encoding="utf-8")))
    if found != locked["portfolio"]:
        yield f"{lock.PORTFOLIO}: the lock has SHA-256 {locked['portfolio']}, found {found}"


def _schedule(locked: Mapping[str, Any], slots: Sequence[Slot]) -> Iterator[str]:
    """The order follows from tasks, arms, attempts and seed."""
    attempts = locked["design"]["plain"].get("attempts")
    due = schedule(sorted(locked["tasks"]), list(locked["arms"]), int(attempts), int(locked["seed"]))
    for at, (one, other) in enumerate(zip_longest(slots, due)):
        if one != other:
            yield f"{lock.SCHEDULE}: slot {at}: reported {_slot(one)}, the seed gives {_slot(other)}"


def _slot(slot: Slot | None) -> str:
    return " / ".join(map(str, slot.key)) if slot else "none"


def _name(attempt: Attempt) -> str:
    return f"{' / '.join(map(str, attempt.slot))}, candidate {attempt.candidate}"


def _by_slot(attempts: Sequence[Attempt]) -> dict[tuple[str, str, int], list[Attempt]]:
    found: dict[tuple[str, str, int], list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.slot, []).append(attempt)
    return {slot: sorted(every, key=lambda a: a.candidate) for slot, every in found.items()}


def _candidates(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Candidates count from 1 without a gap, none is there twice, and none follows an observation."""
    for every in _by_slot(attempts).values():
        for at, attempt in enumerate(every, 1):
            if attempt.candidate != at:
                what = "is there twice" if attempt.candidate < at else f"stands where candidate {at} is expected"
                yield f"{records.ATTEMPTS}: {_name(attempt)} {what}"
                break
        first = next((a for a in every if fair(a)), None)
        if first and every[-1].candidate > first.candidate:
            yield f"{records.ATTEMPTS}: {_name(every[-1])}: there is a fair candidate before it ({first.candidate})"


def _slots(attempts: Sequence[Attempt], slots: Sequence[Slot]) -> Iterator[str]:
    planned = {slot.key for slot in slots}
    for attempt in attempts:
        if attempt.slot not in planned:
            yield f"{records.ATTEMPTS}: {_name(attempt)}: not in the schedule"


def _lineage(attempts: Sequence[Attempt], lines: Sequence[Mapping[str, Any]], design: Design) -> Iterator[str]:
    """Every candidate has the one decision that the rule gives, and nothing is decided about what is not there."""
    known: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for one in lines:
        if one.get("decision") == "dropped":
            continue
        key = (*one["slot"], one.get("candidate"))
        if key in known:
            yield f"{archive.LINEAGE}: {' / '.join(map(str, key))}: decided twice"
        known[key] = one
    for attempt in attempts:
        line = known.pop((*attempt.slot, attempt.candidate), None)
        due = decided(attempt, design.replacement, "").decision
        if line is None:
            yield f"{archive.LINEAGE}: {_name(attempt)}: nothing is decided"
        elif line.get("decision") != due:
            yield f"{archive.LINEAGE}: {_name(attempt)}: reported {line.get('decision')}, the rule gives {due}"
        elif line.get("trial", "") != attempt.trial:
            yield f"{archive.LINEAGE}: {_name(attempt)}: trial reported {line.get('trial')!r}, the attempt has {attempt.trial!r}"
    for key in known:
        yield f"{archive.LINEAGE}: {' / '.join(map(str, key))}: decided, and not in {records.ATTEMPTS}"
    for every in _by_slot(attempts).values():
        if not any(map(fair, every)) and every[-1].candidate > design.replacement.candidates:
            yield f"{records.ATTEMPTS}: {_name(every[-1])}: the rule allows {design.replacement.candidates} candidates"


def _sources(folder: Path, locked: Mapping[str, Any], redacted: set[str], left_out: Mapping[str, str]) -> Iterator[str]:
    """Every source is here as it was locked, or the manifest says why it is not."""
    groups = [("analysis", locked["analysis"]["sources"])]
    groups += [(f"arm {name}", arm["sources"]) for name, arm in locked["arms"].items()]
    for what, hashes in groups:
        for name, sha in hashes.items():
            path = folder / place(name)
            if not path.exists():
                if name not in left_out:
                    yield f"{place(name)}: in the lock ({what}), and not in the artifact"
            elif place(name) not in redacted:
                found = hashlib.sha256(path.read_bytes()).hexdigest()
                if found != sha:
                    yield f"{place(name)}: the lock has SHA-256 {sha} for {what}, found {found}"


def _markers(folder: Path) -> Iterator[str]:
    for name, entry in json.loads((folder / MARKERS).read_text(encoding="utf-8")).items():
        path = folder / place(entry["source"])
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
        if found != entry["sha256"]:
            yield f"{MARKERS}: {name}: SHA-256 of {entry['source']} reported {entry['sha256']}, found {found}"


# -- the numbers ---------------------------------------------------------------------------------------------------------


def _numbers(folder: Path, analysis: Analysis, result: Verified) -> Iterator[str]:
    reported = json.loads((folder / ANALYSIS).read_text(encoding="utf-8"))
    recomputed = json.loads(json.dumps(analysis.plain()))
    for path, one, other in differing(reported, recomputed):
        yield f"{ANALYSIS}: {path}: reported {_shown(one)}, recomputed {_shown(other)}"
    result.numbers = _count(recomputed)


_GONE = object()
_FREE = (records.ATTEMPTS, archive.LINEAGE)
"""Files that no hash of the lock is of."""


def differing(reported: Any, recomputed: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: path, one, other. Numbers may differ by 1e-9 of themselves (another processor's sine)."""
    if isinstance(reported, dict) and isinstance(recomputed, dict):
        for key in dict.fromkeys((*recomputed, *reported)):
            where = f"{path}.{key}" if path else str(key)
            yield from differing(reported.get(key, _GONE), recomputed.get(key, _GONE), where)
    elif isinstance(reported, list) and isinstance(recomputed, list):
        for at, (one, other) in enumerate(zip_longest(reported, recomputed, fillvalue=_GONE)):
            yield from differing(one, other, f"{path}[{at}]")
    elif _is_number(reported) and _is_number(recomputed):
        if not isclose(reported, recomputed, rel_tol=1e-9, abs_tol=1e-12):
            yield path, reported, recomputed
    elif type(reported) is not type(recomputed) or reported != recomputed:
        yield path, reported, recomputed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is _GONE:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    if isinstance(value, list):
        return sum(map(_count, value))
    return int(_is_number(value))


def _tables(folder: Path, tables: Mapping[str, str]) -> Iterator[str]:
    """The CSV files, cell by cell."""
    found = {path.name for path in (folder / "analysis").glob("*.csv")}
    for name in sorted(found | tables.keys()):
        if name not in found or name not in tables:
            yield f"analysis/{name}: {'missing' if name not in found else 'not a table of this analysis'}"
            continue
        reported = (folder / "analysis" / name).read_bytes().decode("utf-8", "replace")
        if reported == tables[name]:
            continue
        rows = [list(csv.reader(io.StringIO(text, newline=""))) for text in (reported, tables[name])]
        for number, (one, other) in enumerate(zip_longest(*rows, fillvalue=[]), 1):
            for column, (a, b) in enumerate(zip_longest(one, other, fillvalue="")):
                if a != b and not _close(a, b):
                    head = rows[1][0][column] if column < len(rows[1][0]) else str(column)
                    yield f"analysis/{name}: line {number}, {head}: reported {_shown(a)}, recomputed {_shown(b)}"


def _close(a: str, b: str) -> bool:
    try:
        return isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-12)
    except ValueError:
        return False


def _same_text(name: str, reported: str, recomputed: str) -> Iterator[str]:
    for number, (one, other) in enumerate(zip_longest(reported.split("\n"), recomputed.split("\n")), 1):
        if one != other:
            yield f"{name}: line {number}: reported {_shown((one or '').strip())}, recomputed {_shown((other or '').strip())}"
