"""The routes of this surface. All but those in /internal, /editor and /api/jobs are below /api too:
see `paths`.
"""

from comfyrail.access.permissions import Permission
from comfyrail.api.comfyui import editor, jobs, userdata
from comfyrail.api.operations import Operation, Operations

_JSON = "application/json"
_READ, _WRITE = Permission.JOBS_READ, Permission.JOBS_WRITE
_NODES = Permission.FLEET_READ

OPERATIONS: Operations = {
    ("post", "/prompt"): Operation(
        _WRITE, "Queue a prompt", _JSON, body=_JSON, errors=(409, 413), is_submission=True
    ),
    ("get", "/prompt"): Operation(_READ, "How many prompts are open", _JSON),
    ("get", "/queue"): Operation(_READ, "What runs and what waits", _JSON),
    ("post", "/queue"): Operation(_WRITE, "Take prompts out of the queue", "", body=_JSON),
    ("post", "/interrupt"): Operation(_WRITE, "Stop what runs", ""),
    ("post", "/free"): Operation(_WRITE, "Free the workers' memory", ""),
    ("get", "/history"): Operation(_READ, "What has ended", _JSON),
    ("get", "/history/{prompt_id}"): Operation(_READ, "How a prompt has ended", _JSON),
    ("post", "/history"): Operation(_WRITE, "Hide what has ended", "", body=_JSON),
    ("get", jobs.JOBS): Operation(_READ, "List prompts", _JSON),
    ("get", jobs.JOB): Operation(_READ, "Show a prompt", _JSON, errors=(404,)),
    ("post", jobs.JOB + "/cancel"): Operation(_WRITE, "Cancel a prompt", _JSON, errors=(404,)),
    ("post", jobs.JOBS + "/cancel"): Operation(_WRITE, "Cancel prompts", _JSON, body=_JSON),
    ("get", "/ws"): Operation(_READ, "Follow prompts by WebSocket", "", 101, is_shown=False),
    ("get", "/view"): Operation(_READ, "A file", "application/octet-stream", errors=(404,)),
    ("post", "/upload/image"): Operation(
        Permission.ASSETS_WRITE, "Upload a file", _JSON, body="multipart/form-data", errors=(413,)
    ),
    ("post", "/upload/mask"): Operation(
        Permission.ASSETS_WRITE,
        "Upload a mask",
        _JSON,
        body="multipart/form-data",
        errors=(404, 413),
    ),
    ("get", "/object_info"): Operation(_NODES, "All node types", _JSON, other_statuses=(304,)),
    ("get", "/object_info/{node_class}"): Operation(_NODES, "One node type", _JSON),
    ("get", "/system_stats"): Operation(_NODES, "Devices of the fleet", _JSON),
    ("get", "/features"): Operation(None, "What the server can do", _JSON),
    ("get", "/embeddings"): Operation(_NODES, "Names of embeddings", _JSON),
    ("get", "/models"): Operation(_NODES, "Kinds of models", _JSON),
    ("get", "/models/{folder}"): Operation(_NODES, "Models of a kind", _JSON, errors=(404,)),
    ("get", "/experiment/models"): Operation(_NODES, "Kinds of models, described", _JSON),
    ("get", "/experiment/models/{folder}"): Operation(
        _NODES, "Models of a kind with sizes", _JSON, errors=(404,)
    ),
    ("get", "/view_metadata/{folder}"): Operation(
        _NODES, "What a model's file says of itself", _JSON, errors=(404,)
    ),
    ("get", "/settings"): Operation(_READ, "Settings of the editor", _JSON),
    ("post", "/settings"): Operation(_WRITE, "Change settings", "", body=_JSON),
    ("get", "/settings/{setting:path}"): Operation(_READ, "A setting", _JSON),
    ("post", "/settings/{setting:path}"): Operation(_WRITE, "Change a setting", "", body=_JSON),
    ("get", "/users"): Operation(_READ, "Who uses the editor", _JSON),
    ("post", "/users"): Operation(_WRITE, "Not here", _JSON),
    ("get", "/userdata"): Operation(_READ, "Files of the editor", _JSON, errors=(404,)),
    ("get", "/v2/userdata"): Operation(_READ, "Files of a folder", _JSON, errors=(404,)),
    ("get", userdata.USERDATA): Operation(_READ, "A file of the editor", "*/*", errors=(404,)),
    ("post", userdata.USERDATA): Operation(
        _WRITE, "Save or move a file of the editor", _JSON, body="*/*", errors=(404, 409, 413)
    ),
    ("delete", userdata.USERDATA): Operation(
        _WRITE, "Delete a file of the editor", "", 204, errors=(404,)
    ),
    ("get", "/extensions"): Operation(_READ, "Extensions of the editor", _JSON),
    ("get", "/workflow_templates"): Operation(_READ, "Templates of node packs", _JSON),
    ("get", "/i18n"): Operation(_READ, "Translations of node packs", _JSON),
    ("get", "/global_subgraphs"): Operation(_READ, "Subgraphs for all", _JSON),
    ("get", "/global_subgraphs/{subgraph_id}"): Operation(_READ, "One", _JSON, errors=(404,)),
    ("get", "/internal/logs"): Operation(_READ, "Log", _JSON),
    ("get", "/internal/logs/raw"): Operation(_READ, "Log in lines", _JSON),
    ("patch", "/internal/logs/subscribe"): Operation(_READ, "Follow the log", ""),
    ("get", "/internal/folder_paths"): Operation(_READ, "Folders of models", _JSON),
    ("get", "/internal/files/{kind}"): Operation(_READ, "Names of own files", _JSON),
    ("get", editor.EDITOR): Operation(None, "ComfyUI's editor", "text/html", 307, is_shown=False),
    ("get", editor.FILE): Operation(
        None, "A file of the editor", "*/*", errors=(404,), is_shown=False
    ),
}
