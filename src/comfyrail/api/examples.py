"""Bodies that work, for the OpenAPI: each of them is sent to a server by a test."""

from typing import Any

JSON = dict[str, Any]

WORKFLOW: JSON = {
    "1": {
        "class_type": "EmptyImage",
        "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 3368601},
    },
    "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
    "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "blue"}},
}

EXECUTE: JSON = {
    "workflow": WORKFLOW,
    "input_params": {"1.width": 128},
    "priority": 7,
    "timeout": 120,
}

V2_EXECUTE: JSON = {
    "workflow": WORKFLOW,
    "input_params": {"1.width": 128},
    "execution_config": {"priority": 7, "timeout": 120, "max_retries": 1},
}

RETRY: JSON = {"priority": 8}
CHANGE: JSON = {"priority": 9}
CHECK: JSON = {"workflow": WORKFLOW, "input_params": {"1.width": 128}}

BATCH: JSON = {
    "name": "colours",
    "workflow": WORKFLOW,
    "grid": {"1.color": [3368601, 10053171], "1.width": [64, 128]},
}

PAUSE: JSON = {"reason": "new disk"}
SAVE_WORKFLOW: JSON = {"workflow": WORKFLOW, "description": "A blue picture."}
SCORE: JSON = {"execution_id": "01a1e08d-7d99-73bc-99d5-580b9460ea66", "score": 0.75}
ADD_WORKER: JSON = {"url": "http://127.0.0.1:8188", "labels": {"region": "attic"}}
