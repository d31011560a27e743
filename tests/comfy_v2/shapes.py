"""The shapes of the official contract, written down here a second time, field by field."""

import re
from typing import Any

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
STATUSES = {"queued", "running", "succeeded", "canceling", "canceled", "failed", "expired"}
OUTPUT_TYPES = {"image", "video", "audio", "text", "file", "latent"}

PROGRESS = {
    "value": (int, float),
    "nodes_done": int,
    "nodes_total": int,
    "current_node": (str, None),
    "current_node_class": (str, None),
    "step": (int, None),
    "steps": (int, None),
    "message": (str, None),
}
OUTPUT = {
    "node_id": str,
    "name": str,
    "type": OUTPUT_TYPES,
    "content_type": str,
    "size_bytes": int,
    "id": str,
    "hash": (str, None),
    "url": re.compile(r"https?://[^/]+/api/v2/assets/[^/]+/content"),
    "url_expires_at": TIME,
    "job_id": (str, None),
}
JOB_ERROR = {
    "code": re.compile(r"[a-z_]+"),
    "message": str,
    "node_id": (str, None),
    "class_type": (str, None),
    "traceback": (str, None),
}
JOB = {
    "id": str,
    "status": STATUSES,
    "created_at": TIME,
    "started_at": (TIME, None),
    "completed_at": (TIME, None),
    "expires_at": TIME,
    "queue_position": (int, None),
    "progress": (PROGRESS, None),
    "outputs": [OUTPUT],
    "error": (JOB_ERROR, None),
    "metrics": {"queue_ms": (int, None), "execution_ms": (int, None)},
    "urls": {
        "self": re.compile(r"/api/v2/jobs/[^/]+"),
        "events": re.compile(r"/api/v2/jobs/[^/]+/events"),
        "cancel": re.compile(r"/api/v2/jobs/[^/]+/cancel"),
    },
    "metadata": dict,
    "comfyrail": dict,
}
SUMMARY = {
    "id": str,
    "status": STATUSES,
    "create_time": TIME,
    "update_time": TIME,
    "metadata": dict,
}
JOB_LIST = {"jobs": [SUMMARY], "next_cursor": (str, None)}
ASSET = {
    "id": str,
    "hash": (re.compile(r"blake3:[0-9a-f]{64}"), None),
    "size_bytes": int,
    "content_type": str,
    "file_path": (str, None),
    "created_at": TIME,
    "url": re.compile(r"https?://[^/]+/api/v2/assets/[^/]+/content"),
    "url_expires_at": TIME,
    "expires_at": (TIME, None),
    "job_id": (str, None),
}
MINTED = {**ASSET, "created_new": bool}
ERROR = {
    "code": re.compile(r"[a-z_]+"),
    "message": str,
    "details": dict,
    "category": str,
    "retry_after": (int, float, None),
    "timestamp": str,
    "request_id": str,
}
STATUS_EVENT = {"status": STATUSES, "queue_position": (int, None)}
LAST_STATUS_EVENT = {**STATUS_EVENT, "outputs": [OUTPUT]}
PREVIEW_EVENT = {"node_id": str, "content_type": str, "data_base64": str}
LOG_EVENT = {"level": str, "message": str}


def check(value: Any, shape: Any, where: str = "") -> Any:
    """The value, which has exactly this shape."""
    fault = _fault(value, shape, where)
    assert fault is None, fault
    return value


def check_error(status: int, body: Any, code: str, expected: int) -> dict[str, Any]:
    """The details of an error in the contract's envelope."""
    assert set(body) == {"error"}
    error = check(body["error"], ERROR, "error")
    assert (status, error["code"]) == (expected, code), error
    details = error["details"]
    assert isinstance(details, dict)
    return details


def _fault(value: Any, shape: Any, where: str) -> str | None:
    """What is wrong with it."""
    if isinstance(shape, tuple):
        faults = [_fault(value, each, where) for each in shape]
        return None if None in faults else "; or ".join(str(fault) for fault in faults)
    if isinstance(shape, dict) and isinstance(value, dict) and set(shape) == set(value):
        parts = [_fault(value[name], shape[name], f"{where}.{name}") for name in shape]
    elif isinstance(shape, list) and isinstance(value, list):
        parts = [_fault(each, shape[0], f"{where}[]") for each in value]
    else:
        parts = [None if _fits(value, shape) else f"{where}: {value!r} is not {shape!r}"]
    return next((fault for fault in parts if fault), None)


def _fits(value: Any, shape: Any) -> bool:
    match shape:
        case set():
            return value in shape
        case re.Pattern():
            return isinstance(value, str) and shape.fullmatch(value) is not None
        case type():
            return isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
        case _:
            return shape is None and value is None
