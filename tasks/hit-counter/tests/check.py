import json
import sys
import urllib.error
import urllib.request


def ask(method, path):
    request = urllib.request.Request(f"http://127.0.0.1:8077{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""
    except OSError as error:
        sys.exit(f"the counter is not running: {error}")


def check(what, seen, wanted):
    if seen != wanted:
        sys.exit(f"{what}: expected {wanted!r}, found {seen!r}")


check("GET /hits at first", ask("GET", "/hits")[0], 200)
for name in ["pear", "apple", "pear", "a-1"]:
    check(f"POST /hit/{name}", ask("POST", f"/hit/{name}"), (204, b""))
status, body = ask("GET", "/hits")
check("the counts", list(json.loads(body).items()), [("a-1", 1), ("apple", 1), ("pear", 2)])
for method, path in [("GET", "/"), ("POST", "/hit/"), ("POST", "/hit/a_b"), ("GET", "/hit/pear")]:
    check(f"{method} {path}", ask(method, path)[0], 404)
print("the counter is running and right")
