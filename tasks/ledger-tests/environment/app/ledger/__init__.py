"""A ledger of amounts in cents."""

from ledger.account import Account
from ledger.money import format_cents, parse_cents, share

__all__ = ["Account", "format_cents", "parse_cents", "share"]
