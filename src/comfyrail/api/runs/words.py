"""The one table between our words and those of the run API."""

from typing import Any

from comfyrail.api.contract import ErrorReply
from comfyrail.errors import ComfyrailError
from comfyrail.jobs.node_results import NodeStatus

NODE_STATUS_OF: dict[NodeStatus, str] = {
    NodeStatus.PENDING: "pending",
    NodeStatus.RUNNING: "running",
    NodeStatus.COMPLETED: "completed",
    NodeStatus.CACHED: "cached",
    NodeStatus.FAILED: "failed",
    NodeStatus.INTERRUPTED: "cancelled",
    NodeStatus.SKIPPED: "skipped",
}

DONE = frozenset((NodeStatus.COMPLETED, NodeStatus.CACHED))

SSH_SETTING_OF: dict[str, str] = {
    "host": "host",
    "port": "port",
    "username": "user",
    "key_file": "key_file",
    "passphrase_secret": "passphrase_secret",
    "known_hosts": "known_hosts",
    "comfyui_host": "remote_host",
    "comfyui_port": "remote_port",
    "output_folder": "output_folder",
}
"""Of the driver `ssh`, by the field of `ssh_connection`."""


def translate(body: ErrorReply, status: int, _error: ComfyrailError) -> tuple[Any, int]:
    """An error with the fields that every answer of this API has."""
    return {"success": False, "message": body.error.message, "error": body.error}, status
