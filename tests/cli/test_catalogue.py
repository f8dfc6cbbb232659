"""`misstep catalogue`, over the catalogue as it is."""

from __future__ import annotations

import json

import pytest

from misstep.catalogue import missteps
from misstep.report import pages


def test_the_list_names_each(run):
    code, out, _ = run("catalogue")
    assert code == 0 and all(m.id in out for m in missteps() if m.status != "retired")


@pytest.mark.parametrize("id", [m.id for m in missteps()])
def test_each_page(run, id: str):
    code, out, _ = run("catalogue", id)
    assert code == 0 and id in out and "What it is" in out and "Known misses" in out
    assert max(map(len, out.splitlines())) <= 100


def test_unknown(run):
    code, out, err = run("catalogue", missteps()[0].id[:-1])
    assert code == 2 and f"did you mean '{missteps()[0].id}'?" in err and err.count("\n") == 1 and out == ""


def test_an_example_that_fires_and_one_that_does_not(run, catalogue, monkeypatch, tmp_path):
    code, out, _ = run("catalogue", "bad-word")
    assert code == 0 and "Policy bad-word" in out and "denies before the call, once" in out


def test_markdown(run, monkeypatch, tmp_path):
    first = missteps()[0].id
    labels = {first: {"n": 40, "right": 38, "unclear": 1}}
    monkeypatch.setattr(pages, "precisions", lambda: {k: pages.Precision(**v) for k, v in labels.items()})
    code, out, _ = run("catalogue", "--markdown")
    assert code == 0 and out.startswith("<!-- Made by") and out.endswith("\n")
    row = next(line for line in out.splitlines() if line.startswith(f"| [{first}]"))
    assert "| 0.95 | 0.83 to 0.99 | 40 (1 unclear) |" in row
    assert all(f"\n## {m.id}\n" in out for m in missteps() if m.status != "retired")
    assert out.count("```") % 2 == 0


def test_labels_that_are_not_shipped_are_not_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(pages.resources, "files", lambda name: tmp_path)
    assert pages.precisions() == {}
    (tmp_path / "precision.json").write_text(
        json.dumps({"a": {"n": 0, "right": 0}, "b": {"n": 3, "right": 3}, "note": "x"})
    )
    known = pages.precisions()
    assert known["a"].share is None and known["a"].interval() is None
    assert known["b"].share == 1.0 and known["b"].interval() == pytest.approx((0.292, 1.0), abs=1e-3)
