"""Tasks, cohorts and the lock: what decides what runs is pinned, and the first thing that differs is named."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from misstep.experiment.plan import lock
from misstep.experiment.plan.design import Design, DesignError
from misstep.experiment.plan.lock import LockError
from misstep.experiment.plan.tasks import Task, assign, digest, harbor_digest, portfolio_of, tasks_of
from misstep.guard.portfolio import from_plain

SERVICE = "Start an HTTP server on port 8080. It must still be running when the work is judged.\n"
PLAIN = "Count the words of /app/text and write the number to /app/count.\n"
DATABASE = "The SQLite database /app/shop.db is corrupt. Recover every row of it into /app/rows.json.\n"


def make_task(folder: Path, name: str, instruction: str = PLAIN) -> Path:
    path = folder / name
    (path / "tests").mkdir(parents=True)
    (path / "environment").mkdir()
    (path / "environment" / "Dockerfile").write_text("FROM debian\n")
    (path / "task.toml").write_text('schema_version = "1.4"\n')
    (path / "instruction.md").write_text(instruction)
    (path / "tests" / "test.sh").write_text("exit 0\n")
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a design, a portfolio, a policy of the user's own and five tasks."""
    for name, text in (("web", SERVICE), ("web-two", SERVICE), ("db", DATABASE), ("count", PLAIN), ("plain", PLAIN)):
        make_task(tmp_path / "tasks", name, text)
    write_design(tmp_path)
    (tmp_path / "portfolio.toml").write_text('[[policy]]\nid = "service-persistence"\n')
    return tmp_path


def write_design(
    folder: Path, cohorts: str = "", arms: str = '["baseline", "real", "sham", "always-verify"]', more: str = ""
) -> Path:
    path = folder / "panel.toml"
    path.write_text(
        f'name = "p"\nseed = 3\narms = {arms}\nportfolio = "portfolio.toml"\n{more}[tasks]\npath = "tasks"\n'
        f'[agent]\nname = "codex"\n[primary]\ncontrast = ["real", "sham"]\n[cohorts]\n{cohorts}\n'
    )
    return path


def locked(place: Path) -> Path:
    out = place / "out"
    lock.write(out, place / "panel.toml", lock.plan(Design.load(place / "panel.toml")))
    return out


# -- tasks and their digests -----------------------------------------------------------------------------------------------


def test_a_digest_is_what_coreutils_computes(tmp_path: Path) -> None:
    path = make_task(tmp_path, "t")
    (path / "tests" / "a b").write_bytes(bytes(range(256)))
    (path / "tests.sh").write_text("sorts before tests/")
    done = subprocess.run(
        "find . -type f | cut -c3- | LC_ALL=C sort | tr '\\n' '\\0' | xargs -0 sha256sum | sha256sum",
        shell=True, cwd=path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert digest(path) == done.stdout.split()[0]


def test_a_digest_sees_every_change_and_nothing_else(tmp_path: Path) -> None:
    path = make_task(tmp_path, "t")
    first = digest(path)
    shutil.copytree(path, tmp_path / "copy")
    assert digest(tmp_path / "copy") == first
    for name in (".git/HEAD", "tests/__pycache__/x.pyc", "x.pyc", ".DS_Store"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("x")
    assert digest(path) == first
    seen = {first}
    (path / "tests" / "more").write_text("")
    seen.add(digest(path))
    (path / "tests" / "more").rename(path / "tests" / "other")
    seen.add(digest(path))
    (path / "tests" / "other").write_text("x")
    seen.add(digest(path))
    (path / "tests" / "other").unlink()
    (path / "tests" / "other").symlink_to("test.sh")
    seen.add(digest(path))
    (path / "tests" / "folder").symlink_to("/")  # not walked
    seen.add(digest(path))
    assert len(seen) == 6


def test_harbors_own_digest(tmp_path: Path) -> None:
    packager = pytest.importorskip("harbor.publisher.packager")
    path = make_task(tmp_path, "t")
    assert harbor_digest(path) == f"sha256:{packager.Packager.compute_content_hash(path)[0]}"


def test_tasks_are_chosen_by_globs(place: Path) -> None:
    def names(lines: str) -> list[str]:
        path = write_design(place)
        path.write_text(path.read_text().replace('path = "tasks"\n', f'path = "tasks"\n{lines}\n'))
        return [task.name for task in tasks_of(Design.load(path))]

    assert names("") == ["count", "db", "plain", "web", "web-two"]
    assert names('include = ["web*", "db"]\nexclude = ["*-two"]') == ["db", "web"]
    for lines, says in (
        ('exclude = ["wbe"]', "tasks.exclude: 'wbe' names no task"),
        ('include = ["x*"]', "none of the 5 tasks is left"),
    ):
        with pytest.raises(DesignError, match=says):
            names(lines)


def test_a_folder_without_tasks(place: Path) -> None:
    shutil.rmtree(place / "tasks")
    with pytest.raises(DesignError, match=r"^tasks.path: .*tasks: No such file"):
        tasks_of(Design.load(place / "panel.toml"))
    (place / "tasks").mkdir()
    with pytest.raises(DesignError, match="no Harbor tasks in it"):
        tasks_of(Design.load(place / "panel.toml"))
    (place / "tasks" / "half").mkdir()
    (place / "tasks" / "half" / "task.toml").write_text("")
    with pytest.raises(DesignError, match=r"half/instruction.md: No such file"):
        tasks_of(Design.load(place / "panel.toml"))


# -- cohorts -----------------------------------------------------------------------------------------------------------------


def cohorts(place: Path, text: str) -> dict[str, str]:
    design = Design.load(write_design(place, text))
    return dict(assign(design, tasks_of(design), from_plain(portfolio_of(design))).cohort)


def test_eligible_is_what_the_portfolio_takes(place: Path) -> None:
    assert cohorts(place, "") == {"web": "eligible", "web-two": "eligible"}
    assert cohorts(place, 'silent = ["plain"]') == {"plain": "silent", "web": "eligible", "web-two": "eligible"}
    assert cohorts(place, 'eligible = ["web"]\ncount = 3') == {
        "count": "silent",
        "db": "silent",
        "plain": "silent",
        "web": "eligible",
    }


def test_silent_tasks_chosen_by_the_seed(place: Path) -> None:
    chosen = {n for n, kind in cohorts(place, "count = 2").items() if kind == "silent"}
    assert len(chosen) == 2
    assert chosen < {"count", "db", "plain"}
    assert chosen == {n for n, kind in cohorts(place, "count = 2").items() if kind == "silent"}
    # more of them contain those there were
    assert chosen < {n for n, kind in cohorts(place, "count = 3").items() if kind == "silent"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('silent = ["wbe"]', "cohorts.silent: expected names of the design's tasks, not 'wbe'"),
        ('eligible = ["wbe"]', "cohorts.eligible: expected names of the design's tasks, not 'wbe'"),
        ('eligible = ["plain"]', "cohorts.eligible: expected tasks that a policy takes, but none takes 'plain'"),
        ("count = 4", "cohorts.count: expected at most 3"),
    ],
)
def test_cohorts_that_cannot_be(place: Path, text: str, says: str) -> None:
    with pytest.raises(DesignError) as caught:
        cohorts(place, text)
    assert str(caught.value).startswith(says)


def test_a_silent_task_that_a_policy_takes_is_seen(place: Path) -> None:
    design = Design.load(write_design(place, 'silent = ["web", "plain"]'))
    assigned = assign(design, tasks_of(design), from_plain(portfolio_of(design)))
    assert assigned.hidden == ["web"]
    assert assigned.cohort == {"plain": "silent", "web": "silent", "web-two": "eligible"}
    assert assigned.unused == ["count", "db"]


def test_a_policy_that_takes_every_task_makes_no_cohort(place: Path) -> None:
    both = '[[policy]]\nid = "service-persistence"\n[[policy]]\nid = "blocking-foreground"\n'
    (place / "portfolio.toml").write_text(both)
    assert cohorts(place, "") == {"web": "eligible", "web-two": "eligible"}
    design = Design.load(place / "panel.toml")
    assigned = assign(design, tasks_of(design), from_plain(portfolio_of(design)))
    assert assigned.everywhere == ("blocking-foreground",)
    assert assigned.eligible["web"] == ("service-persistence", "blocking-foreground")
    assert (assigned.eligible["plain"], assigned.selected("plain")) == (("blocking-foreground",), ())
    (place / "portfolio.toml").write_text('[[policy]]\nid = "blocking-foreground"\n')
    assert set(cohorts(place, "").values()) == {"eligible"}  # nothing selects: every task is its own


def test_a_policy_that_only_observes_makes_no_task_eligible(place: Path) -> None:
    (place / "portfolio.toml").write_text('[[policy]]\nid = "service-persistence"\nmode = "observe"\n')
    with pytest.raises(DesignError, match="no task is eligible"):
        cohorts(place, "")


# -- the lock ------------------------------------------------------------------------------------------------------------------


def test_a_lock_holds_what_the_contract_says(place: Path) -> None:
    write_design(place, "count = 1")
    out = locked(place)
    kept = json.loads((out / "lock.json").read_text())
    assert (kept["schema"], kept["version"], kept["seed"], kept["base"]) == ("misstep.panel.lock", 1, 3, "..")
    assert kept["tasks"]["web"]["digest"] == digest(place / "tasks" / "web")
    assert kept["tasks"]["web"]["eligible"] == ["service-persistence"]
    assert sorted(one["cohort"] for one in kept["tasks"].values()) == ["eligible", "eligible", "silent"]
    assert kept["schedule"] == hashlib.sha256((out / "schedule.jsonl").read_bytes()).hexdigest()
    assert set(kept["arms"]) == {"baseline", "real", "sham", "always-verify"}
    assert len({one["portfolio"] for one in kept["arms"].values()}) == 4
    assert "misstep/guard/always.py" in kept["arms"]["always-verify"]["sources"]
    assert "misstep/catalogue/service_persistence.py" in kept["arms"]["real"]["sources"]
    assert "misstep/stats/paired.py" in kept["analysis"]["sources"]
    assert str(place) not in (out / "lock.json").read_text()
    assert json.loads((out / "portfolio.lock").read_text())["lock"] == 1
    assert (out / "design.toml").read_bytes() == (place / "panel.toml").read_bytes()
    assert lock.verify(out, analysis=True) == ""


def test_two_locks_of_one_design_are_one(place: Path) -> None:
    made = lock.plan(Design.load(place / "panel.toml"))
    assert lock.lock(made, place / "a") == lock.lock(lock.plan(Design.load(place / "panel.toml")), place / "b")


def test_a_panel_is_read_back(place: Path) -> None:
    panel = lock.read(locked(place))
    assert panel.design.where("tasks").resolve() == place / "tasks"
    assert panel.slots == lock.plan(Design.load(place / "panel.toml")).slots
    assert panel.cohort("web") == "eligible"


def test_a_locked_folder_is_not_locked_again(place: Path) -> None:
    locked(place)
    with pytest.raises(LockError, match=r"lock.json: a panel is locked here already"):
        locked(place)


def test_the_portfolio_of_a_panel_is_one_that_a_scored_run_takes(place: Path) -> None:
    from misstep.guard import freeze

    assert freeze.verify(json.loads((locked(place) / "portfolio.lock").read_text())) == ""


def append(path: Path, text: str = "\n# x\n") -> None:
    path.write_text(path.read_text() + text)


OWN = """
from misstep.catalogue.base import Misstep, Policy

class Early(Policy):
    id = "early"
    at = "stop"
    text = "Look again."

    def fires(self, state, event):
        return True

class TooEarly(Misstep):
    id = "too-early"
    name = "stops early"
    scoped = True
    policies = (Early(),)

    def eligible(self, prompt):
        return "words" if "words" in prompt else None
"""


def test_verify_names_the_first_file_that_differs(place: Path) -> None:
    (place / "own.py").write_text(OWN)
    append(place / "portfolio.toml", '[[policy]]\nid = "early"\nfile = "own.py"\n')
    out = locked(place)
    assert lock.verify(out) == ""
    assert json.loads((out / "lock.json").read_text())["arms"]["sham"]["sources"]["own.py"]
    assert "count" in json.loads((out / "lock.json").read_text())["tasks"]
    changes = {
        place / "tasks" / "web" / "tests" / "test.sh": f"{place}/tasks/web changed since the lock was made",
        place / "own.py": "own.py changed since the lock was made",
        out / "portfolio.lock": f"{out}/portfolio.lock: not JSON",
        out / "schedule.jsonl": f"{out}/schedule.jsonl changed since the lock was made",
    }
    for path, says in changes.items():
        before = path.read_text()
        append(path)
        assert lock.verify(out).startswith(says)
        path.write_text(before)
        assert lock.verify(out) == ""
    # all at once: the design comes first
    for path in changes:
        append(path)
    append(out / "design.toml", "count = 1\n")
    assert lock.verify(out) == f"{out}/design.toml changed since the lock was made: cohorts is not as locked"


def test_words_of_a_portfolio_that_changed(place: Path) -> None:
    out = locked(place)
    append(place / "portfolio.toml", 'text = "Look again."\n')
    assert lock.verify(out) == "portfolio.toml: the portfolio of arm baseline changed since the lock was made"
    (place / "portfolio.toml").unlink()
    assert "portfolio.toml: No such file" in lock.verify(out)


def test_a_comment_in_the_design_is_no_change(place: Path) -> None:
    out = locked(place)
    append(out / "design.toml", "# a comment\n")
    assert lock.verify(out) == ""
    assert lock.read(out).design.name == "p"


def test_a_task_that_went_away(place: Path) -> None:
    out = locked(place)
    shutil.rmtree(place / "tasks" / "web")
    assert lock.verify(out) == f"{place}/tasks/web is in the lock, and no longer there"


def test_code_of_the_analysis_that_changed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = locked(place)
    kept = json.loads((out / "lock.json").read_text())
    kept["analysis"]["sources"]["misstep/stats/paired.py"] = "0" * 64
    (out / "lock.json").write_text(json.dumps(kept))
    assert lock.verify(out) == ""
    assert lock.verify(out, analysis=True) == "misstep/stats/paired.py changed since the lock was made"


def test_what_is_read_is_what_was_locked(place: Path) -> None:
    out = locked(place)
    text = (out / "schedule.jsonl").read_text()
    (out / "schedule.jsonl").write_text("\n".join(text.split("\n")[:-2]) + "\n")
    with pytest.raises(LockError, match=r"schedule.jsonl changed since the lock was made"):
        lock.read(out)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "x"}, "not a lock of a panel"),
        ({"version": 2}, "version 2; this misstep reads 1"),
        ({"tasks": []}, "tasks: expected an object"),
        ({"base": 1}, "base: expected a text"),
        ({"design": {}}, "design.sha256: missing"),
        ({"tasks": {"t": {}}}, "tasks.t.digest: missing"),
        ({"tasks": {"t": 1}}, "tasks.t.digest: missing"),
        ({"arms": {"real": {"portfolio": "x"}}}, "arms.real.sources: missing"),
    ],
)
def test_a_lock_that_is_none(place: Path, change: dict[str, object], says: str) -> None:
    out = locked(place)
    kept = json.loads((out / "lock.json").read_text())
    (out / "lock.json").write_text(json.dumps({**kept, **change}))
    for reads in (lock.read, lock.verify):
        with pytest.raises(LockError) as caught:
            reads(out)
        assert str(caught.value).startswith(f"{out / 'lock.json'}: {says}")


def test_a_folder_that_is_no_panel(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="expected a panel's folder"):
        lock.read(tmp_path)


def test_an_arm_that_this_portfolio_has_not(place: Path) -> None:
    from misstep.guard.portfolio import PortfolioError

    design = Design.load(write_design(place, arms='["real", "sham", "without:database-evidence"]'))
    with pytest.raises(PortfolioError, match="no arm 'without:database-evidence'"):
        lock.plan(design)


def test_a_portfolio_lock_serves_as_a_portfolio(place: Path) -> None:
    from misstep.guard import freeze

    freeze.write_lock(place / "p.lock", freeze.lock(freeze.read(place / "portfolio.toml")))
    path = write_design(place)
    first = lock.lock(lock.plan(Design.load(path)), place / "out")
    path.write_text(path.read_text().replace("portfolio.toml", "p.lock"))
    second = lock.lock(lock.plan(Design.load(path)), place / "out")
    assert second["arms"] == first["arms"]
    for text, says in (("{", "neither a portfolio file"), ("[]", "not a lock of a portfolio")):
        (place / "p.lock").write_text(text)
        with pytest.raises(DesignError, match=says):
            lock.plan(Design.load(path))


def test_a_task_is_its_folder(tmp_path: Path) -> None:
    path = make_task(tmp_path, "t")
    assert Task("t", path, PLAIN).digest == digest(path)
