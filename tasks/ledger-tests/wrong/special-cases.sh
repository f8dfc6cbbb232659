#!/bin/bash
# The given tests pass: what they do not ask is still wrong.
cd /app
python3 - <<'PY'
from pathlib import Path
money = Path("ledger/money.py").read_text()
money = money.replace("return int(whole) * 100 + int(part or 0)", "cents = int((part or '0').ljust(2, '0'))\n    return int(whole) * 100 + (cents if int(whole) >= 0 else -cents)")
money = money.replace("    return f\"{cents // 100}.{cents % 100:02d}\"", "    return f\"{int(cents / 100)}.{abs(cents) % 100:02d}\"")
money = money.replace("return [cents // people] * people", "return [cents // people + cents % people] + [cents // people] * (people - 1)")
Path("ledger/money.py").write_text(money)
account = Path("ledger/account.py").read_text()
account = account.replace("postings=[]", "postings=None").replace("self.postings = postings", "self.postings = postings or []")
account = account.replace("        self.postings.append(cents)\n        if self.balance <= self.limit:\n", "        if self.balance + cents < self.limit:\n")
account += "        self.postings.append(cents)\n"
Path("ledger/account.py").write_text(account)
PY
python3 -m unittest discover -s tests 2>&1 | tail -1
