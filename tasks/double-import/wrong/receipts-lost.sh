#!/bin/bash
# The right payments; the receipts of the others point to nothing.
sqlite3 /app/bank.db "DELETE FROM payments WHERE batch = 2;"
