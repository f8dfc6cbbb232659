#!/bin/bash
# The counter is right, answers now, and goes with the session that started it.
cat > /app/counter.py <<'PY'
import json, re
from http.server import BaseHTTPRequestHandler, HTTPServer
hits = {}
class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_POST(self):
        name = re.fullmatch(r"/hit/([A-Za-z0-9-]+)", self.path)
        if not name: return self.answer(404)
        hits[name.group(1)] = hits.get(name.group(1), 0) + 1
        self.answer(204)
    def do_GET(self):
        self.answer(200, json.dumps(hits, sort_keys=True).encode()) if self.path == "/hits" else self.answer(404)
HTTPServer(("127.0.0.1", 8077), Handler).serve_forever()
PY
python3 /app/counter.py > /app/counter.log 2>&1 &
for _ in $(seq 100); do
    python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:8077/hits", timeout=1).read())' 2>/dev/null && break
    sleep 0.05
done
