#!/bin/bash
set -e
cd /app
cat > ledger/money.py <<'PY'
"""Amounts are whole cents; texts have a point and two decimals."""

import re


def parse_cents(text):
    """'-3.5' -> -350. Raises ValueError for anything that is no amount."""
    found = re.fullmatch(r"([+-]?)([0-9]+)(?:\.([0-9]{1,2}))?", text.strip())
    if not found:
        raise ValueError(f"no amount: {text!r}")
    sign, whole, part = found.groups()
    cents = int(whole) * 100 + int((part or "0").ljust(2, "0"))
    return -cents if sign == "-" else cents


def format_cents(cents):
    """-350 -> '-3.50'"""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def share(cents, people):
    """Splits an amount among people: nothing is lost, and shares differ by at most a cent; the larger come first."""
    each, more = divmod(cents, people)
    return [each + 1] * more + [each] * (people - more)
PY
cat > ledger/account.py <<'PY'
"""An account is a list of postings; its balance may not fall below its limit."""


class Account:
    def __init__(self, limit=0, postings=()):
        self.limit = limit
        self.postings = list(postings)

    @property
    def balance(self):
        return sum(self.postings)

    def post(self, cents):
        """Adds a posting. Raises ValueError, and adds nothing, if the balance would fall below the limit."""
        if self.balance + cents < self.limit:
            raise ValueError("the limit of the account is reached")
        self.postings.append(cents)
PY
python3 -m unittest discover -s tests 2>&1 | tail -1
