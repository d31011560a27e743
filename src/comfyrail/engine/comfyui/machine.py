"""What a loaded ComfyUI knows of the machine and of the files on it."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any


class Machine:
    """Memory and devices as torch sees them, and the files of models."""

    def __init__(self) -> None:
        self._memory: Any = importlib.import_module("comfy.model_management")
        self._paths: Any = importlib.import_module("folder_paths")

    def stats(self) -> dict[str, Any]:
        """The parts of /system_stats that torch knows better: memory, and the device in use."""
        memory = self._memory
        device = memory.get_torch_device()
        processor = memory.torch.device("cpu")
        total, torch_total = memory.get_total_memory(device, torch_total_too=True)
        free, torch_free = memory.get_free_memory(device, torch_free_too=True)
        system = {
            "ram_total": memory.get_total_memory(processor),
            "ram_free": memory.get_free_memory(processor),
            "pytorch_version": str(memory.torch.__version__),
        }
        version = getattr(sys.modules.get("comfyui_version"), "__version__", None)
        if version is not None:
            system["comfyui_version"] = str(version)
        shown = {
            "name": memory.get_torch_device_name(device),
            "type": device.type,
            "index": device.index,
            "vram_total": total,
            "vram_free": free,
            "torch_vram_total": torch_total,
            "torch_vram_free": torch_free,
        }
        return {"system": system, "devices": [shown]}

    def model_folders(self) -> list[str]:
        """The kinds of models for which folders are configured."""
        return list(self._paths.folder_names_and_paths)

    def models(self, kind: str) -> Sequence[str] | None:
        """The files of one kind; None for a kind that there is not."""
        if kind not in self._paths.folder_names_and_paths:
            return None
        return [str(name) for name in self._paths.get_filename_list(kind)]

    def model_size(self, kind: str, name: str) -> int | None:
        """Bytes of a model's file; None where there is none."""
        path = self._paths.get_full_path(kind, name)
        try:
            return None if path is None else Path(path).stat().st_size
        except OSError:
            return None

    def embeddings(self) -> list[str]:
        """Embeddings as prompts name them: without the endings of their files."""
        return [str(PurePath(name).with_suffix("")) for name in self.models("embeddings") or ()]
