import subprocess
import sys
from pathlib import Path

if Path("/app/tests/test_ledger.py").read_bytes() != Path("/tests/given.py").read_bytes():
    sys.exit("the tests were changed")
run = subprocess.run([sys.executable, "-B", "-m", "unittest", "discover", "-s", "tests"], cwd="/app", capture_output=True, text=True)
if run.returncode:
    sys.exit(run.stderr)
sys.path.insert(0, "/app")
from ledger import Account, format_cents, parse_cents, share  # noqa: E402

for text, cents in {"0.05": 5, "-0.05": -5, " 10.1 ": 1010, "-0.5": -50, "+2": 200}.items():
    assert parse_cents(text) == cents, (text, parse_cents(text))
for text in ["", "1.234", "x", "1.", "--1", "1.-5"]:
    try:
        parse_cents(text)
    except ValueError:
        continue
    sys.exit(f"parse_cents({text!r}) raises nothing")
for cents in [0, 5, -5, 99, -100, 12345, -12345]:
    assert parse_cents(format_cents(cents)) == cents, cents
for cents in [0, 1, 100, 101, -100, 7]:
    for people in [1, 2, 3, 7]:
        parts = share(cents, people)
        assert sum(parts) == cents and len(parts) == people and parts == sorted(parts, reverse=True), (cents, people, parts)
        assert parts[0] - parts[-1] <= 1
start = [5]
account = Account(0, start)
account.post(1)
assert start == [5], "an account changes the list that it was given"
print("the package is right")
