"""Nodes that load images from files."""

import numpy as np
from PIL import Image

from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.builtin.input_files import InputFiles
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import define_node, node
from comfyrail.engine.picture_files import frames_of, open_picture, to_mode, upright
from comfyrail.engine.pixels import FloatArray, to_floats

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
_IMAGES = InputFiles("image", "image", IMAGE_SUFFIXES)
MASK_WITHOUT_ALPHA = 64
"""ComfyUI's mask of an image that has no alpha: this many zeros squared, whatever its size."""
_CAPTURED_SIDE = ("INT", {"default": 0, "min": 0, "max": LARGEST_SIDE, "step": 1})


def _load_frames(image: str, context: NodeContext) -> tuple[FloatArray, FloatArray]:
    """All frames of an image file, turned as its EXIF says, and what is transparent in them."""
    frames: list[FloatArray] = []
    masks: list[FloatArray] = []
    with open_picture(_IMAGES.path(context.folders, image)) as picture:
        for raw in frames_of(picture):
            context.check_interrupt()
            frame = upright(raw)
            pixels = to_floats(to_mode(frame, "RGB"))
            if frames and pixels.shape != frames[0].shape:
                continue
            frames.append(pixels)
            masks.append(_mask_of(frame))
    return np.stack(frames), np.stack(masks)


def _mask_of(frame: Image.Image) -> FloatArray:
    if frame.mode == "P" and "transparency" in frame.info:
        frame = frame.convert("RGBA")
    if "A" in frame.getbands():
        return np.float32(1) - to_floats(frame.getchannel("A"))
    return np.zeros((MASK_WITHOUT_ALPHA, MASK_WITHOUT_ALPHA), np.float32)


load_image = define_node(
    "LoadImage",
    _load_frames,
    required={"image": ([], {"image_upload": True})},
    listed_choices={"image": _IMAGES.choices},
    outputs=("IMAGE", "MASK"),
    category="image",
    display_name="Load Image",
    check=_IMAGES.check,
    fingerprint=_IMAGES.fingerprint,
)

load_image_output = define_node(
    "LoadImageOutput",
    _load_frames,
    required={
        "image": (
            "COMBO",
            {
                "image_upload": True,
                "image_folder": "output",
                "remote": {
                    "route": "/internal/files/output",
                    "refresh_button": True,
                    "control_after_refresh": "first",
                },
            },
        )
    },
    outputs=("IMAGE", "MASK"),
    category="image",
    display_name="Load Image (from Outputs)",
    experimental=True,
    check=load_image.check,
    fingerprint=_IMAGES.fingerprint,
)


@node(
    "WebcamCapture",
    required={
        "image": ("WEBCAM", {}),
        "width": _CAPTURED_SIDE,
        "height": _CAPTURED_SIDE,
        "capture_on_queue": ("BOOLEAN", {"default": True}),
    },
    outputs=("IMAGE",),
    category="image",
    display_name="Webcam Capture",
    check=load_image.check,
    fingerprint=_IMAGES.fingerprint,
)
def load_capture(
    *, image: str, width: int, height: int, capture_on_queue: bool, context: NodeContext
) -> FloatArray:
    """The picture that the editor has taken and uploaded; the rest is for the editor."""
    del width, height, capture_on_queue
    return _load_frames(image, context)[0]


NODES = (load_image, load_image_output, load_capture)
