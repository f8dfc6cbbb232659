#!/bin/bash
# The text is right; page and log are those of an earlier one.
python3 /solution/search.py
tail -n 1 /app/page.log
