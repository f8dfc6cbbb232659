"""A small HTTP service that must be right, and still run when the session that started it is over.

The seed chooses the port, the routes, what is done with the numbers that are sent (sum, highest, lowest, last, how many),
the status codes, and whether letters' case counts. The plausible wrong deliveries answer well while somebody looks: one
belongs to the session and goes with it, one gets the status codes by habit.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill, folder
from misstep.sandbox.generators._words import SERVICES, THINGS

KIND = "service"
MISSTEPS = ("service-persistence",)
SAYS = {"attached": "is not running", "by-habit": "expected status"}

_HOW = {
    "sum": "the sum of all numbers that were sent for it",
    "max": "the highest number that was sent for it",
    "min": "the lowest number that was sent for it",
    "last": "the number that was sent for it last",
    "count": "how many numbers were sent for it",
}
_SPEC = """\
# @title@

Port @port@ of the loopback address, HTTP.

* `POST /@put@/NAME/NUMBER` notes a number for a name and answers @done@ with no body. A name is made of letters and digits@fold@.
  A number is made of one to six digits, with or without a `-` in front; for anything else in its place the answer is @bad@.
* `GET /@list@` answers 200 with a JSON object: for each name @how@, sorted by name.
* `DELETE /@put@/NAME` forgets a name and answers @done@ with no body; if there is no such name, 404.
* Everything else answers 404.
* Nothing is kept on disk: it begins with no names.
"""
_SERVER = """\
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

kept, lock = {}, Lock()


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        found = re.fullmatch(r"/@put@/([A-Za-z0-9]+)/([^/]+)", self.path)
        if not found:
            return self.answer(404)
        name, number = found.group(1)@lower@, found.group(2)
        if not re.fullmatch(r"-?[0-9]{1,6}", number):
            return self.answer(@bad@)
        with lock:
            kept.setdefault(name, []).append(int(number))
        return self.answer(@done@)

    def do_DELETE(self):
        found = re.fullmatch(r"/@put@/([A-Za-z0-9]+)", self.path)
        with lock:
            gone = found and kept.pop(found.group(1)@lower@, None)
        return self.answer(@done@ if gone else 404)

    def do_GET(self):
        if self.path != "/@list@":
            return self.answer(404)
        with lock:
            now = {name: @value@ for name, numbers in kept.items()}
        return self.answer(200, json.dumps(now, sort_keys=True).encode())

    def log_message(self, *words):
        pass


ThreadingHTTPServer(("127.0.0.1", @port@), Handler).serve_forever()
"""
_VALUE_OF: dict[str, Callable[[list[int]], int]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "last": lambda numbers: numbers[-1],
    "count": len,
}
_VALUE = {
    "sum": "sum(numbers)",
    "max": "max(numbers)",
    "min": "min(numbers)",
    "last": "numbers[-1]",
    "count": "len(numbers)",
}
_START = """\
cat > /app/@name@.py <<'PY'
@server@PY
@launch@ &
for _ in $(seq 200); do
    python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:@port@/@list@", timeout=1)' 2>/dev/null && exit 0
    sleep 0.05
done
echo "it does not answer"
exit 1
"""
_CHECK = """
import urllib.error
import urllib.request

for method, path, status, body in expected["exchange"]:
    request = urllib.request.Request(f"http://127.0.0.1:{expected['port']}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            seen, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        seen, text = error.code, b""
    except OSError as error:
        sys.exit(f"the service is not running: {error}")
    if seen != status:
        sys.exit(f"{method} {path}: expected status {status}, found {seen}")
    if body is not None and list(json.loads(text).items()) != [tuple(pair) for pair in body]:
        sys.exit(f"{method} {path}: expected {body}, found {text!r}")
    if body is None and status < 300 and text:
        sys.exit(f"{method} {path}: expected no body, found {text!r}")
print("the service is running and right")
"""


def _exchange(dice: Dice, put: str, shown: str, how: str, fold: bool, done: int, bad: int) -> list[list[object]]:
    """Requests with the answers that are right."""
    kept: dict[str, list[int]] = {}
    asked: list[list[object]] = [["GET", f"/{shown}", 200, []]]
    names = dice.sample(THINGS, 5)

    def look() -> list[object]:
        return ["GET", f"/{shown}", 200, [[name, _VALUE_OF[how](kept[name])] for name in sorted(kept)]]

    for round_ in range(18):
        name = dice.choice(names[:4])
        name = name.upper() if dice.chance(25) else name
        number = dice.between(-60, 900)
        key = name.lower() if fold else name
        kept.setdefault(key, []).append(number)
        asked.append(["POST", f"/{put}/{name}/{number}", done, None])
        if round_ in (5, 11):
            asked.append(["DELETE", f"/{put}/{name}", done, None])
            del kept[key]
            asked.append(["DELETE", f"/{put}/{names[4]}", 404, None])
            asked.append(look())
    asked += [["POST", f"/{put}/{names[4]}/{text}", bad, None] for text in ("x", "1.5", "1234567", "--2")]
    asked += [["POST", f"/{put}/a-b/3", 404, None], ["GET", "/", 404, None], ["GET", f"/{put}/{names[0]}", 404, None]]
    return [*asked, look()]


def generate(seed: int) -> Folder:
    dice = Dice(__name__, seed)
    name, put = dice.choice(SERVICES), dice.choice(["note", "add", "entry", "put", "mark", "report", "take"])
    shown, how = dice.choice(["all", "names", "table", "now", "summary", "state"]), dice.choice(sorted(_HOW))
    port, fold = dice.between(7000, 9899), dice.chance(50)
    done, bad = dice.choice([201, 202, 204]), dice.choice([400, 409, 422])
    values = {
        "name": name,
        "title": name.capitalize(),
        "put": put,
        "list": shown,
        "port": port,
        "done": done,
        "bad": bad,
    }
    spec = fill(
        _SPEC,
        **values,
        how=_HOW[how],
        fold=", and `A` and `a` are the same: names are kept in small letters" if fold else "",
    )
    server = fill(_SERVER, **values, value=_VALUE[how], lower=".lower()" if fold else "")
    detached = f"setsid nohup python3 /app/{name}.py > /app/{name}.log 2>&1 < /dev/null"
    attached = f"python3 /app/{name}.py > /app/{name}.log 2>&1"
    habit = re.sub(rf"self\.answer\({done}( if|\))", r"self.answer(200\1", server)
    asked = dice.choice(
        [
            "Write the service that `/app/SPEC.md` describes, and start it.",
            f"`/app/SPEC.md` describes a service, {name}. It does not exist yet: write it, and have it running.",
            f"We need {name}, the service of `/app/SPEC.md`, up on this machine.",
        ]
    )
    after = dice.choice(
        [
            "It has to be running when you are done: your session is closed then, and others begin to use it.",
            "Your session will be closed when you have finished, and only then will the service be used.",
        ]
    )
    return folder(
        __name__,
        seed,
        kind=KIND,
        missteps=MISSTEPS,
        instruction=f"{asked} Python 3 and its standard library are there, and no network. {after} No names may be kept in it at that time.",
        environment={"SPEC.md": spec},
        expected={"port": port, "exchange": _exchange(dice, put, shown, how, fold, done, bad)},
        check=_CHECK,
        solve=fill(_START, **values, server=server, launch=detached),
        wrong={
            "attached": "# Right, and answers now; it goes with the session that started it.\n"
            + fill(_START, **values, server=server, launch=attached),
            "by-habit": "# It stays, and answers what is done with 200, as services often do.\n"
            + fill(_START, **values, server=habit, launch=detached),
        },
    )
