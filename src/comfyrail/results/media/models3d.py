"""3D files: how much of what is in them."""

import json
import struct
from collections import Counter
from typing import Any

from comfyrail.results.media.findings import Findings, short
from comfyrail.results.media.unusable import Unusable

LONGEST_JSON = 32 << 20
LONGEST_TEXT = 256 << 20
LONGEST_HEADER = 1 << 16
_COUNTED = ("scenes", "nodes", "meshes", "materials", "textures", "images", "animations", "skins")
_OBJ_WORDS = {b"v": "vertices", b"f": "faces", b"o": "objects"}
_STL_HEAD = 84
_STL_TRIANGLE = 50


def look_into(findings: Findings) -> None:
    format_name = findings.content_type.partition("/")[2]
    match format_name:
        case "gltf-binary":
            findings.note(format="glb")
            _note_gltf(findings, _json_of_glb(findings))
        case "gltf+json":
            findings.note(format="gltf")
            _note_gltf(findings, _json_of_gltf(findings))
        case "obj":
            findings.note(format="obj", counts=_counts_of_obj(findings))
        case "stl":
            findings.note(format="stl", counts=_counts_of_stl(findings))
        case "ply":
            findings.note(format="ply", counts=_counts_of_ply(findings))
        case _:
            findings.note(format=format_name)


def _json_of_glb(findings: Findings) -> bytes:
    with findings.path.open("rb") as file:
        head = file.read(20)
        if len(head) < 20 or head[:4] != b"glTF" or head[16:20] != b"JSON":
            raise Unusable("It is broken: its header is not one of a GLB file.")
        (length,) = struct.unpack("<I", head[12:16])
        if length > LONGEST_JSON:
            raise Unusable("Its description is longer than is read here.")
        return file.read(length)


def _json_of_gltf(findings: Findings) -> bytes:
    if findings.path.stat().st_size > LONGEST_JSON:
        raise Unusable("It is longer than is read here.")
    return findings.path.read_bytes()


def _note_gltf(findings: Findings, content: bytes) -> None:
    described: Any = json.loads(content)
    if not isinstance(described, dict):
        raise Unusable("Its description is no JSON object.")
    counts = {name: len(described.get(name) or []) for name in _COUNTED}
    counts["vertices"] = _vertices(described)
    asset = described.get("asset")
    findings.note(
        counts={name: count for name, count in counts.items() if count},
        title=short(asset.get("generator")) if isinstance(asset, dict) else None,
    )


def _vertices(described: dict[str, Any]) -> int:
    """By the accessors that meshes name for positions; each counts once."""
    accessors = described.get("accessors") or []
    used = {
        primitive["attributes"]["POSITION"]
        for mesh in described.get("meshes") or []
        for primitive in mesh.get("primitives") or []
        if "POSITION" in primitive.get("attributes", {})
    }
    counts = (accessors[index].get("count") for index in used if 0 <= index < len(accessors))
    return sum(count for count in counts if isinstance(count, int) and 0 <= count < 1 << 40)


def _counts_of_obj(findings: Findings) -> dict[str, int]:
    counts: Counter[str] = Counter()
    with findings.path.open("rb") as file:
        while (line := file.readline(LONGEST_HEADER)) and file.tell() <= LONGEST_TEXT:
            word = _OBJ_WORDS.get(line[:2].rstrip())
            if word is not None:
                counts[word] += 1
    return dict(counts)


def _counts_of_stl(findings: Findings) -> dict[str, int]:
    size = findings.path.stat().st_size
    with findings.path.open("rb") as file:
        head = file.read(_STL_HEAD)
        if len(head) == _STL_HEAD:
            (triangles,) = struct.unpack("<I", head[80:])
            if size == _STL_HEAD + triangles * _STL_TRIANGLE:
                return {"faces": triangles}
        file.seek(0)
        faces = 0
        while (line := file.readline(LONGEST_HEADER)) and file.tell() <= LONGEST_TEXT:
            faces += line.lstrip().startswith(b"facet")
    return {"faces": faces}


def _counts_of_ply(findings: Findings) -> dict[str, int]:
    with findings.path.open("rb") as file:
        head = file.read(LONGEST_HEADER)
    if not head.startswith(b"ply"):
        raise Unusable("It is broken: its header is not one of a PLY file.")
    words = {"vertex": "vertices", "face": "faces"}
    counts = {}
    for line in head.partition(b"end_header")[0].decode("latin-1").splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[0] == "element" and parts[2].isdigit():
            counts[words.get(parts[1]) or (short(parts[1]) or "")[:40]] = min(
                int(parts[2][:18]), 1 << 50
            )
    return counts
