"""Node types that exist in the editor alone: no worker knows them."""

from typing import Final

REROUTE_TYPES: Final = frozenset({"Reroute", "Reroute (rgthree)", "SetNode", "easy setNode"})
"""What comes in goes out."""

NAMED_SOURCES: Final = {"GetNode": "SetNode", "easy getNode": "easy setNode"}
"""Gives what the node of the other type with the same name takes."""

PRIMITIVE: Final = "PrimitiveNode"

REMARK_TYPES: Final = frozenset(
    {
        "Note",
        "MarkdownNote",
        "Label (rgthree)",
        "Bookmark (rgthree)",
        "Fast Muter (rgthree)",
        "Fast Bypasser (rgthree)",
        "Fast Groups Muter (rgthree)",
        "Fast Groups Bypasser (rgthree)",
        "Fast Actions Button (rgthree)",
        "Mute / Bypass Relay (rgthree)",
        "Mute / Bypass Repeater (rgthree)",
        "Node Collector (rgthree)",
        "Random Unmuter (rgthree)",
    }
)

FRONT_END_TYPES: Final = REROUTE_TYPES | REMARK_TYPES | frozenset({*NAMED_SOURCES, PRIMITIVE})
"""In a workflow of the API format these are types like any others."""

RENAMED_TYPES: Final = {
    "T2IAdapterLoader": "ControlNetLoader",
    "ConditioningAverage ": "ConditioningAverage",
    "SDV_img2vid_Conditioning": "SVD_img2vid_Conditioning",
    "Load3DAnimation": "Load3D",
    "Preview3DAnimation": "Preview3D",
}
"""Types of old files, as the editor reads them today."""
