"""Nodes that make, read and save sounds."""

import secrets
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from comfyrail.engine.builtin.embedding import texts_to_embed
from comfyrail.engine.builtin.input_files import InputFiles
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.sound_files import decode_sound, encode_sound, type_of_file
from comfyrail.engine.sound_values import (
    HIGHEST_RATE,
    LONGEST_SECONDS,
    Sound,
    rate_of,
    silence,
    sounds_of,
)

_CATEGORY = "audio"
_PREFIX = ("STRING", {"default": "audio/ComfyUI"})
_HIDDEN: Mapping[str, Literal["PROMPT", "EXTRA_PNGINFO"]] = {
    "prompt": "PROMPT",
    "extra_pnginfo": "EXTRA_PNGINFO",
}
_SOUNDS = InputFiles(
    "audio",
    "audio",
    (
        *(
            ".wav",
            ".mp3",
            ".flac",
            ".ogg",
            ".opus",
            ".m4a",
            ".aac",
            ".mp4",
            ".m4v",
            ".mov",
            ".webm",
        ),
        *(".mkv", ".avi"),
    ),
)
_TEMP_PREFIX = "ComfyUI_temp_" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))
_MP3_OPTIONS = {"V0": {"flags": "+qscale", "global_quality": "0"}, "128k": {}, "320k": {}}


@node(
    "EmptyAudio",
    required={
        "duration": (
            "FLOAT",
            {
                "default": 60.0,
                "min": 0.0,
                "max": LONGEST_SECONDS,
                "step": 0.01,
                "tooltip": "Duration of the empty audio clip in seconds",
            },
        ),
        "sample_rate": (
            "INT",
            {
                "default": 44100,
                "min": 1,
                "max": HIGHEST_RATE,
                "tooltip": "Sample rate of the empty audio clip.",
            },
        ),
        "channels": (
            "INT",
            {
                "default": 2,
                "min": 1,
                "max": 2,
                "tooltip": "Number of audio channels (1 for mono, 2 for stereo).",
            },
        ),
    },
    outputs=("AUDIO",),
    category=_CATEGORY,
    display_name="Empty Audio",
)
def empty_audio(duration: float, sample_rate: int, channels: int) -> dict[str, Any]:
    return silence(duration, sample_rate, channels)


@node(
    "LoadAudio",
    required={"audio": ([], {"audio_upload": True})},
    listed_choices={"audio": _SOUNDS.choices},
    outputs=("AUDIO",),
    category=_CATEGORY,
    display_name="Load Audio",
    check=_SOUNDS.check,
    fingerprint=_SOUNDS.fingerprint,
)
def load_audio(audio: str, context: NodeContext) -> dict[str, Any]:
    from comfyrail.engine.containers import opened_container  # noqa: PLC0415 - loads PyAV

    path = _SOUNDS.path(context.folders, audio)
    with opened_container(path, type_of_file(path)) as container:
        if not container.streams.audio:
            raise ValueError("There is no sound in the file.")
        samples, rate = decode_sound(container, context.check_interrupt)
    return {"waveform": samples[None], "sample_rate": rate}


@node(
    "SaveAudio",
    required={"audio": ("AUDIO",), "filename_prefix": _PREFIX},
    hidden=_HIDDEN,
    is_output=True,
    category=_CATEGORY,
    display_name="Save Audio (FLAC)",
)
def save_audio(
    audio: Sound, filename_prefix: str, prompt: Any, extra_pnginfo: Any, context: NodeContext
) -> NodeResult:
    texts = texts_to_embed(prompt, extra_pnginfo, context.folders)
    return _save(audio, filename_prefix, texts, context, codec="flac", suffix=".flac")


@node(
    "PreviewAudio",
    required={"audio": ("AUDIO",)},
    hidden=_HIDDEN,
    is_output=True,
    category=_CATEGORY,
    display_name="Preview Audio",
)
def preview_audio(
    audio: Sound, prompt: Any, extra_pnginfo: Any, context: NodeContext
) -> NodeResult:
    texts = texts_to_embed(prompt, extra_pnginfo, context.folders)
    return _save(audio, _TEMP_PREFIX, texts, context, codec="flac", suffix=".flac", kind="temp")


@node(
    "SaveAudioMP3",
    required={
        "audio": ("AUDIO",),
        "filename_prefix": _PREFIX,
        "quality": (list(_MP3_OPTIONS), {"default": "V0"}),
    },
    hidden=_HIDDEN,
    is_output=True,
    category=_CATEGORY,
    display_name="Save Audio (MP3)",
)
def save_mp3(
    *,
    audio: Sound,
    filename_prefix: str,
    quality: str,
    prompt: Any,
    extra_pnginfo: Any,
    context: NodeContext,
) -> NodeResult:
    texts = texts_to_embed(prompt, extra_pnginfo, context.folders)
    return _save(
        audio,
        filename_prefix,
        texts,
        context,
        codec="libmp3lame",
        suffix=".mp3",
        bit_rate=None if quality == "V0" else _bits(quality),
        options=_MP3_OPTIONS[quality],
    )


@node(
    "SaveAudioOpus",
    required={
        "audio": ("AUDIO",),
        "filename_prefix": _PREFIX,
        "quality": (["64k", "96k", "128k", "192k", "320k"], {"default": "128k"}),
    },
    hidden=_HIDDEN,
    is_output=True,
    category=_CATEGORY,
    display_name="Save Audio (Opus)",
)
def save_opus(
    *,
    audio: Sound,
    filename_prefix: str,
    quality: str,
    prompt: Any,
    extra_pnginfo: Any,
    context: NodeContext,
) -> NodeResult:
    texts = texts_to_embed(prompt, extra_pnginfo, context.folders)
    return _save(
        audio,
        filename_prefix,
        texts,
        context,
        codec="libopus",
        suffix=".opus",
        bit_rate=_bits(quality),
    )


def _bits(quality: str) -> int:
    """`128k` a second."""
    return int(quality.removesuffix("k")) * 1000


def _save(
    sound: Sound,
    prefix: str,
    texts: Mapping[str, str],
    context: NodeContext,
    *,
    codec: str,
    suffix: str,
    kind: Literal["output", "temp"] = "output",
    bit_rate: int | None = None,
    options: Mapping[str, str] | None = None,
) -> NodeResult:
    root: Path = getattr(context.folders, kind)
    filled = fill_in_tokens(prefix, width=0, height=0, at=context.clock.now())
    saved = []
    for index, samples in enumerate(sounds_of(sound)):
        context.check_interrupt()
        content = encode_sound(
            samples,
            rate_of(sound),
            codec,
            texts,
            context.check_interrupt,
            bit_rate=bit_rate,
            options=options,
        )
        name = filled.replace("%batch_num%", str(index))
        file = context.output_names.save(root, name, content, suffix)
        saved.append({"filename": file.filename, "subfolder": file.subfolder, "type": kind})
    return NodeResult(ui={"audio": saved})


NODES = (empty_audio, load_audio, save_audio, preview_audio, save_mp3, save_opus)
