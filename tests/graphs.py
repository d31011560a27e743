"""Small workflows for tests."""

from typing import Any

Graph = dict[str, dict[str, Any]]


def picture(color: int = 0x336699, width: int = 64, height: int = 48) -> Graph:
    """EmptyImage → ImageInvert → SaveImage: only node types that ComfyUI has too."""
    size = {"width": width, "height": height, "batch_size": 1, "color": color}
    return {
        "1": {"class_type": "EmptyImage", "inputs": size},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {
            "class_type": "SaveImage",
            "inputs": {"images": ["2", 0], "filename_prefix": "test"},
            "_meta": {"title": "Save"},
        },
    }


def slow_picture(seconds: float, color: int = 0x336699) -> Graph:
    """As `picture`, but it takes its time."""
    graph = picture(color)
    graph["9"] = {"class_type": "Delay", "inputs": {"value": ["2", 0], "seconds": seconds}}
    graph["3"]["inputs"]["images"] = ["9", 0]
    return graph
