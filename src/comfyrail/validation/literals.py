"""Whether a literal value can be an input: first whether it is sound JSON, then whether it fits.

The tests made here are asked for every input of every submission. A `QuickTest` says yes at once to
values as nearly all are; where it does not, `find_fault` looks closely.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from comfyrail.workflow.catalog import InputPort
from comfyrail.workflow.dynamic_inputs import DYNAMIC_COMBO
from comfyrail.workflow.file_inputs import FILE_CHOICES
from comfyrail.workflow.models import model_folder
from comfyrail.workflow.nearest import shown
from comfyrail.workflow.values import ValueFault, fit_value, unwrap

DEEPEST_VALUE = 100
SMALLEST_NUMBER = -(1 << 63)
LARGEST_NUMBER = (1 << 64) - 1
"""What ComfyUI's seeds reach, and what any JSON reader takes."""

_LINKED = """
AUDIO AUDIO_ENCODER AUDIO_ENCODER_OUTPUT CAMERA_CONTROL CLIP CLIP_VISION CLIP_VISION_OUTPUT
CONDITIONING CONTROL_NET GEMINI_INPUT_FILES GLIGEN GUIDER HOOKS HOOK_KEYFRAMES IMAGE LATENT
LATENT_OPERATION LATENT_UPSCALE_MODEL LORA_MODEL LOSS_MAP LUMA_CONCEPTS LUMA_REF MASK MESH MODEL
MODEL_PATCH NOISE OPENAI_CHAT_CONFIG OPENAI_INPUT_FILES PHOTOMAKER PIXVERSE_TEMPLATE RECRAFT_COLOR
RECRAFT_CONTROLS RECRAFT_V3_STYLE SAMPLER SIGMAS STYLE_MODEL SVG TIMESTEPS_RANGE TRACKS
UPSCALE_MODEL VAE VIDEO VOXEL WAN_CAMERA_EMBEDDING
"""
LINKED_TYPES = frozenset(_LINKED.split())
"""Types that no JSON value stands for: ComfyUI lets one pass, and the node then fails.

Those that ComfyUI's nodes give. A type of a custom node may have a widget of its own, of which
/object_info says nothing.
"""

TEXTS_FOR_FALSE = frozenset(("false", "no", "off", "0", "none", "null", "n", "f"))

QuickTest = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class LiteralFault:
    """Why a value cannot be an input. `text` ends a sentence that names the input.

    `fitting` is what the value is once it is converted, where that is the trouble.
    """

    reason: str
    text: str
    is_warning: bool = False
    fitting: Any = None


def quick_test(class_type: str, port: InputPort) -> QuickTest | None:
    """A test that says yes to values that surely fit; None where each has to be looked at."""
    if is_left_to_the_worker(class_type, port):
        return is_sound_text
    if port.choices is not None:
        return _choice_test(port.choices)
    if port.type in {"INT", "FLOAT"}:
        return _number_test(port)
    if port.type == "BOOLEAN":
        return lambda value: type(value) is bool
    return is_sound_text if port.type == "STRING" else None


def is_left_to_the_worker(class_type: str, port: InputPort) -> bool:
    """Whether a value names a file that only the worker can judge, or chooses from what the
    catalog does not have: an empty list is one that the worker's own page fills.
    """
    if port.takes_upload or (class_type, port.name) in FILE_CHOICES:
        return True
    return port.choices == () and model_folder(class_type, port, None) is None


def find_fault(class_type: str, port: InputPort | None, given: Any) -> LiteralFault | None:
    """Why this literal cannot be the input of this port; None for an input without a port."""
    fault = find_unsoundness(given)
    if fault is not None or port is None or port.type == DYNAMIC_COMBO:
        return fault
    if port.type in LINKED_TYPES:
        return _find_missing_link(port, given)
    if is_left_to_the_worker(class_type, port):
        return _find_missing_name(given)
    fitted = fit_value(port, unwrap(given))
    if isinstance(fitted, ValueFault):
        return _describe(class_type, port, fitted, given)
    return _find_fault_of_fitted(port, fitted, given)


def _find_missing_link(port: InputPort, given: Any) -> LiteralFault | None:
    if unwrap(given) is None and not port.required:
        return None
    text = f"takes a link to a node that gives {port.type}, not {shown(given)}."
    return LiteralFault("needs_link", text)


def _find_missing_name(given: Any) -> LiteralFault | None:
    """What only the worker can judge is at least a text."""
    if isinstance(unwrap(given), str):
        return None
    return LiteralFault("invalid_input_type", f"takes a name, not {shown(given)}.")


def _find_fault_of_fitted(port: InputPort, fitted: Any, given: Any) -> LiteralFault | None:
    """What ComfyUI lets pass, and should not."""
    value = unwrap(given)
    if isinstance(fitted, float) and not math.isfinite(fitted):
        return LiteralFault("invalid_input_type", f"takes a number, not {shown(given)}.")
    if type(fitted) is int and not SMALLEST_NUMBER <= fitted <= LARGEST_NUMBER:
        return LiteralFault("number_too_large", f"{shown(given)} has more than 64 bits.")
    if port.type == "BOOLEAN" and isinstance(value, str) and value.lower() in TEXTS_FOR_FALSE:
        text = f"the text {shown(value)} counts as true. Write true or false without quotes."
        return LiteralFault("text_for_boolean", text, is_warning=True, fitting=False)
    return None


def find_unsoundness(value: Any) -> LiteralFault | None:
    """Why a value is not JSON that every reader understands alike; without recursion."""
    waiting = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if depth > DEEPEST_VALUE:
            return LiteralFault("too_deep", f"is nested deeper than {DEEPEST_VALUE} levels.")
        if isinstance(each, dict):
            waiting.extend((key, depth) for key in each)
            waiting.extend((inner, depth + 1) for inner in each.values())
        elif isinstance(each, list | tuple):
            waiting.extend((inner, depth + 1) for inner in each)
        else:
            fault = _find_unsound_scalar(each)
            if fault is not None:
                return fault
    return None


def is_sound_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or has_utf8(value))


def has_utf8(text: str) -> bool:
    """Whether a text has no halves of characters: these cannot be sent to anyone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_unsound_scalar(value: Any) -> LiteralFault | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = f"{shown(value)} has halves of characters (surrogates)."
        return None if value.isascii() or has_utf8(value) else LiteralFault("bad_text", text)
    if isinstance(value, int):
        text = f"{shown(value)} has more than 64 bits."
        fits = SMALLEST_NUMBER <= value <= LARGEST_NUMBER
        return None if fits else LiteralFault("number_too_large", text)
    if isinstance(value, float):
        text = f"{value} is not a number that JSON knows."
        return None if math.isfinite(value) else LiteralFault("not_a_number", text)
    return LiteralFault("not_json", f"{type(value).__name__} is not a kind of JSON value.")


def _number_test(port: InputPort) -> QuickTest:
    low = SMALLEST_NUMBER if port.minimum is None else max(port.minimum, SMALLEST_NUMBER)
    high = LARGEST_NUMBER if port.maximum is None else min(port.maximum, LARGEST_NUMBER)
    if port.type == "INT":
        return lambda value: type(value) is int and low <= value <= high
    return lambda value: (type(value) is float or type(value) is int) and low <= value <= high


def _choice_test(choices: tuple[Any, ...]) -> QuickTest | None:
    texts = frozenset(choice for choice in choices if isinstance(choice, str))
    return lambda value: type(value) is str and value in texts


def _describe(
    class_type: str, port: InputPort, fault: ValueFault, given: Any
) -> LiteralFault | None:
    is_name = fault.kind == "value_not_in_list" and isinstance(fault.value, str)
    if is_name and model_folder(class_type, port, fault.value) is not None:
        return None  # a model that is not there: the semantic stage knows the workers
    got = shown(given)
    texts = {
        "invalid_input_type": f"expected {port.type}, got {got}.",
        "value_smaller_than_min": f"{got} is smaller than the minimum {port.minimum}.",
        "value_bigger_than_max": f"{got} is bigger than the maximum {port.maximum}.",
        "value_not_in_list": f"{got} is none of the {len(port.choices or ())} choices.",
    }
    return LiteralFault(fault.kind, texts[fault.kind], fitting=fault.value)
