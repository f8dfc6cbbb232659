"""Makes the database as the power cut left it: 180 orders in the file, 47 more and 9 cancellations only in the log."""

import os
import random
import sqlite3
import sys

path = sys.argv[1]
dice = random.Random(20)
items = ["lamp", "desk", "chair", "shelf", "clock", "mirror"]
database = sqlite3.connect(path, isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("PRAGMA wal_autocheckpoint=0")
database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, cents INTEGER NOT NULL)")


def add(first, last):
    rows = [(i, dice.choice(items), dice.randrange(500, 90000)) for i in range(first, last + 1)]
    database.execute("BEGIN")
    database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    database.execute("COMMIT")


add(1, 180)
database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
add(181, 227)
database.execute("DELETE FROM orders WHERE id % 25 = 0")
with open(path + "-wal", "r+b") as log:
    log.write(b"\xff\xff\xff\xff")
os.remove(path + "-shm")
os._exit(0)  # as the power cut: nothing is closed
