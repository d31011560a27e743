"""A folder that looks like a ComfyUI checkout and starts something that answers like one."""

from pathlib import Path

QUICK_MAIN = '''
"""Answers like a ComfyUI, and has a child process as some packs have."""

import argparse
import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

flags = argparse.ArgumentParser()
flags.add_argument("--listen")
flags.add_argument("--port", type=int)
flags.add_argument("--disable-auto-launch", action="store_true")
flags.add_argument("--base-directory")
flags.add_argument("--extra-model-paths-config", nargs="+")
flags.add_argument("--deaf", action="store_true")
flags.add_argument("--fail", action="store_true")
flags.add_argument("--chatty", type=int, default=0)
chosen = flags.parse_args()
if chosen.fail:
    sys.exit("no weights anywhere")
# As the first process of a container it would not be ended by the default.
signal.signal(signal.SIGTERM, signal.SIG_IGN if chosen.deaf else lambda *_: os._exit(0))
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
for number in range(chosen.chatty):
    print("line", number, "x" * 1000)
print("flags", json.dumps(vars(chosen)))
print("environment", json.dumps(dict(os.environ)))


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        stats = {"system": {"pid": os.getpid(), "child": child.pid}, "devices": []}
        body = json.dumps(stats).encode()
        self.send_response(200 if self.path == "/system_stats" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer((chosen.listen, chosen.port), Answers).serve_forever()
'''

ENGINE_MAIN = '''
"""Starts an engine worker on the port that ComfyUI would have."""

import os
import sys

port = sys.argv[sys.argv.index("--port") + 1]
data = os.environ["WORKER_DATA"]
words = [sys.executable, "-m", "comfyrail", "worker", "--port", port, "--data", data]
os.execv(sys.executable, [*words, "--metrics-port", "0"])
'''


def make_checkout(folder: Path, main: str = QUICK_MAIN) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.py").write_text(main)
    return folder
