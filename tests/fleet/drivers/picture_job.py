"""A small job for a worker that really runs graphs."""

import asyncio

import aiohttp

from comfyrail.fleet.comfyui.client import ComfyClient

GRAPH = {
    "1": {
        "class_type": "EmptyImage",
        "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 0},
    },
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "a"}},
}


async def run_a_picture(url: str, http: aiohttp.ClientSession) -> bytes:
    """Submit it, wait for its end, and fetch what it made."""
    client = ComfyClient(url, http)
    await client.submit(GRAPH, "p1", "c1")
    async with asyncio.timeout(30):
        while await client.history("p1") is None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    async with http.get(f"{url}/view", params={"filename": "a_00001_.png"}) as reply:
        return await reply.read()
