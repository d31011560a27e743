"""Nodes that read and write files of latents."""

from typing import Any

import numpy as np

from comfyrail.engine.builtin.embedding import texts_to_embed
from comfyrail.engine.builtin.input_files import InputFiles
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.latent_values import Latent
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.tensor_files import TensorFile, encode_tensors

_CATEGORY = "_for_testing"
_SUFFIX = ".latent"
_LATENTS = InputFiles("latent", "latent", (_SUFFIX,))
_SAMPLES = "latent_tensor"
_UNSCALED = "latent_format_version_0"
"""A tensor whose presence says that samples are as they are in a graph."""
_OLD_SCALE = np.float32(1.0 / 0.18215)


@node(
    "LoadLatent",
    required={"latent": ([],)},
    listed_choices={"latent": _LATENTS.choices},
    outputs=("LATENT",),
    category=_CATEGORY,
    check=_LATENTS.check,
    fingerprint=_LATENTS.fingerprint,
)
def load_latent(latent: str, context: NodeContext) -> Latent:
    file = TensorFile(_LATENTS.path(context.folders, latent))
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
