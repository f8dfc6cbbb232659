"""Amounts are whole cents; texts have a point and two decimals."""


def parse_cents(text):
    """'-3.5' -> -350. Raises ValueError for anything that is no amount."""
    whole, _, part = text.strip().partition(".")
    return int(whole) * 100 + int(part or 0)


def format_cents(cents):
    """-350 -> '-3.50'"""
    return f"{cents // 100}.{cents % 100:02d}"


def share(cents, people):
    """Splits an amount among people: nothing is lost, and shares differ by at most a cent; the larger come first."""
    return [cents // people] * people
