"""Makes the bank's database: an import that ran, and then ran again until it broke off."""

import random
import sqlite3

dice = random.Random(77)
rows = []
for number in range(400):
    cash = dice.random() < 0.3
    day, account, cents = f"2026-03-{dice.randrange(1, 29):02d}", dice.randrange(1, 25), dice.choice([500, 1000, 2000, dice.randrange(100, 99999)])
    rows.append((day, account, cents, None if cash else f"R{dice.randrange(10**6):06d}", "cash" if cash else "transfer"))
for _ in range(30):  # the same cash again, on the same day: that happens
    rows.append(dice.choice([row for row in rows if row[3] is None]))
with sqlite3.connect("/app/bank.db") as bank:
    bank.executescript("""
        CREATE TABLE accounts (id INTEGER PRIMARY KEY, owner TEXT NOT NULL);
        CREATE TABLE payments (id INTEGER PRIMARY KEY, day TEXT, account INTEGER REFERENCES accounts(id), cents INTEGER, ref TEXT, kind TEXT, batch INTEGER);
        CREATE TABLE receipts (payment INTEGER REFERENCES payments(id), printed TEXT);
        CREATE TABLE batches (id INTEGER PRIMARY KEY, file TEXT, finished INTEGER);
    """)
    bank.executemany("INSERT INTO accounts VALUES (?, ?)", [(n, f"owner {n}") for n in range(1, 25)])
    bank.executemany("INSERT INTO batches VALUES (?, ?, ?)", [(1, "march.csv", 1), (2, "march.csv", 0)])
    for batch, upto in ((1, len(rows)), (2, 230)):
        bank.executemany("INSERT INTO payments (day, account, cents, ref, kind, batch) VALUES (?, ?, ?, ?, ?, ?)", [(*row, batch) for row in rows[:upto]])
    for (payment,) in bank.execute("SELECT id FROM payments ORDER BY id").fetchall():
        if dice.random() < 0.4:
            bank.execute("INSERT INTO receipts VALUES (?, '2026-04-01')", (payment,))
bank.close()
