"""Answers like a ComfyUI, with nothing but the standard library: it starts in a moment.

Arguments: the port, and optionally a number of seconds after which it ends with exit code 3.
"""

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        stats = {"system": {"pid": os.getpid(), "greeting": os.environ.get("GREETING", "")}}
        body = json.dumps({**stats, "devices": [], "path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        if size:
            self.rfile.read(size)
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if len(sys.argv) > 2:
        threading.Timer(float(sys.argv[2]), os._exit, [3]).start()
    print("tiny worker starts", flush=True)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()


if __name__ == "__main__":
    main()
