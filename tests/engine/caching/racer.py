"""A worker process for tests: wants results that others want too, and says what it does.

It reads one JSON line: the settings of its cache and the keys that it wants. It prints one line
for each step: `computing`, `waiting`, `has KEY`. With "ask", it computes only when it is told to
by a line on standard input.
"""

import json
import os
import sys
from pathlib import Path

from comfyrail.engine.caching import CacheConfig, CachedResult, ResultCache, build_cache
from tests.engine.caching.cache_parts import image_result


def say(*words: str) -> None:
    print(*words, flush=True)


def obtain(cache: ResultCache, key: str, log: Path, *, ask: bool) -> CachedResult:
    """As the executor does it."""
    while (result := cache.get(key)) is None:
        reservation = cache.reserve(key)
        if reservation is None:
            say("waiting")
            result = cache.wait_for(key, lambda: False, 60)
            if result is not None:
                return result
            continue
        with reservation:
            say("computing")
            if ask:
                sys.stdin.readline()
            with log.open("a") as file:
                file.write(f"{os.getpid()} {key}\n")
            result = image_result(0.5, 128)
            cache.put(key, result)
    return result


def main() -> None:
    task = json.loads(sys.stdin.readline())
    if task["settings"].get("disk_path"):
        task["settings"]["disk_path"] = Path(task["settings"]["disk_path"])
    cache = build_cache(CacheConfig(**task["settings"]))
    say("ready")
    if task["start"]:
        sys.stdin.readline()
    for key in task["keys"]:
        result = obtain(cache, key, Path(task["log"]), ask=task["ask"])
        assert result.slots[0][0].mean() == 0.5
        say("has", key)
    cache.close()


if __name__ == "__main__":
    main()
