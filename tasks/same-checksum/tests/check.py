import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, "/tests")
from slow import checksum  # noqa: E402

if Path("/app/slow.py").read_bytes() != Path("/tests/slow.py").read_bytes():
    sys.exit("slow.py was changed")
alone = Path("/tmp/alone")
shutil.rmtree(alone, ignore_errors=True)
alone.mkdir()
shutil.copy("/app/fast.py", alone / "fast.py")


def run(data):
    return subprocess.run([sys.executable, "-I", str(alone / "fast.py")], input=data, capture_output=True, cwd=alone).stdout


dice = random.Random(5)
inputs = [b"", b"a", b"\x80", b"\xff" * 64, bytes(range(256)), b"plain text\n" * 40]
inputs += [dice.randbytes(n) for n in (63, 64, 65, 250, 251, 252, 4000)]
inputs += [bytes(dice.choice(b"\x7f\x80\x00\xff") for _ in range(777))]
for data in inputs:
    found, wanted = run(data), checksum(data).encode() + b"\n"
    if found != wanted:
        sys.exit(f"{len(data)} bytes {data[:16]!r}: {found!r}, expected {wanted!r}")
data = dice.randbytes(200_000)
start = time.perf_counter()
wanted = checksum(data)
slow = time.perf_counter() - start
start = time.perf_counter()
found = run(data)
fast = time.perf_counter() - start
if found.decode().strip() != wanted:
    sys.exit("a large input has another checksum")
if fast * 2 > slow:
    sys.exit(f"{fast:.2f} s for what takes {slow:.2f} s")
print("the same, and faster")
