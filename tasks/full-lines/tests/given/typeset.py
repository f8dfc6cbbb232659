"""Sets text.txt in lines of at most 36 characters: writes page.txt, and what went wrong to page.log."""

import sys
from pathlib import Path

WIDTH, LEAST = 36, 30
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/app")
words, lines, line = (folder / "text.txt").read_text().split(), [], ""
log = [f"typeset 1.3, width {WIDTH}"]
for word in words:
    if line and len(line) + 1 + len(word) > WIDTH:
        lines.append(line)
        line = word
    else:
        line = f"{line} {word}" if line else word
lines.append(line)
for number, line in enumerate(lines, 1):
    if len(line) > WIDTH:
        log.append(f"line {number}: overfull by {len(line) - WIDTH}: {line}")
    elif len(line) < LEAST and number < len(lines):
        log.append(f"line {number}: underfull by {LEAST - len(line)}: {line}")
log.append(f"{len(lines)} lines, {len(words)} words, {len(log) - 1} complaints")
(folder / "page.txt").write_text("\n".join(lines) + "\n")
(folder / "page.log").write_text("\n".join(log) + "\n")
