"""The page in a real Chromium: how soon it is there, and whether it stays smooth under load.

Beside it ComfyUI's own editor, sent by the same server to the same browser.
"""

import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.browser import chromium
from tests.graphs import slow_picture
from tests.processes import Comfyrail, server

ROUNDS = 7
WATCHED_SECONDS = 15
BUSY_WORKERS = 6
"""Each tells of its job's progress up to ten times a second."""

PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null"""
WATCH = """() => {
    window.longTasks = [];
    new PerformanceObserver((list) => {
        for (const each of list.getEntries()) window.longTasks.push(each.duration);
    }).observe({ type: "longtask", buffered: true });
}"""


async def smoothness() -> None:
    """Playwright's plain interface has a loop of its own: not beside the one of the benchmarks."""
    await asyncio.to_thread(_measure)


def _measure() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        data = Path(folder) / "data"
        with server(data, workers=BUSY_WORKERS) as process:
            process.wait_ready()
            _first_view(browser, process)
            _under_load(browser, process)


def _first_view(browser: Any, process: Comfyrail) -> None:
    shown = [_opened(browser, f"{process.url}/", "main h2") for _ in range(ROUNDS)]
    editor = [_opened(browser, f"{process.url}/editor/", "canvas") for _ in range(3)]
    for name, times in (("the page", shown), ("ComfyUI's editor", editor)):
        paint = statistics.median(each[0] for each in times)
        there = statistics.median(each[1] for each in times)
        print(f"  first view, {name:18} painted {paint:6.0f} ms, usable {there:6.0f} ms")
    ratio = statistics.median(each[1] for each in editor) / statistics.median(
        each[1] for each in shown
    )
    print(f"  the page is usable {ratio:.1f} times as soon (bar: under 1000 ms)")


def _opened(browser: Any, url: str, sign: str) -> tuple[float, float]:
    """Nothing is cached: a browser of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(url)
    page.locator(sign).first.wait_for()
    usable = float(page.evaluate("performance.now()"))
    painted = page.evaluate(PAINT)
    context.close()
    return float(painted or usable), usable


def _under_load(browser: Any, process: Comfyrail) -> None:
    jobs = [process.submit(slow_picture(120, color=each)) for each in range(BUSY_WORKERS)]
    for job_id in jobs:
        process.wait_for(job_id, "processing")
    for place in (f"#/jobs/{jobs[0]}", "#/jobs", "#/fleet", "#/fleet?tab=workers", "#/"):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        frames: list[int] = []
        page.on(
            "websocket", lambda line, got=frames: line.on("framereceived", lambda _: got.append(1))
        )
        page.goto(f"{process.url}/{place}")
        page.locator("main h1").first.wait_for()
        page.wait_for_timeout(1_000)
        page.evaluate(WATCH)
        before = len(frames)
        page.wait_for_timeout(WATCHED_SECONDS * 1_000)
        rate = (len(frames) - before) / WATCHED_SECONDS
        tasks = page.evaluate("window.longTasks")
        longest = max(tasks, default=0.0)
        print(
            f"  {place[:14]:14} {rate:5.1f} events/s: {len(tasks)} tasks above 50 ms, "
            f"longest {longest:.0f} ms (bar: 200 ms)"
        )
        context.close()
    process.end_all_jobs()
