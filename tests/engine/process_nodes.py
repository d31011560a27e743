"""Nodes that run in a process of their own: another process must be able to import them."""

import os
import signal
import subprocess
import time
from pathlib import Path

from comfyrail.engine.definition import node

INT = ("INT",)


@node("ProcessId", required={"value": INT}, outputs=INT, runs_in="process", cacheable=False)
def process_id(value: int) -> int:
    return os.getpid() if value else 0


@node("FailInProcess", required={"value": INT}, outputs=INT, runs_in="process")
def fail_in_process(value: int) -> int:
    raise ValueError(f"not {value}")


@node("DieInProcess", required={"value": INT}, outputs=INT, runs_in="process")
def die_in_process(value: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return value


@node("HangInProcess", required={"value": INT}, outputs=INT, runs_in="process", timeout=0.5)
def hang_in_process(value: int) -> int:
    time.sleep(60)
    return value


@node("SleepInProcess", required={"value": INT}, outputs=INT, runs_in="process")
def sleep_in_process(value: int) -> int:
    time.sleep(value)
    return value


@node("RunInProcess", required={"mark": ("STRING", {})}, outputs=INT, runs_in="process")
def run_in_process(mark: str) -> int:
    program = subprocess.Popen(["/bin/sleep", "60"])
    Path(f"{mark}.new").write_text(str(program.pid))
    Path(f"{mark}.new").rename(mark)
    return program.wait()


NODES = [process_id, fail_in_process, die_in_process, hang_in_process]
