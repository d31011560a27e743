"""Telling a ComfyUI where the models are."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from comfyrail.fleet.model_files.manifest import ModelFile

PATHS_FILE = "model_paths.yaml"


def write_paths_file(folder: Path, models: Path, manifest: Sequence[ModelFile]) -> Path:
    """Write what ComfyUI's --extra-model-paths-config reads; return where it is. Blocks."""
    kinds = sorted({file.folder.partition("/")[0] for file in manifest})
    content = {"comfyrail": {"base_path": str(models), **{kind: kind for kind in kinds}}}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PATHS_FILE
    draft = path.with_name(f"{PATHS_FILE}.draft")
    draft.write_text(yaml.safe_dump(content), encoding="utf-8")
    return draft.replace(path)
