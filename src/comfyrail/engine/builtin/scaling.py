"""Nodes that change the size of images."""

from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import RESAMPLING_METHODS, resize, resize_cropped

_METHODS = list(RESAMPLING_METHODS)
_SIDE = ("INT", {"default": 512, "min": 0, "max": LARGEST_SIDE, "step": 1})


@node(
    "ImageScale",
    required={
        "image": ("IMAGE",),
        "upscale_method": (_METHODS,),
        "width": _SIDE,
        "height": _SIDE,
        "crop": (["disabled", "center"],),
    },
    outputs=("IMAGE",),
    category="image/upscaling",
    display_name="Upscale Image",
    batches="image",
)
def scale_image(
    image: FloatArray, upscale_method: str, width: int, height: int, crop: str
) -> FloatArray:
    """A side of 0 follows the other one; both 0 leave the image as it is."""
    old_height, old_width = image.shape[1:3]
    if width == 0 and height == 0:
        return image
    if width == 0:
        width = max(1, round(old_width * height / old_height))
    elif height == 0:
        height = max(1, round(old_height * width / old_width))
    change = resize_cropped if crop == "center" else resize
    return change(image, width, height, upscale_method)


@node(
    "ImageScaleBy",
    required={
        "image": ("IMAGE",),
        "upscale_method": (_METHODS,),
        "scale_by": ("FLOAT", {"default": 1.0, "min": 0.01, "max": 8.0, "step": 0.01}),
    },
    outputs=("IMAGE",),
    category="image/upscaling",
    display_name="Upscale Image By",
    batches="image",
)
def scale_image_by(image: FloatArray, upscale_method: str, scale_by: float) -> FloatArray:
    height, width = image.shape[1:3]
    new_width, new_height = round(width * scale_by), round(height * scale_by)
    if new_width < 1 or new_height < 1:
        raise ValueError(
            f"scale_by {scale_by} would make an image of {width} by {height} vanish. Use more."
        )
    return resize(image, new_width, new_height, upscale_method)


NODES = (scale_image, scale_image_by)
