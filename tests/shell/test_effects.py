"""What commands do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misstep.shell import Effect, effects_of, scan

CASES = json.loads((Path(__file__).parent / "data" / "shell-effect-cases.json").read_text())
BINARY = (".png", ".db", ".zip")


def effects(text: str, kind: str | None = None) -> list[Effect]:
    return [e for e in effects_of(scan(text)) if kind is None or e.kind == kind]


def kinds(text: str) -> list[str]:
    return [e.kind for e in effects(text)]


def one(text: str, kind: str) -> Effect:
    (found,) = effects(text, kind)
    return found


@pytest.mark.parametrize("case", CASES, ids=[c["command"][:40] for c in CASES])
def test_labelled_commands(case):
    found = effects(case["command"])
    serves = [e for e in found if e.kind == "serve"]
    assert bool(serves) == case["starts_server"]
    assert any(e.info["background"] for e in serves) == case["background"]
    assert [e.info["own_session"] for e in serves] == ([case["own_session"]] if serves else [])
    assert any(e.kind == "database" and e.info["mutates"] is not False for e in found) == case["may_mutate_database"]
    prints = [e for e in found if e.kind == "read" and e.info["to"] == "tty" and e.info["raw"]]
    assert any(p.endswith(BINARY) for e in prints for p in e.paths) == case["prints_binary"]


# ------------------------------------------------------------------------------------------------ services


@pytest.mark.parametrize(
    ("text", "background", "own_session", "redirected"),
    [
        ("nginx", True, "yes", True),
        ("nginx -g 'daemon off;' &", True, "no", False),
        ("/usr/sbin/sshd -D &", True, "no", False),
        ("/usr/sbin/sshd", True, "yes", True),
        ("service nginx start", True, "yes", True),
        ("systemctl restart nginx", True, "yes", True),
        ("gunicorn -D app:app", True, "yes", True),
        ("mongod --fork --logpath l", True, "yes", True),
        ("pg_ctl -D data -l log start", True, "yes", True),
        ("docker run -d -p 80:80 nginx", True, "yes", True),
        ("docker compose up -d", True, "yes", True),
        ("docker compose up", False, "no", False),
        ("setsid python3 server.py > l 2>&1 < /dev/null &", True, "yes", True),
        ("setsid python3 server.py > l &", True, "yes", False),
        ("nohup python3 server.py > l 2>&1 &", True, "hangup-proof only", False),
        ("nohup python3 server.py &> l < /dev/null &", True, "hangup-proof only", True),
        ("python3 server.py &\ndisown", True, "hangup-proof only", False),
        ("npm start", False, "no", False),
        ("npm run dev &", True, "no", False),
        ("flask run --port 80 &", True, "no", False),
        ("python app.py --host 0.0.0.0 --port 80", False, "no", False),
        ("python -m uvicorn a:b &", True, "no", False),
        ("python manage.py runserver &", True, "no", False),
        ("node dist/server.js", False, "no", False),
        ("./start-server.sh &", True, "no", False),
        ("bash serve.sh &", True, "no", False),
        ("npx serve -s build", False, "no", False),
        ("npx vite --port 3000", False, "no", False),
        ("php -S 0.0.0.0:80", False, "no", False),
        ("nc -l -p 80", False, "no", False),
        ("qemu-system-x86_64 -m 1G -hda x.img -nographic", False, "no", False),
        ("qemu-system-x86_64 -m 1G -hda x.img -daemonize", True, "yes", True),
        ("tmux send-keys -t a 'uvicorn a:b' Enter", True, "yes", True),
        ("screen -dmS a ./serve.sh", True, "yes", True),
        ("start() { uvicorn a:b & }; start", True, "no", False),
        ("docker exec web sh -c 'uvicorn a:b &'", True, "unknown", False),
        ("python -c 'import uvicorn; uvicorn.run(\"a:b\")' &", True, "no", False),
        (
            "python - <<'E'\nimport subprocess\nsubprocess.Popen(['uvicorn', 'a:b'], start_new_session=True)\nE",
            True,
            "yes",
            False,
        ),
    ],
)
def test_serve(text, background, own_session, redirected):
    info = one(text, "serve").info
    assert (info["background"], info["own_session"], info["redirected"]) == (background, own_session, redirected)


@pytest.mark.parametrize(
    "text",
    [
        "python app.py", "node index.js &", "python test_server.py", "python client.py --host h --port 80", "python train.py --port 1 &",
        "nginx -t", "nginx -s reload", "uvicorn --version", "python server.py --help", "npm run build", "npm install", "vite build",
        "echo 'uvicorn a:b &'", "cat > s.sh <<'E'\nuvicorn a:b &\nE", "grep -r uvicorn .", "pip install uvicorn", "which nginx",
        "pkill -f server.py", "cat server.py", "python -m pytest tests/test_server.py", "git commit -m 'python server.py &'",
        "systemctl status nginx", "docker ps", "redis-cli ping", "start() { uvicorn a:b & }", "sed -n 1,5p server.py", "psql -h h -p 5432 -c 'select 1'",
        "gcc server.c -o server", "nc -z localhost 80", "python -c 'print(1)' &",
    ],
)  # fmt: skip
def test_no_serve(text):
    assert "serve" not in kinds(text)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("curl -s localhost:8080/h", True), ("curl https://example.org", False), ("wget -qO- 127.0.0.1", True), ("nc -zv localhost 80", True),
        ("ss -ltn", True), ("netstat -tlnp | grep 80", True), ("lsof -i :80", True), ("lsof -ti:80", True), ("redis-cli ping", True),
        ("bash -c 'exec 3<>/dev/tcp/localhost/80'", True), ("timeout 1 bash -c '</dev/tcp/127.0.0.1/80'", True), ("telnet h 25 < in", False),
        ("ssh h", False), ("grpcurl -plaintext localhost:50051 list", True),
        ("python -c 'import requests; requests.get(\"http://localhost:80\")'", True),
        ("python - <<'E'\nimport socket\ns = socket.socket()\ns.connect(('127.0.0.1', 80))\nE", True),
        ("node -e 'fetch(\"http://localhost:3000\")'", True),
    ],
)  # fmt: skip
def test_probe(text, local):
    assert one(text, "probe").info["local"] is local


# ----------------------------------------------------------------------------------------------- databases


@pytest.mark.parametrize(
    ("text", "mutates"),
    [
        ("sqlite3 a.db 'select 1'", True), ("sqlite3 -readonly a.db 'select 1'", False), ("sqlite3 'file:a.db?immutable=1' .dump", False),
        ("sqlite3 'file:a.db?mode=rw' .dump", True), ("echo 'select 1' | sqlite3 a.db", True),
        ("psql -c 'with x as (select 1) select * from x'", False), ("psql -c 'with x as (delete from t returning 1) select 1'", True),
        ("psql -c 'SELECT 1; DROP TABLE t'", True), ("psql -c \"select 'drop table t'\"", False), ("psql -c \"$SQL\"", None),
        ("psql -f x.sql", None), ("psql -l", False), ("psql -c 'explain analyze delete from t'", True), ("psql -c 'explain delete from t'", False),
        ("mysql -uroot -e 'show tables'", False), ("mysql -e 'update t set a=1'", True), ("mysql db < dump.sql", None),
        ("pg_dump db > x.sql", False), ("pg_restore -d db x", True), ("redis-cli get a", False), ("redis-cli flushall", True),
        ("mongosh --eval 'db.t.find()'", False), ("mongosh --eval 'db.t.drop()'", True), ("python manage.py migrate", True),
        ("alembic upgrade head", True),
        ("python -c 'import sqlite3; sqlite3.connect(\"a.db\")'", True),
        ("python -c 'import sqlite3; sqlite3.connect(\"file:a.db?mode=ro\", uri=True)'", False),
        ("python - <<'E'\nimport psycopg2\nc = psycopg2.connect(D)\nc.cursor().execute('select 1')\nE", False),
        ("python - <<'E'\nimport psycopg2\nc = psycopg2.connect(D)\nc.cursor().execute('delete from t')\nE", True),
        ("python - <<'E'\nimport psycopg2\nc = psycopg2.connect(D)\nc.cursor().execute(q)\nE", None),
    ],
)  # fmt: skip
def test_database(text, mutates):
    assert one(text, "database").info["mutates"] is mutates


@pytest.mark.parametrize(
    "text", ["sqlite3 :memory: 'select 1'", "sqlite3 --version", "cat a.db", "ls *.db", "echo 'sqlite3 a.db'"]
)
def test_no_database(text):
    assert "database" not in kinds(text)


# --------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("text", "paths", "append", "in_place"),
    [
        ("echo x > a", ("a",), False, False), ("echo x >> a", ("a",), True, False), ("cmd &> a", ("a",), False, False),
        ("{ a; b; } > c", ("c",), False, False), ("cmd 2> err", ("err",), False, False), ("x | tee -a a b", ("a", "b"), True, False),
        ("sed -i 's/a/b/' f g", ("f", "g"), False, True), ("sed -i '' -e 's/a/b/' f", ("f",), False, True), ("sed -Ei.bak 's/a/b/' f", ("f",), False, True),
        ("perl -0pi -e 's/a/b/' f", ("f",), False, True), ("truncate -s 0 f", ("f",), False, True), ("dd if=/dev/zero of=f count=1", ("f",), False, False),
        ("tar xzf a.tgz -C out", ("out",), False, False), ("unzip -o a.zip -d out", ("out",), False, False), ("patch -p1 < x.patch", (), False, True),
        ("cat > f <<'E'\nx\nE", ("f",), False, False), ("python -c 'open(\"f\", \"w\").write(\"x\")'", ("f",), False, False),
        ("python - <<'E'\nfrom pathlib import Path\np = Path('d') / 'f'\np.write_text('x')\nE", ("d/f",), False, False),
        ("node -e 'require(\"fs\").writeFileSync(\"f\", \"x\")'", ("f",), False, False), ("vim -es -c wq f", ("f",), False, True),
        ("F=out.txt; echo x > $F", ("out.txt",), False, False), ("apply_patch <<'E'\n*** Begin Patch\n*** Update File: a.py\nE", ("a.py",), False, True),
    ],
)  # fmt: skip
def test_write(text, paths, append, in_place):
    e = one(text, "write")
    assert (e.paths, e.info["append"], e.info["in_place"]) == (paths, append, in_place)


@pytest.mark.parametrize(
    "text",
    [
        "echo x > /dev/null",
        "cmd 2>&1",
        "cmd >&2",
        "echo 'a > b'",
        "sed 's/a/b/' f",
        "[[ a > b ]]",
        "perl -ne print f",
        "python -c 'open(\"f\")'",
    ],
)
def test_no_write(text):
    assert "write" not in kinds(text)


@pytest.mark.parametrize(
    ("text", "paths", "to", "partial"),
    [
        ("cat a b", ("a", "b"), "tty", False), ("cat a | head -5", ("a",), "pipe", True), ("cat a > b", ("a",), "file", False),
        ("x=$(cat a)", ("a",), "pipe", False), ("head -n 5 a", ("a",), "tty", True), ("sed -n '1,5p' a", ("a",), "tty", True),
        ("cat < a", ("a",), "tty", False), ("(cat a) | wc", ("a",), "pipe", False), ("{ cat a; } > b", ("a",), "file", False),
        ("for f in *.png; do cat \"$f\"; done", ("*.png",), "tty", False), ("for f in a b; do cat ${f}; done", ("a", "b"), "tty", False),
        ("ssh h cat a", ("a",), "tty", False), ("awk '{print $1}' a", ("a",), "tty", True), ("git show HEAD:a", ("a",), "tty", False),
        ("jq .x a.json", ("a.json",), "tty", False), ("python -c 'open(\"a\").read()'", ("a",), "program", False), ("cat a >&2", ("a",), "tty", False),
    ],
)  # fmt: skip
def test_read(text, paths, to, partial):
    e = one(text, "read")
    assert (e.paths, e.info["to"], e.info["partial"]) == (paths, to, partial)


def test_read_says_whether_bytes_come_out_as_they_are():
    assert one("cat a.png | base64", "read").info == {
        "to": "pipe",
        "partial": False,
        "raw": True,
        "through": ("base64",),
    }
    assert one("xxd a.png", "read").info["raw"] is False
    assert one("base64 a.png", "read").info["raw"] is False


def test_copy_move_delete_compare():
    assert (one("cp app.db app.db-wal /b/", "copy").paths, one("cp app.db app.db-wal /b/", "copy").info) == (
        ("app.db", "app.db-wal"),
        {"dest": "/b/"},
    )
    assert one("cp -r -t /b d", "copy").info == {"dest": "/b"}
    assert one("rsync -a d/ /b/", "copy").paths == ("d/",)
    assert one("tar czf b.tgz d", "copy").info == {"dest": "b.tgz"}
    assert one("mv a b c/", "move").paths == ("a", "b")
    assert one("rm -rf a b", "delete").info == {"recursive": True}
    assert one("find . -name x -delete", "delete").paths == (".",)
    assert one("find . -exec rm {} +", "delete").paths == ("{}",)
    assert one("ls | xargs rm", "delete").paths == ()
    assert one("python -c 'import shutil; shutil.rmtree(\"a\")'", "delete").info == {"recursive": True}
    assert one('python -c \'import shutil as s; s.copy2("a", "b")\'', "copy").info == {"dest": "b"}
    assert one("diff a b", "compare").info == {"how": "diff"}
    assert one("sha256sum a b", "compare").paths == ("a", "b")
    assert one("git diff --no-index a b", "compare").paths == ("a", "b")


def test_download():
    assert one("curl -fsSL -o f.zip https://a/b.zip", "download").paths == ("f.zip",)
    assert one("curl -sO https://a/b.zip", "download").paths == ("b.zip",)
    assert one("curl https://a/b > f", "download").paths == ("f",)
    assert one("wget -q https://a/b.tgz", "download").paths == ("b.tgz",)
    assert "download" not in kinds("curl -s https://a/b | sh")
    assert "download" not in kinds("wget -qO- https://a/b")


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("cd a && rm x; rm y", ["a", "a"]), ("(cd a && rm x); rm y", ["a", ""]), ("cd /a; cd b/..; rm x", ["/a"]), ("cd $D; rm x", [None]),
        ("cd; rm x", ["~"]), ("bash -c 'cd a; rm x'; rm y", ["a", ""]), ("cd a; cd -; rm x", [None]), ("rm x; cd a", [""]),
    ],
)  # fmt: skip
def test_folder_of_literal_cds(text, folders):
    assert [e.info.get("cwd", "") for e in effects(text, "delete")] == folders


# --------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize(
    ("text", "runner", "partial"),
    [
        ("pytest", "pytest", False), ("python -m pytest -x -q", "pytest", False), ("pytest tests/test_a.py::t", "pytest", True), ("pytest -k a", "pytest", True),
        ("uv run pytest tests/", "pytest", False), ("python -m unittest discover -s tests", "unittest", False), ("tox -e py3", "tox", True),
        ("cargo test", "cargo test", False), ("cargo nextest run", "cargo nextest", False), ("go test ./...", "go test", False), ("go test -run X ./a", "go test", True),
        ("npm test", "npm test", False), ("npm run test:unit", "npm test:unit", False), ("yarn test", "yarn test", False), ("npx jest a.test.js", "jest", True),
        ("npx vitest run", "vitest", False), ("npx playwright test", "playwright test", False), ("make check", "make check", False), ("make test-unit", "make test-unit", False),
        ("mvn -q test", "mvn test", False), ("./gradlew test", "gradlew test", False), ("ctest --test-dir build", "ctest", False), ("bundle exec rspec", "rspec", False),
        ("mise run test:a", "mise run test:a", False), ("./run_tests.sh", "run_tests.sh", False), ("bash tests/run_tests.sh", "bash", False),
        ("python test_a.py", "python", True), ("bats tests", "bats", False), ("dotnet test", "dotnet test", False), ("mix test", "mix test", False),
        ("docker run --rm img pytest -q", "pytest", False), ("python manage.py test", "manage.py test", False), ("node --test", "node --test", False),
        ("cd a && timeout 60 pytest 2>&1 | tail -5", "pytest", False),
    ],
)  # fmt: skip
def test_test(text, runner, partial):
    info = one(text, "test").info
    assert (info["runner"], info["partial"]) == (runner, partial)


@pytest.mark.parametrize(
    "text",
    ["pytest --collect-only", "pytest --version", "test -f x", "echo pytest", "pip install pytest", "cat test_a.py", "cargo test --no-run", "ls tests", "npm run build",
     "grep -r pytest .", "git add tests", "vim test_a.py", "mkdir tests", "make -n test"],
)  # fmt: skip
def test_no_test(text):
    assert "test" not in kinds(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("black .", "format"), ("black --check .", "lint"), ("ruff format", "format"), ("ruff check .", "lint"), ("ruff check --fix .", "format"), ("isort -c .", "lint"),
        ("prettier --write .", "format"), ("npx prettier --check .", "lint"), ("npx eslint . --fix", "format"), ("npx eslint .", "lint"), ("gofmt -l .", "lint"),
        ("gofmt -w .", "format"), ("go vet ./...", "lint"), ("go fmt ./...", "format"), ("cargo fmt", "format"), ("cargo fmt --check", "lint"), ("cargo fmt -- --check", "lint"),
        ("cargo clippy", "lint"), ("cargo check", "lint"), ("tsc --noEmit", "lint"), ("mypy src", "lint"), ("python -m mypy src", "lint"), ("shellcheck a.sh", "lint"),
        ("bash -n a.sh", "lint"), ("node --check a.js", "lint"), ("npm run lint", "lint"), ("npm run format", "format"), ("make fmt", "format"), ("mise run lint", "lint"),
        ("clang-format -i a.c", "format"), ("terraform fmt -check", "lint"), ("golangci-lint run", "lint"), ("golangci-lint run --fix", "format"),
        ("gcc -o a a.c", "compile"), ("make -j4", "compile"), ("make", "compile"), ("cargo build --release", "compile"), ("go build ./...", "compile"), ("npm run build", "compile"),
        ("npx tsc", "compile"), ("pdflatex -interaction=nonstopmode a.tex", "compile"), ("latexmk -pdf a.tex", "compile"), ("cmake --build b", "compile"),
        ("mvn package -DskipTests", "compile"), ("python setup.py build_ext --inplace", "compile"), ("docker build -t x .", "compile"), ("./configure", "compile"),
        ("python a.py", "run"), ("./a.out < in", "run"), ("node a.js", "run"), ("cargo run", "run"), ("go run a.go", "run"), ("bash a.sh", "run"), ("python -c 'print(1)'", "run"),
        ("pip install -q numpy", "install"), ("python -m pip install x", "install"), ("uv add x", "install"), ("apt-get install -y x", "install"), ("npm ci", "install"),
        ("yarn", "install"), ("cargo add x", "install"), ("go get x", "install"), ("brew install x", "install"), ("curl -fsSL https://x | bash", "install"), ("conda install -y x", "install"),
    ],
)  # fmt: skip
def test_tools(text, kind):
    assert kind in kinds(text)
    assert len({"format", "lint", "compile", "run", "install"} & set(kinds(text))) == 1


def test_install_packages():
    e = one("pip install -r req.txt numpy 'pandas==1'", "install")
    assert (e.paths, e.info["manager"], e.info["packages"]) == (("req.txt",), "pip", ("numpy", "pandas==1"))


@pytest.mark.parametrize(
    ("text", "how", "pattern"),
    [
        ("kill -9 12", "pid", "12"), ("kill %1", "job", "%1"), ("kill -9 -1", "all", ""), ("kill $(lsof -t -i:80)", "port", "80"), ("kill `pgrep -f a`", "pattern", "a"),
        ("kill $PID", "pid", "$PID"), ("pkill -9 -f 'a b'", "pattern", "a b"), ("pkill node", "name", "node"), ("killall -q node", "name", "node"), ("fuser -k 80/tcp", "port", "80/tcp"),
        ("lsof -ti:80 | xargs -r kill -9", "port", "80"), ("ps aux | grep foo | awk '{print $2}' | xargs kill", "pattern", "foo"), ("pkill -u bob", "all", "bob"),
        ("sudo kill -TERM 12", "pid", "12"),
    ],
)  # fmt: skip
def test_kill(text, how, pattern):
    assert one(text, "kill").info == {"how": how, "pattern": pattern}


@pytest.mark.parametrize("text", ["kill -0 12", "kill -l", "pkill -0 x", "echo kill 1", "pgrep -f x"])
def test_no_kill(text):
    assert "kill" not in kinds(text)


@pytest.mark.parametrize(
    ("text", "verb", "destructive", "paths"),
    [
        ("git commit -m x", "commit", False, ()), ("git checkout -- a", "checkout", True, ("a",)), ("git checkout .", "checkout", True, (".",)), ("git checkout a.py", "checkout", True, ("a.py",)),
        ("git checkout main", "checkout", False, ()), ("git checkout -b x", "checkout", False, ()), ("git checkout HEAD~1 -- a", "checkout", True, ("a",)),
        ("git restore a", "restore", True, ("a",)), ("git restore --staged a", "restore", False, ("a",)), ("git reset --hard", "reset", True, ()), ("git reset HEAD a", "reset", False, ()),
        ("git clean -fdx", "clean", True, ()), ("git push", "push", False, ()), ("git push -f", "push", True, ()), ("git push --force-with-lease", "push", True, ()),
        ("git push origin :b", "push", True, ()), ("git branch -D x", "branch", True, ()), ("git branch -d x", "branch", False, ()), ("git stash", "stash", False, ()),
        ("git stash drop", "stash drop", True, ()), ("git update-ref -d r", "update-ref", True, ()), ("git -C d -c a=b reset --hard", "reset", True, ()), ("git add a b", "add", False, ("a", "b")),
        ("git tag -d x", "tag", True, ()), ("git reflog expire --all", "reflog expire", True, ()), ("git gc --prune=now", "gc", True, ()),
    ],
)  # fmt: skip
def test_vcs(text, verb, destructive, paths):
    e = one(text, "vcs")
    assert (e.info["verb"], e.info["destructive"], e.paths) == (verb, destructive, paths)


@pytest.mark.parametrize(
    "text",
    [
        "git status",
        "git diff",
        "git log",
        "git branch",
        "git branch -a",
        "git stash list",
        "git clean -n",
        "git tag",
        "git remote -v",
        "echo git reset --hard",
        "git config user.name",
    ],
)
def test_no_vcs(text):
    assert "vcs" not in kinds(text)


# ------------------------------------------------------------------------------------------- people and time


@pytest.mark.parametrize(
    "text",
    ["vim a", "nano a", "less a", "git log | less", "man ls", "python", "python3 -i a.py", "node", "psql", "sqlite3 a.db", "mysql -uroot", "ssh h", "git rebase -i x", "git add -p",
     "git commit", "git commit --amend",
        "git revert HEAD", "apt install x", "sudo apt-get install x", "passwd", "mysql_secure_installation", "read x", "top", "htop", "docker exec -it c bash", "bash",
     "python -m pdb a.py", "ssh-keygen", "terraform apply", "gdb ./a", "npm init", "python manage.py shell", "cat", "crontab -e", "redis-cli", "python -c 'input()'", "telnet h 25"],
)  # fmt: skip
def test_interactive(text):
    assert len(effects(text, "interactive")) == 1


@pytest.mark.parametrize(
    "text",
    ["vim -es -c wq a", "less a | cat", "man ls | cat", "python a.py", "python < a.py", "echo 1 | python", "python <<'E'\nprint(1)\nE", "psql -c 'select 1'", "psql < a", "sqlite3 a.db .tables",
     "sqlite3 a.db < a.sql", "ssh h ls", "GIT_SEQUENCE_EDITOR=: git rebase -i x", "git commit -m x", "git commit -am x", "git commit --amend --no-edit",
        "git revert --no-edit HEAD", "git commit -F f", "apt-get install -y x",
     "yes | apt install x", "DEBIAN_FRONTEND=noninteractive apt-get -yq install x", "echo p | passwd", "while read x; do :; done < f", "read x < f", "echo a | while read l; do echo; done",
     "top -b -n1", "ssh-keygen -N '' -f k", "terraform apply -auto-approve", "gdb -batch ./a", "npm init -y", "cat > f <<'E'\nx\nE", "tmux new -d 'vim a'", "echo 'vim a'", "cat | grep x <<< y",
     "crontab -l", "redis-cli get a", "bash a.sh", "git rebase x", "curl x | bash", "tmux send-keys -t a 'vim b' Enter"],
)  # fmt: skip
def test_not_interactive(text):
    assert [e.info for e in effects(text, "interactive") if not (text.startswith("cat |"))] == []


@pytest.mark.parametrize(
    "text",
    ["tail -f a", "tail -n5 -F a", "watch ls", "ping h", "yes", "while true; do ls; done", "until false; do ls; done", "while :; do sleep 1; done", "for ((;;)); do ls; done", "journalctl -f",
     "docker logs -f c", "docker compose logs -f", "kubectl logs -f p", "top -b", "sleep infinity", "tcpdump -i lo", "tsc --watch", "npx tsc -w", "npm run watch", "jest --watch", "ssh -N -L 1:h:2 h",
     "while [ 1 ]; do ls; done", "cat /dev/urandom", "inotifywait -m ."],
)  # fmt: skip
def test_endless(text):
    assert len(effects(text, "endless")) == 1


@pytest.mark.parametrize(
    "text",
    ["tail -5 a", "tail -f a &", "timeout 5 tail -f a", "tail -f a | head -1", "tail -f a | grep -m1 x", "ping -c1 h", "yes | head", "while true; do ls && break; done", "while true; do exit; done",
     "for i in 1 2; do ls; done", "while read l; do ls; done", "watch ls &", "timeout 9 watch ls", "(while true; do ls; done) &", "tmux new -d 'tail -f a'", "journalctl -n 5", "docker logs c",
     "echo 'tail -f a'", "for ((i=0;i<3;i++)); do ls; done", "f() { while true; do ls; done; }", "tsc", "cat /dev/urandom | head -c 5"],
)  # fmt: skip
def test_not_endless(text):
    assert "endless" not in kinds(text)


def test_sleep():
    assert one("sleep 2m", "sleep").info == {"seconds": 120.0, "in_loop": False}
    assert one("for i in 1 2; do sleep 1.5; done", "sleep").info == {"seconds": 1.5, "in_loop": True}
    assert one("sleep $X", "sleep").info["seconds"] is None


@pytest.mark.parametrize(
    ("text", "how", "of"),
    [
        ("make || true", "or-true", "make"), ("make || :", "or-true", "make"), ("make 2>/dev/null", "discard-stderr", "make"), ("make &>/dev/null", "discard-all", "make"),
        ("make >/dev/null 2>&1", "discard-all", "make"), ("set +e", "set+e", "set"),
    ],
)  # fmt: skip
def test_mask(text, how, of):
    e = one(text, "mask")
    assert (e.info["how"], e.command.name) == (how, of)


@pytest.mark.parametrize(
    "text",
    [
        "make || exit 1",
        "make >/dev/null",
        "true || make",
        "make 2>&1 >/dev/null",
        "set -e",
        "make && true",
        "echo '|| true'",
    ],
)
def test_no_mask(text):
    assert "mask" not in kinds(text)


# ---------------------------------------------------------------------------------------------- Python texts


def test_python_starts_commands():
    text = (
        "python - <<'E'\nimport subprocess, sys, os\nsubprocess.run(['rm', '-rf', 'a'])\nsubprocess.run('sqlite3 b.db .dump | cat', shell=True)\nos.system('kill 5')\n"
        "subprocess.run([sys.executable, '-m', 'pytest'])\nE"
    )
    assert [e.kind for e in effects(text) if e.kind != "run"] == ["delete", "database", "kill", "test"]


def test_python_constants():
    text = (
        "python - <<'E'\nimport os\nfrom pathlib import Path\nROOT = Path('/data')\nname = 'x'\n(ROOT / f'{name}.txt').write_text('')\nos.remove(os.path.join('a', name))\n"
        "for name in y: open(name, 'w')\nE"
    )
    assert [(e.kind, e.paths) for e in effects(text) if e.kind != "run"] == [
        ("write", ("/data/x.txt",)),
        ("delete", ("a/x",)),
        ("write", ()),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "python -c 'rm -rf /'",
        "python -c 'import os; os.remove('",
        'python - <<E\nx = "$(rm y)\nE',
        "python -c \"print('os.remove(1)')\"",
    ],
)
def test_python_that_does_not_parse_or_do(text):
    assert "delete" not in [e.kind for e in effects(text) if not (e.command and e.command.name == "rm")]


# ------------------------------------------------------------------------------- programs of the same text


def test_a_server_under_a_time_limit_is_a_trial():
    assert one("timeout 5 npm run dev", "serve").info["bounded"] is True
    assert one("npm run dev &", "serve").info["bounded"] is False


def test_a_script_that_the_text_has_written_is_read():
    text = "cat > fix.py <<'E'\nimport sqlite3\nsqlite3.connect('a.db')\nE\npython3 ./fix.py"
    assert [(e.kind, e.paths) for e in effects(text)] == [
        ("write", ("fix.py",)),
        ("run", ("./fix.py",)),
        ("database", ("a.db",)),
    ]
    text = "cat > go.sh <<'E'\n#!/bin/bash\nsetsid uvicorn a:b &\nE\nchmod +x go.sh && ./go.sh"
    assert one(text, "serve").info["own_session"] == "yes"
    assert "serve" not in kinds("cat > go.sh <<'E'\nuvicorn a:b &\nE\nchmod +x go.sh")
    assert "delete" not in kinds("cat > a.sh <<E\nrm $X\nE\nbash a.sh")  # the shell has filled in $X


def test_what_a_server_script_does_is_surer_than_its_name():
    text = "cat > serve.sh <<'E'\nnohup uvicorn a:b &\nE\nbash serve.sh"
    assert one(text, "serve").info["own_session"] == "hangup-proof only"
    assert one("cat > serve.sh <<'E'\n./prog\nE\nbash serve.sh", "serve").info["own_session"] == "no"
