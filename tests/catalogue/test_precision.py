"""The figures of the catalogue are those of the labels, its statuses follow from them, and its page is current."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from misstep.catalogue import missteps
from misstep.report.pages import markdown, precisions

ROOT = Path(__file__).resolve().parents[2]
ENOUGH, SHARE = 5, 0.8


@pytest.mark.parametrize("misstep", missteps(), ids=lambda m: m.id)
def test_stable_is_what_was_shown_to_be_precise(misstep) -> None:
    checked = precisions().get(misstep.id)
    shown = checked is not None and checked.n >= ENOUGH and checked.right / checked.n >= SHARE
    assert misstep.status == ("stable" if shown else "preview")


def test_the_counts_are_those_of_the_labels() -> None:
    counted: dict[str, dict[str, int]] = {}
    for file in sorted((ROOT / "docs/precision").glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert len({(r["session"], r["event"]) for r in rows}) == len(rows), file.name
        assert {r["label"] for r in rows} <= {"right", "wrong", "unclear"}, file.name
        assert all(r["note"] for r in rows), file.name
        labels = [r["label"] for r in rows]
        counted[file.stem] = {"n": len(rows), "right": labels.count("right"), "unclear": labels.count("unclear")}
    assert counted == json.loads((ROOT / "src/misstep/catalogue/precision.json").read_text(encoding="utf-8"))
    assert set(counted) <= {m.id for m in missteps()}


def test_the_page_is_current() -> None:
    """`make catalogue` writes it anew."""
    assert (ROOT / "docs/catalogue.md").read_text(encoding="utf-8") == markdown(missteps())


def test_a_sample_holds_all_where_there_are_few(tmp_path: Path) -> None:
    scan = tmp_path / "scan.jsonl"
    rows = [{"kind": "header"}]
    for number in range(6):
        found = [{"misstep": "broad-kill", "event": e, "step": e, "why": "", "command": ""} for e in range(5)]
        rows.append(
            {
                "kind": "trajectory",
                "path": f"s{number}.jsonl",
                "n": 0,
                "id": f"session-{number}",
                "agent": "codex",
                "outcome": {"fault": "never-ran", "attempt": ""} if number == 5 else None,
                "occurrences": found,
            }
        )
    scan.write_text("\n".join(map(json.dumps, rows)))

    def sample(n: int) -> list[dict]:
        command = [sys.executable, str(ROOT / "scripts/precision"), "sample", str(scan), "--misstep", "broad-kill"]
        done = subprocess.run([*command, "-n", str(n)], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    assert len(sample(30)) == 25  # all of the five sessions that count
    ten = sample(10)
    assert len(ten) == 10
    assert max(sum(r["show"].startswith(f"s{n}.") for r in ten) for n in range(5)) == 2
    assert ten == sample(10)
