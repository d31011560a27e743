"""What clients can learn about the worker."""

import asyncio
import os
import sys
from typing import Any

from aiohttp import web

from comfyrail import __version__
from comfyrail.engine.registry import describe_node
from comfyrail.engine.server.replies import json_reply
from comfyrail.engine.server.worker import Worker
from comfyrail.workflow.comfyui_features import (
    COMFYUI_VERSION,
    FEATURES,
    MODEL_FOLDERS,
    NO_MODELS,
)


class InfoRoutes:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._engine = worker.executor

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/object_info", self.all_nodes),
            web.get("/object_info/{name}", self.one_node),
            web.get("/system_stats", self.system_stats),
            web.get("/features", self.features),
            web.get("/embeddings", self.embeddings),
            web.get("/extensions", self.empty_list),
            web.get("/models", self.model_folders),
            web.get("/models/{folder}", self.models),
            web.get("/experiment/models", self.described_folders),
            web.get("/experiment/models/{folder}", self.described_models),
            web.get("/comfyrail/packs", self.packs),
        ]

    async def all_nodes(self, _: web.Request) -> web.Response:
        # Some choices are the files of a folder.
        engine = self._engine
        return await asyncio.to_thread(
            lambda: json_reply(engine.registry.object_info(engine.folders))
        )

    async def one_node(self, request: web.Request) -> web.Response:
        definition = self._engine.registry.get(request.match_info["name"])
        if definition is None:
            return json_reply({})
        entry = await asyncio.to_thread(describe_node, definition, self._engine.folders)
        return json_reply({definition.name: entry})

    async def system_stats(self, _: web.Request) -> web.Response:
        special = await asyncio.to_thread(self._engine.surroundings.system_stats)
        stats = system_stats()
        stats["system"] |= special.get("system", {})
        return json_reply({**stats, "devices": special.get("devices", stats["devices"])})

    async def features(self, _: web.Request) -> web.Response:
        return json_reply(FEATURES)

    async def empty_list(self, _: web.Request) -> web.Response:
        return json_reply([])

    async def embeddings(self, _: web.Request) -> web.Response:
        return json_reply(await asyncio.to_thread(self._engine.surroundings.embeddings))

    async def model_folders(self, _: web.Request) -> web.Response:
        found = self._engine.surroundings.model_folders()
        return json_reply(MODEL_FOLDERS if found is None else found)

    async def models(self, request: web.Request) -> web.Response:
        folder = request.match_info["folder"]
        surroundings = self._engine.surroundings
        if surroundings.model_folders() is None:
            return json_reply([]) if folder in MODEL_FOLDERS else web.Response(status=404)
        found = await asyncio.to_thread(surroundings.models, folder)
        return web.Response(status=404) if found is None else json_reply(found)

    async def described_folders(self, _: web.Request) -> web.Response:
        folders = self._engine.surroundings.model_folders() or ()
        return json_reply(
            [{"name": name, "folders": []} for name in folders if name not in NO_MODELS]
        )

    async def described_models(self, request: web.Request) -> web.Response:
        """The models of a folder with their sizes."""
        folder = request.match_info["folder"]
        surroundings = self._engine.surroundings

        def describe() -> list[dict[str, Any]] | None:
            names = surroundings.models(folder)
            if names is None:
                return None
            sizes = ((name, surroundings.model_size(folder, name)) for name in names)
            return [{"name": name, "pathIndex": 0, "size": size} for name, size in sizes]

        found = await asyncio.to_thread(describe)
        return web.Response(status=404) if found is None else json_reply(found)

    async def packs(self, _: web.Request) -> web.Response:
        """Comfyrail's own: packs of nodes that could not be loaded, and why."""
        failures = self._worker.pack_failures
        return json_reply({"failures": [failure._asdict() for failure in failures]})


def system_stats() -> dict[str, Any]:
    """ComfyUI's form, the processor as the one device."""
    total, free = _memory_bytes()
    return {
        "system": {
            "os": sys.platform,
            "ram_total": total,
            "ram_free": free,
            "comfyui_version": COMFYUI_VERSION,
            "comfyrail_version": __version__,
            "python_version": sys.version,
            "pytorch_version": "none",
            "embedded_python": False,
            "argv": sys.argv,
        },
        "devices": [
            {
                "name": "cpu",
                "type": "cpu",
                "index": None,
                "vram_total": total,
                "vram_free": free,
                "torch_vram_total": total,
                "torch_vram_free": free,
            }
        ],
    }


def _memory_bytes() -> tuple[int, int]:
    """All and free memory; zeros where the system does not tell."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0, 0
