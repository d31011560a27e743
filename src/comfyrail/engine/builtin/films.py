"""Nodes that make, read and save films."""

from collections.abc import Mapping
from typing import Any, Literal

from comfyrail.engine.builtin.embedding import texts_to_embed
from comfyrail.engine.builtin.input_files import InputFiles
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.film_files import Film, decode_film, encode_mp4, encode_webm
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.sound_values import Sound
from comfyrail.workflow.catalog import OutputPort

_CATEGORY = "image/video"
_HIDDEN: Mapping[str, Literal["PROMPT", "EXTRA_PNGINFO"]] = {
    "prompt": "PROMPT",
    "extra_pnginfo": "EXTRA_PNGINFO",
}
_FILMS = InputFiles("file", "video", (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".ogv"))


@node(
    "CreateVideo",
    required={
        "images": ("IMAGE", {"tooltip": "The images to create a video from."}),
        "fps": ("FLOAT", {"default": 30.0, "min": 1.0, "max": 120.0, "step": 1.0}),
    },
    optional={"audio": ("AUDIO", {"tooltip": "The audio to add to the video."})},
    outputs=("VIDEO",),
    category=_CATEGORY,
    display_name="Create Video",
    description="Create a video from images.",
    schema="v3",
)
def create_video(images: FloatArray, fps: float, audio: Sound | None = None) -> dict[str, Any]:
    return {"images": images, "audio": audio, "frame_rate": float(fps)}


@node(
    "GetVideoComponents",
    required={"video": ("VIDEO", {"tooltip": "The video to extract components from."})},
    outputs=(
        OutputPort("images", "IMAGE"),
        OutputPort("audio", "AUDIO"),
        OutputPort("fps", "FLOAT"),
    ),
    category=_CATEGORY,
    display_name="Get Video Components",
    description="Extracts all components from a video: frames, audio, and framerate.",
    schema="v3",
)
def get_video_components(video: Film) -> tuple[FloatArray, Sound | None, float]:
    return video["images"], video["audio"], float(video["frame_rate"])


@node(
    "LoadVideo",
    required={"file": ([], {"multiselect": False, "video_upload": True})},
    listed_choices={"file": _FILMS.choices},
    outputs=("VIDEO",),
    category=_CATEGORY,
    display_name="Load Video",
    schema="v3",
    check=_FILMS.check,
    fingerprint=_FILMS.fingerprint,
)
def load_video(file: str, context: NodeContext) -> dict[str, Any]:
    return decode_film(_FILMS.path(context.folders, file), context.check_interrupt)


@node(
    "SaveVideo",
    required={
        "video": ("VIDEO", {"tooltip": "The video to save."}),
        "filename_prefix": (
            "STRING",
            {
                "tooltip": "The prefix of the file's name. It may have folders and tokens in it, "
                "such as %width% and %year%.",
                "default": "video/ComfyUI",
                "multiline": False,
            },
        ),
        "format": (
            "COMBO",
            {
                "tooltip": "The format to save the video as.",
                "default": "auto",
                "multiselect": False,
                "options": ["auto", "mp4"],
            },
        ),
        "codec": (
            "COMBO",
            {
                "tooltip": "The codec to use for the video.",
                "default": "auto",
                "multiselect": False,
                "options": ["auto", "h264"],
            },
        ),
    },
    hidden=_HIDDEN,
    is_output=True,
    category=_CATEGORY,
    display_name="Save Video",
    description="Saves a video to the output folder.",
    schema="v3",
)
def save_video(
    *,
    video: Film,
    filename_prefix: str,
    format: str,  # noqa: A002 - ComfyUI's name
    codec: str,
    prompt: Any,
    extra_pnginfo: Any,
    context: NodeContext,
) -> NodeResult:
    """Both choices mean the same here: H.264 in MP4."""
    del format, codec
    texts = texts_to_embed(prompt, extra_pnginfo, context.folders)
    content = encode_mp4(video, texts, context.check_interrupt)
    return _save(video["images"], filename_prefix, content, ".mp4", context)


@node(
    "SaveWEBM",
    required={
        "images": ("IMAGE", {}),
        "filename_prefix": ("STRING", {"default": "ComfyUI", "multiline": False}),
        "codec": ("COMBO", {"multiselect": False, "options": ["vp9", "av1"]}),
        "fps": ("FLOAT", {"default": 24.0, "min": 0.01, "max": 1000.0, "step": 0.01}),
        "crf": (
            "FLOAT",
            {
                "tooltip": "Higher crf means lower quality with a smaller file size, lower crf "
                "means higher quality higher filesize.",
                "default": 32.0,
                "min": 0,
                "max": 63.0,
                "step": 1,
            },
        ),
    },
    hidden=_HIDDEN,
    is_output=True,
    category=_CATEGORY,
    schema="v3",
    experimental=True,
)
def save_webm(
    *,
    images: FloatArray,
    filename_prefix: str,
    codec: str,
    fps: float,
    crf: float,
    prompt: Any,
    extra_pnginfo: Any,
    context: NodeContext,
) -> NodeResult:
    texts = texts_to_embed(prompt, extra_pnginfo, context.folders)
    film = {"images": images, "audio": None, "frame_rate": fps}
    content = encode_webm(film, texts, codec, crf, context.check_interrupt)
    return _save(images, filename_prefix, content, ".webm", context)


def _save(
    images: FloatArray, prefix: str, content: bytes, suffix: str, context: NodeContext
) -> NodeResult:
    height, width = images.shape[1:3]
    filled = fill_in_tokens(prefix, width=width, height=height, at=context.clock.now())
    file = context.output_names.save(context.folders.output, filled, content, suffix)
    shown = {"filename": file.filename, "subfolder": file.subfolder, "type": "output"}
    return NodeResult(ui={"images": [shown], "animated": [True]})


NODES = (create_video, get_video_components, load_video, save_video, save_webm)
