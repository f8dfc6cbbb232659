import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

hits, lock = {}, Lock()


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        name = re.fullmatch(r"/hit/([A-Za-z0-9-]+)", self.path)
        if not name:
            return self.answer(404)
        with lock:
            hits[name.group(1)] = hits.get(name.group(1), 0) + 1
        return self.answer(204)

    def do_GET(self):
        if self.path != "/hits":
            return self.answer(404)
        with lock:
            return self.answer(200, json.dumps(hits, sort_keys=True).encode())


ThreadingHTTPServer(("127.0.0.1", 8077), Handler).serve_forever()
