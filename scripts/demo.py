"""`make run`: start a server, run an example through it, and leave the server running."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from comfyrail.client import ComfyrailClient

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "workflows" / "aurora" / "workflow.json"
RESULTS = ROOT / "out"
READY_LIMIT_SECONDS = 30.0


def main() -> int:
    port = os.environ.get("COMFYRAIL_PORT", "8080")
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "comfyrail"]
    with subprocess.Popen([*command, "serve", "--port", port]) as server:
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        try:
            if not asyncio.run(wait_ready(url, server)):
                return server.wait() or 1
            run = [*command, "run", str(EXAMPLE), "--server", url, "-o", str(RESULTS)]
            subprocess.run(run, check=False)
            print(f"\nThe picture above is the result. Comfyrail is open on {url}")
            print("Stop it with Ctrl-C.", flush=True)
            return server.wait()
        except KeyboardInterrupt:
            server.wait()
            return 0


async def wait_ready(url: str, server: "subprocess.Popen[bytes]") -> bool:
    """True when the server can run a job, False when it has ended or takes too long."""
    async with ComfyrailClient(url) as client, asyncio.timeout(READY_LIMIT_SECONDS):
        while server.poll() is None:
            if await client.is_ready():
                return True
            await asyncio.sleep(0.1)
    return False


if __name__ == "__main__":
    sys.exit(main())
