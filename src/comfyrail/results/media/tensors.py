"""Files of tensors, such as latents: their header says what is in them."""

import json
from typing import Any

from comfyrail.results.media.embedded_texts import graphs
from comfyrail.results.media.findings import Findings, short
from comfyrail.results.media.unusable import Unusable
from comfyrail.store.media import TensorFacts

LONGEST_HEADER = 8 << 20
MOST_TENSORS = 50
MOST_DIMENSIONS = 16
_LATENT = "latent_tensor"
_METADATA = "__metadata__"


def look_into(findings: Findings) -> None:
    findings.note(format="safetensors")
    header = _header_of(findings)
    metadata = header.pop(_METADATA, None)
    if isinstance(metadata, dict):
        texts = {str(name): text for name, text in metadata.items() if isinstance(text, str)}
        findings.keep_graphs(graphs(texts))
    tensors = [
        TensorFacts(
            name=short(name) or "", dtype=(short(each.get("dtype")) or "")[:20], shape=_shape(each)
        )
        for name, each in list(header.items())[:MOST_TENSORS]
        if isinstance(each, dict)
    ]
    findings.note(
        kind="latent" if _LATENT in header else "other",
        tensors=tensors,
        counts={"tensors": len(header)},
    )


def _header_of(findings: Findings) -> dict[str, Any]:
    with findings.path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= LONGEST_HEADER:
            raise Unusable("Its header is longer than is read here.")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise Unusable("Its header is no list of tensors.")
    return header


def _shape(tensor: dict[str, Any]) -> list[int]:
    shape = tensor.get("shape")
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        return []
    return [side for side in shape if isinstance(side, int) and 0 <= side < 1 << 53]
