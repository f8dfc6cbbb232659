#!/bin/bash
set -e
cp /solution/counter.py /app/counter.py
setsid nohup python3 /app/counter.py > /app/counter.log 2>&1 < /dev/null &
for _ in $(seq 100); do
    python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8077/hits", timeout=1)' 2>/dev/null && exit 0
    sleep 0.05
done
echo "the counter does not answer"
exit 1
