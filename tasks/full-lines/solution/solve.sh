#!/bin/bash
set -e
python3 /solution/search.py
python3 /app/typeset.py
cat /app/page.log
