"""The engine behind ComfyUI's HTTP and WebSocket protocol."""

from comfyrail.engine.server.app import create_app, create_worker
from comfyrail.engine.server.run import WorkerSettings, run_worker

__all__ = ["WorkerSettings", "create_app", "create_worker", "run_worker"]
