"""`make bench`: figures of the hot paths, each beside a peer in the same run.

Run by hand on a quiet machine. Names of benchmarks as arguments run only those.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from bench import affinity, duration, engine, page, scheduling, service, validation, webhooks

BENCHMARKS: dict[str, Callable[[], Awaitable[None]]] = {
    "start": service.start,
    "submit": service.submit,
    "jobs": service.jobs,
    "engine": engine.chains,
    "overhead": engine.overhead,
    "duration": duration.predictions,
    "validation": validation.workflows,
    "scheduling": scheduling.rounds,
    "affinity": affinity.warm_models,
    "webhooks": webhooks.deliveries,
    "page": page.smoothness,
}


async def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"No benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
    for name, run in BENCHMARKS.items():
        if not names or name in names:
            print(f"\n{name}", flush=True)
            await run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
