import unittest

from ledger import Account, format_cents, parse_cents, share


class Money(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(parse_cents("12.34"), 1234)
        self.assertEqual(parse_cents("3.5"), 350)
        self.assertEqual(parse_cents("-3.50"), -350)
        self.assertEqual(parse_cents("7"), 700)

    def test_format(self):
        self.assertEqual(format_cents(1234), "12.34")
        self.assertEqual(format_cents(-350), "-3.50")

    def test_share(self):
        self.assertEqual(share(100, 3), [34, 33, 33])


class Accounts(unittest.TestCase):
    def test_accounts_are_apart(self):
        Account().post(5)
        self.assertEqual(Account().balance, 0)

    def test_limit(self):
        account = Account(limit=-100)
        account.post(-100)
        with self.assertRaises(ValueError):
            account.post(-1)
        self.assertEqual(account.balance, -100)
