"""Nodes that read and write files of latents."""

import os
from typing import Any

import numpy as np

from comfyrail.engine.builtin.embedding import texts_to_embed
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import InputCheck, Literals, NodeInputs, NodeResult, node
from comfyrail.engine.file_hash import content_hash
from comfyrail.engine.folders import Folders
from comfyrail.engine.latent_values import Latent
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.tensor_files import TensorFile, encode_tensors

_CATEGORY = "_for_testing"
_SUFFIX = ".latent"
_SAMPLES = "latent_tensor"
_UNSCALED = "latent_format_version_0"
"""A tensor whose presence says that samples are as they are in a graph."""
_OLD_SCALE = np.float32(1.0 / 0.18215)


def _list_latents(folders: Folders) -> list[str]:
    if not folders.input.is_dir():
        return []
    with os.scandir(folders.input) as entries:
        return sorted(
            entry.name for entry in entries if entry.is_file() and entry.name.endswith(_SUFFIX)
        )


def _find_missing_latent(literals: Literals, folders: Folders) -> str | None:
    path = folders.locate(str(literals["latent"]))
    return None if path and path.is_file() else f"Invalid latent file: {literals['latent']}"


def _hash_latent(inputs: NodeInputs) -> str:
    path = inputs.folders.locate(str(inputs.literals["latent"]))
    if path is None:
        raise FileNotFoundError(f"Invalid latent file: {inputs.literals['latent']}")
    return content_hash(path)


@node(
    "LoadLatent",
    required={"latent": ([],)},
    listed_choices={"latent": _list_latents},
    outputs=("LATENT",),
    category=_CATEGORY,
    check=InputCheck(("latent",), _find_missing_latent),
    fingerprint=_hash_latent,
)
def load_latent(latent: str, context: NodeContext) -> Latent:
    path = context.folders.locate(str(latent))
    if path is None:
        raise FileNotFoundError(f"Invalid latent file: {latent}")
    file = TensorFile(path)
    samples = file.read_floats(_SAMPLES)
    return {"samples": samples if _UNSCALED in file else samples * _OLD_SCALE}


@node(
    "SaveLatent",
    required={
        "samples": ("LATENT",),
        "filename_prefix": ("STRING", {"default": "latents/ComfyUI"}),
    },
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category=_CATEGORY,
)
def save_latent(
    samples: Latent, filename_prefix: str, prompt: Any, extra_pnginfo: Any, context: NodeContext
) -> NodeResult:
    content = encode_tensors(
        {_UNSCALED: np.zeros(0, np.float32), _SAMPLES: samples["samples"]},
        {"prompt": "", **texts_to_embed(prompt, extra_pnginfo, context.folders)},
    )
    prefix = fill_in_tokens(filename_prefix, width=0, height=0, at=context.clock.now())
    file = context.output_names.save(context.folders.output, prefix, content, _SUFFIX)
    shown = {"filename": file.filename, "subfolder": file.subfolder, "type": "output"}
    return NodeResult(ui={"latents": [shown]})


NODES = (load_latent, save_latent)
