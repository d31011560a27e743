"""Driver `static`: servers that are there before us and stay after us."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fleet.drivers.foreign_worker import foreign_worker
from tests.fleet.drivers.setting import Setting, host_context


def why_skipped() -> str | None:
    return None


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    async with host_context(folder) as context, foreign_worker() as one, foreign_worker() as two:
        yield Setting(
            context=context,
            config={"url": one.url},
            other_config={"url": two.url},
            kill=None,
            stop_ends_it=False,
            released_lives_on=True,
            has_logs=False,
            bad_configs=[
                ("url", {}),
                ("url", {"url": "ftp://127.0.0.1"}),
                ("url", {"url": 5}),
            ],
        )
