"""Regular expressions from strangers, in a process of their own that is ended when it takes long.

A pattern can keep Python's matcher busy for ages, and nothing inside the same process can stop it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

LIMIT_SECONDS = 5.0
_LIMIT_BYTES = 1 << 30
_LOOK_SECONDS = 0.05

_PROGRAM = """
import json, re, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
except ImportError:
    pass
job = json.load(sys.stdin)
try:
    pattern = re.compile(job["pattern"], job["flags"])
    text = job["text"]
    if job["verb"] == "search":
        found = pattern.search(text)
        answer = found and [found.group(), *found.groups()]
    elif job["verb"] == "find all":
        answer = [[found.group(), *found.groups()] for found in pattern.finditer(text)]
    else:
        answer = pattern.sub(job["replacement"], text, count=job["count"])
    reply = {"answer": answer}
except (re.error, IndexError, OverflowError, RecursionError) as error:
    reply = {"fault": str(error)}
except MemoryError:
    reply = {"full": True}
json.dump(reply, sys.stdout)
"""

Groups = list[str | None]
"""A match: the whole of it, then its groups; None for a group that took no part."""


class PatternInvalid(ValueError):
    """The pattern, or what is to replace it, cannot be read."""


def search(pattern: str, text: str, flags: int, check: Callable[[], None]) -> Groups | None:
    """The first match. `check` is called again and again, and may raise."""
    job = {"verb": "search", "pattern": pattern, "text": text, "flags": flags}
    found: Groups | None = _run(job, check)
    return found


def find_all(pattern: str, text: str, flags: int, check: Callable[[], None]) -> list[Groups]:
    job = {"verb": "find all", "pattern": pattern, "text": text, "flags": flags}
    found: list[Groups] = _run(job, check)
    return found


def replace(
    pattern: str, replacement: str, text: str, *, flags: int, count: int, check: Callable[[], None]
) -> str:
    """The text with up to `count` matches replaced, all of them for 0."""
    job = {"verb": "replace", "pattern": pattern, "text": text, "flags": flags}
    replaced: str = _run({**job, "replacement": replacement, "count": count}, check)
    return replaced


def _run(job: Mapping[str, Any], check: Callable[[], None]) -> Any:
    limits = [str(_LIMIT_BYTES), str(int(LIMIT_SECONDS) + 1)]
    with subprocess.Popen(  # noqa: S603 - our own program; what strangers wrote goes in as data
        [sys.executable, "-I", "-S", "-c", _PROGRAM, *limits],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            output = _wait(process, json.dumps(job).encode(), check)
        finally:
            process.kill()
    return _read_reply(output)


def _wait(process: subprocess.Popen[bytes], sent: bytes, check: Callable[[], None]) -> bytes:
    deadline = time.monotonic() + LIMIT_SECONDS
    rest: bytes | None = sent
    while True:
        try:
            return process.communicate(rest, timeout=_LOOK_SECONDS)[0]
        except subprocess.TimeoutExpired:
            # It was taken over by the first call, which the next ones continue.
            rest = None
            check()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"The regular expression took more than {LIMIT_SECONDS:.0f} s on this text. "
                    "Use a simpler one: repetitions inside of repetitions take very long."
                ) from None


def _read_reply(output: bytes) -> Any:
    reply = json.loads(output) if output else {"full": True}
    if "full" in reply:
        raise MemoryError("The regular expression took too much memory on this text. Use less.")
    if "fault" in reply:
        raise PatternInvalid(reply["fault"])
    return reply["answer"]
