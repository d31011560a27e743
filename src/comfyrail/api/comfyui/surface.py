"""Routes and operations of this surface."""

from fastapi import APIRouter

from comfyrail.api.comfyui import (
    editor,
    history,
    jobs,
    prompts,
    queue,
    sockets,
    system,
    uploads,
    userdata,
    view,
)
from comfyrail.api.comfyui.operations import OPERATIONS

__all__ = ["OPERATIONS", "ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    prompts.router,
    queue.router,
    history.router,
    jobs.router,
    view.router,
    uploads.router,
    system.router,
    userdata.router,
    sockets.router,
    editor.router,
)
