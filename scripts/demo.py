"""`make run`: start a server, run an example through it, and leave the server running."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "workflows" / "aurora" / "workflow.json"
RESULTS = ROOT / "out"
DEFAULT_SERVER = "http://127.0.0.1:8080"
"""Where commands look for a server that they are not told of."""
READY_LIMIT_SECONDS = 30.0


def main() -> int:
    port = os.environ.get("COMFYRAIL_PORT", "8080")
    command = [sys.executable, "-m", "comfyrail"]
    serve = [*command, "serve", "--port", port, "--announce"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        try:
            line = server.stdout.readline() if server.stdout else ""
            if not line:
                print("To use another port: COMFYRAIL_PORT=9100 make run", file=sys.stderr)
                return server.wait()
            url = str(json.loads(line)["url"])
            wait_ready(url)
            run = [*command, "run", str(EXAMPLE), "--server", url, "-o", str(RESULTS)]
            print(f"\n$ comfyrail run workflows/{EXAMPLE.parent.name}/workflow.json", flush=True)
            ended = subprocess.run(run, check=False)
            if ended.returncode == 0:
                print("\nThat is the picture. ", end="")
            print(f"Comfyrail is open on {url} until you stop it with Ctrl-C.", flush=True)
            if url != DEFAULT_SERVER:
                print(f"In another terminal: export COMFYRAIL_SERVER={url}", flush=True)
            return server.wait()
        except KeyboardInterrupt:
            return server.wait()


def wait_ready(url: str) -> None:
    """Return when the server can run a job, or after a while: the run then says what is wrong."""
    deadline = time.monotonic() + READY_LIMIT_SECONDS
    while time.monotonic() < deadline:
        try:
            with urlopen(f"{url}/ready", timeout=5):
                return
        except URLError:
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
