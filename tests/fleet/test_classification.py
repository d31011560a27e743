"""What workers and drivers report is told apart [7.1]: code, category, advice, remedy.

`error_bodies` holds what a real ComfyUI answered.
"""

import ast
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from comfyrail import fleet
from comfyrail.errors import (
    DriverRefused,
    PromptRejected,
    RequestError,
    WorkerError,
    WorkerProtocolError,
    WorkerUnreachable,
)
from comfyrail.fleet import classification
from comfyrail.fleet.classification import (
    classify_end,
    classify_node_failure,
    classify_rejection,
    classify_worker_error,
    timed_out,
)
from comfyrail.fleet.comfyui.client import _rejection_message
from comfyrail.fleet.comfyui.history import NodeFailure, parse_history
from comfyrail.fleet.verdict import judge
from comfyrail.jobs.outcome import Cancelled, Completed, Failed
from comfyrail.jobs.recovery import RecoveryKind
from comfyrail.workflow.models import MODEL_SUFFIXES

BODIES = Path(__file__).parent / "error_bodies"

AGAIN, ELSEWHERE, MENDED = RecoveryKind.AGAIN, RecoveryKind.ELSEWHERE, RecoveryKind.MENDED
LESS_MEMORY = RecoveryKind.LESS_MEMORY
NODE, BROKEN, DEVICE = "NODE_FAILED", "WORKER_BROKEN", "DEVICE_FAILED"
DISK_FULL = "WORKER_DISK_FULL"

RECORDED: Mapping[str, tuple[str, str, RecoveryKind | None]] = {
    "disk_full": ("resource", "WORKER_DISK_FULL", ELSEWHERE),
    "file_missing_in_node": ("execution", "INPUT_FILE_MISSING", None),
    "input_missing": ("validation", "PROMPT_REJECTED", MENDED),
    "interrupted": ("execution", "INTERRUPTED", None),
    "model_bad_archive": ("resource", "MODEL_LOAD_FAILED", ELSEWHERE),
    "model_bad_pickle": ("resource", "MODEL_LOAD_FAILED", ELSEWHERE),
    "model_cut_off": ("resource", "MODEL_LOAD_FAILED", ELSEWHERE),
    "model_empty": ("resource", "MODEL_LOAD_FAILED", ELSEWHERE),
    "model_gone_since_listed": ("resource", "MODEL_MISSING", ELSEWHERE),
    "model_header_too_large": ("resource", "MODEL_LOAD_FAILED", ELSEWHERE),
    "model_invalid_header": ("resource", "MODEL_LOAD_FAILED", ELSEWHERE),
    "model_not_listed": ("resource", "MODEL_MISSING", ELSEWHERE),
    "model_of_no_known_type": ("resource", "MODEL_LOAD_FAILED", ELSEWHERE),
    "network_error": ("execution", "NODE_NETWORK_ERROR", AGAIN),
    "no_outputs": ("validation", "PROMPT_REJECTED", MENDED),
    "node_type_unknown": ("execution", "NODE_TYPE_MISSING", ELSEWHERE),
    "out_of_memory_cpu": ("resource", "OUT_OF_MEMORY", LESS_MEMORY),
    "out_of_memory_torch": ("resource", "OUT_OF_MEMORY", LESS_MEMORY),
    "picture_missing": ("execution", "INPUT_FILE_MISSING", None),
    "runtime_error": ("execution", "NODE_FAILED", AGAIN),
    "shapes": ("execution", "NODE_FAILED", MENDED),
    "value_error": ("execution", "NODE_FAILED", MENDED),
    "value_too_large": ("validation", "PROMPT_REJECTED", MENDED),
}


def models_in(prompt: Mapping[str, Any], node_id: str) -> Collection[str]:
    values = prompt[node_id]["inputs"].values()
    return [each for each in values if isinstance(each, str) and each.endswith(MODEL_SUFFIXES)]


def kind_of(failed: Failed) -> RecoveryKind | None:
    return None if failed.remedy is None else failed.remedy.kind


def recorded(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((BODIES / f"{name}.json").read_text())
    return body


def classified(said: Mapping[str, Any]) -> Failed:
    if "rejection" in said:
        return classify_rejection(rejected(said["rejection"]))
    entry = parse_history({"p": said["history"]}, "p")
    assert entry is not None
    outcome = judge(entry, (), None, lambda node_id: models_in(said["prompt"], node_id))
    assert isinstance(outcome, Failed)
    return outcome


def rejected(body: Mapping[str, Any]) -> PromptRejected:
    return PromptRejected(_rejection_message(body), body)


def test_every_recorded_body_is_expected() -> None:
    assert {path.stem for path in BODIES.glob("*.json")} == set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_what_a_real_comfyui_answered_is_told_apart(name: str) -> None:
    failed = classified(recorded(name))
    fault = failed.fault
    assert (fault.category, fault.code, kind_of(failed)) == RECORDED[name]
    assert fault.suggested_action
    assert "{" not in fault.message
    if fault.code == "NODE_TYPE_MISSING":
        assert fault.details["node_type"] == "NodeThatNobodyHas"
        assert fault.details["node_id"] == "1"
    if fault.code.startswith("MODEL_"):
        (model,) = fault.details["models"]
        assert model in models_in(recorded(name)["prompt"], "1")
        assert model in fault.message


@pytest.mark.parametrize(
    ("kind", "message", "models", "code", "recovery"),
    [
        # Memory
        ("torch.cuda.OutOfMemoryError", "CUDA out of memory.", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("MemoryError", "", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("numpy._core._exceptions._ArrayMemoryError", "x", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("RuntimeError", "MPS backend out of memory", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("RuntimeError", "HIP out of memory. Tried", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("RuntimeError", "CUDA error: out of memory", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("torch.AcceleratorError", "CUDA error: out of memory", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("RuntimeError", "CUBLAS_STATUS_ALLOC_FAILED when", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("OSError", "[Errno 12] Cannot allocate memory", "m", "OUT_OF_MEMORY", LESS_MEMORY),
        ("ValueError", "Step failed: CUDA out of memory.", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("cv2.error", "(-4) Failed to allocate memory", (), "OUT_OF_MEMORY", LESS_MEMORY),
        ("RuntimeError", "Triton Error [CUDA]: out of memory", (), "OUT_OF_MEMORY", LESS_MEMORY),
        # Disk
        ("RuntimeError", "PytorchStreamWriter failed writing file", (), DISK_FULL, ELSEWHERE),
        ("OSError", "[Errno 122] Disk quota exceeded", (), "WORKER_DISK_FULL", ELSEWHERE),
        ("SafetensorError", "No space left on device", "m", "WORKER_DISK_FULL", ELSEWHERE),
        # Device
        ("RuntimeError", "CUDA error: an illegal memory access", (), "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "CUDA error: device-side assert", "m", "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "HIP error: unspecified launch", (), "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "no kernel image is available for", (), "DEVICE_FAILED", ELSEWHERE),
        ("torch.AcceleratorError", "whatever", (), "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "CUDA driver error: unknown error", (), "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "CUDA unknown error - this may be", (), "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "NVML_SUCCESS == r INTERNAL ASSERT", (), "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "Triton Error [CUDA]: device", (), "DEVICE_FAILED", ELSEWHERE),
        ("RuntimeError", "Unexpected error from cudaGetDeviceCount()", (), DEVICE, ELSEWHERE),
        # The rest of the worker
        ("AssertionError", "Torch not compiled with CUDA enabled", (), BROKEN, ELSEWHERE),
        (
            "AttributeError",
            "module 'torch' has no attribute 'float8_e4m3fn'",
            (),
            BROKEN,
            ELSEWHERE,
        ),
        ("OSError", "[Errno 30] Read-only file system: 'x.png'", (), BROKEN, ELSEWHERE),
        ("OSError", "[Errno 5] Input/output error", "m", BROKEN, ELSEWHERE),
        ("OSError", "[Errno 24] Too many open files", (), BROKEN, ELSEWHERE),
        ("PermissionError", "[Errno 13] Permission denied: 'output'", (), BROKEN, ELSEWHERE),
        ("RuntimeError", "can't start new thread", (), BROKEN, ELSEWHERE),
        ("AttributeError", "module 'numpy' has no attribute 'float'", (), NODE, ELSEWHERE),
        ("AttributeError", "'NoneType' object has no attribute 'shape'", (), NODE, MENDED),
        ("AssertionError", "", (), NODE, MENDED),
        # Words of a graph that are repeated
        ("re.error", "bad character in group name 'no space left on device'", (), NODE, MENDED),
        ("re.PatternError", "unknown extension: CUDA error: x", (), NODE, MENDED),
        ("ValueError", "no such style: [Errno 28] No space left on device", (), NODE, MENDED),
        ("Exception", "cannot open /home/cuda error: x/a.png", (), NODE, AGAIN),
        ("Exception", "cannot open /home/no space left on device", (), NODE, AGAIN),
        ("RuntimeError", "cannot open /home/cuda error/a.png", (), NODE, AGAIN),
        # Models
        ("RuntimeError", "Error(s) in loading state_dict for", "m", "MODEL_LOAD_FAILED", ELSEWHERE),
        ("SafetensorError", "HeaderTooLarge", "m", "MODEL_LOAD_FAILED", ELSEWHERE),
        ("Exception", "MetadataIncompleteBuffer", "m", "MODEL_LOAD_FAILED", ELSEWHERE),
        ("EOFError", "Ran out of input", "m", "MODEL_LOAD_FAILED", ELSEWHERE),
        ("RuntimeError", "the model x was not found", "m", "MODEL_MISSING", ELSEWHERE),
        ("FileNotFoundError", "No such file", "m", "MODEL_MISSING", ELSEWHERE),
        ("SafetensorError", "header too large", (), "NODE_FAILED", AGAIN),
        # Files, packages, network
        ("FileNotFoundError", "No such file", (), "INPUT_FILE_MISSING", None),
        ("av.error.FileNotFoundError", "x.mp4", (), "INPUT_FILE_MISSING", None),
        ("ModuleNotFoundError", "No module named 'x'", (), "NODE_FAILED", ELSEWHERE),
        ("urllib.error.URLError", "<urlopen error>", (), "NODE_NETWORK_ERROR", AGAIN),
        ("httpx.ReadTimeout", "", "m", "NODE_NETWORK_ERROR", AGAIN),
        ("aiohttp.client_exceptions.ClientError", "x", (), "NODE_NETWORK_ERROR", AGAIN),
        ("socket.gaierror", "[Errno -3] Temporary", (), "NODE_NETWORK_ERROR", AGAIN),
        ("OSError", "Connection reset by peer", (), "NODE_NETWORK_ERROR", AGAIN),
        # The graph's own
        ("KeyError", "'x'", (), "NODE_FAILED", MENDED),
        ("ZeroDivisionError", "division by zero", (), "NODE_FAILED", MENDED),
        ("PIL.UnidentifiedImageError", "cannot identify", (), "NODE_FAILED", MENDED),
        ("ValueError", "the text says out of memory", (), "NODE_FAILED", MENDED),
        ("ValueError", "the text says CUDA error", (), "NODE_FAILED", MENDED),
        ("RuntimeError", "Sizes of tensors must match", (), "NODE_FAILED", MENDED),
        ("RuntimeError", "expected scalar type Half", (), "NODE_FAILED", MENDED),
        # Who knows
        ("RuntimeError", "it went wrong", (), "NODE_FAILED", AGAIN),
        ("their_pack.OddError", "", (), "NODE_FAILED", AGAIN),
        ("", "", (), "NODE_FAILED", AGAIN),
        # Comfyrail's own engine
        (
            "comfyrail.engine.NeverFits",
            "",
            (),
            "INSUFFICIENT_RESOURCES",
            ELSEWHERE,
        ),
        ("graph.DependencyCycleError", "", (), "NODE_FAILED", MENDED),
    ],
)
def test_signs_of_nodes(
    kind: str, message: str, models: Collection[str], code: str, recovery: RecoveryKind | None
) -> None:
    failed = classify_node_failure(NodeFailure("7", "Sampler", kind, message), models)
    assert (failed.fault.code, kind_of(failed)) == (code, recovery)
    assert "Node '7' (Sampler)" in failed.fault.message
    assert failed.fault.details["exception_type"] == kind
    assert failed.fault.suggested_action


@pytest.mark.parametrize(
    ("kind", "message", "is_damaged"),
    [
        ("SafetensorError", "Error while deserializing header: header too large", True),
        ("_pickle.UnpicklingError", "invalid load key", True),
        ("zipfile.BadZipFile", "File is not a zip file", True),
        ("RuntimeError", "PytorchStreamReader failed reading zip archive", True),
        ("ValueError", "GGUF magic invalid", True),
        ("RuntimeError", "Error(s) in loading state_dict for X: size mismatch for y", False),
        ("RuntimeError", "ERROR: Could not detect model type of: x", False),
        ("KeyError", "'the text says corrupted'", False),
    ],
)
def test_damaged_model_is_told_from_one_that_does_not_fit_its_node(
    kind: str, message: str, is_damaged: bool
) -> None:
    fault = classify_node_failure(NodeFailure("1", "Load", kind, message), ["m"]).fault
    assert (fault.code, fault.details["damaged"]) == ("MODEL_LOAD_FAILED", is_damaged)
    assert ("damaged" if is_damaged else "choose the loader and the type") in fault.message


def test_worker_that_is_not_in_order_is_said_to_be_and_what_to_mend() -> None:
    failure = NodeFailure("9", "SaveImage", "OSError", "[Errno 30] Read-only file system: '/out'")
    fault = classify_node_failure(failure).fault
    assert fault.category == "system"
    assert fault.message.startswith(
        "Node '9' (SaveImage) failed because its worker is not in order: [Errno 30]"
    )
    assert "file system" in (fault.suggested_action or "")


def test_times_after_which_submitting_again_may_help_are_told() -> None:
    full = NodeFailure("1", "SaveImage", "OSError", "[Errno 28] No space left on device")
    broken = NodeFailure("1", "Load", "SafetensorError", "header too large")
    assert classify_node_failure(full).fault.retry_after == 300
    assert classify_node_failure(broken, ["a.safetensors"]).fault.retry_after == 120


# Refusals


def refusal(*errors: Mapping[str, Any], node_type: str = "X") -> PromptRejected:
    node = {"class_type": node_type, "errors": list(errors), "dependent_outputs": []}
    outer = {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed"}
    return rejected({"error": outer, "node_errors": {"5": node}})


def not_in_list(name: str, value: str, **options: bool) -> dict[str, Any]:
    extra = {"input_name": name, "input_config": [["a"], options], "received_value": value}
    return {"type": "value_not_in_list", "message": "m", "details": "d", "extra_info": extra}


BAD_VALUE = {"type": "value_bigger_than_max", "message": "m", "details": "d", "extra_info": {}}
BAD_PICTURE = {
    "type": "custom_validation_failed",
    "message": "Custom validation failed for node",
    "details": "image - Invalid image file: x.png",
    "extra_info": {"input_name": "image"},
}


@pytest.mark.parametrize(
    ("errors", "code", "recovery"),
    [
        ([not_in_list("ckpt_name", "a.safetensors")], "MODEL_MISSING", ELSEWHERE),
        ([not_in_list("vae_name", "fine")], "MODEL_MISSING", ELSEWHERE),
        ([not_in_list("whatever", "a.gguf")], "MODEL_MISSING", ELSEWHERE),
        ([not_in_list("sampler_name", "odd")], "PROMPT_REJECTED", MENDED),
        ([not_in_list("image", "x.png", image_upload=True)], "INPUT_FILE_MISSING", None),
        ([BAD_PICTURE], "INPUT_FILE_MISSING", None),
        ([not_in_list("ckpt_name", "a.ckpt"), BAD_PICTURE], "INPUT_FILE_MISSING", None),
        ([not_in_list("ckpt_name", "a.ckpt"), BAD_VALUE], "PROMPT_REJECTED", MENDED),
        ([BAD_PICTURE, BAD_VALUE], "PROMPT_REJECTED", MENDED),
    ],
)
def test_what_no_worker_would_take_weighs_more_than_what_this_one_lacks(
    errors: list[Mapping[str, Any]], code: str, recovery: RecoveryKind | None
) -> None:
    failed = classify_rejection(refusal(*errors))
    assert (failed.fault.code, kind_of(failed)) == (code, recovery)
    assert "worker_reply" in failed.fault.details


def test_later_comfyuis_name_the_missing_node_type_in_fields() -> None:
    error = {
        "type": "missing_node_type",
        "message": "Node 'Fancy Node' not found. The custom node may not be installed.",
        "details": "Node ID '#12'",
        "extra_info": {"node_id": "12", "class_type": "FancyNode", "node_title": "Fancy Node"},
    }
    failed = classify_rejection(rejected({"error": error, "node_errors": {}}))
    assert (failed.fault.code, kind_of(failed)) == ("NODE_TYPE_MISSING", ELSEWHERE)
    assert failed.fault.details["node_type"] == "FancyNode"
    assert failed.fault.details["node_id"] == "12"


def test_node_without_a_type_is_the_graphs_own_fault() -> None:
    message = "Cannot execute because a node is missing the class_type property."
    error = {"type": "invalid_prompt", "message": message, "details": "Node ID '#1'"}
    failed = classify_rejection(rejected({"error": error, "node_errors": {}}))
    assert (failed.fault.code, kind_of(failed)) == ("PROMPT_REJECTED", MENDED)


ODD_BODIES: list[dict[str, Any]] = [
    {},
    {"error": 5},
    {"error": "text", "node_errors": [1, 2]},
    {"error": {"type": ["a"]}, "node_errors": {"1": 5}},
    {"error": {"type": "missing_node_type", "extra_info": []}},
    {"node_errors": {"1": {"errors": [None, 5, {"extra_info": 7}]}}},
    {"node_errors": {"1": {"errors": [{"extra_info": {"input_config": [[], 9]}}]}}},
    {"cut": '{"error": {"type'},
]


@pytest.mark.parametrize("body", ODD_BODIES)
def test_refusal_of_wrong_types_is_still_a_refusal(body: dict[str, Any]) -> None:
    failed = classify_rejection(rejected(body))
    assert (failed.fault.category, failed.fault.code) == ("validation", "PROMPT_REJECTED")


# Ends


def test_ends_without_a_word() -> None:
    assert (classify_end("interrupted").fault.code, classify_end("interrupted").remedy) == (
        "INTERRUPTED",
        None,
    )
    unexplained = classify_end("error")
    assert (unexplained.fault.code, kind_of(unexplained)) == ("EXECUTION_FAILED", AGAIN)


def test_timeout_is_tried_with_more_time() -> None:
    failed = timed_out(12.5)
    assert (failed.fault.category, failed.fault.code) == ("timeout", "EXECUTION_TIMEOUT")
    assert kind_of(failed) is RecoveryKind.MORE_TIME
    assert failed.fault.details["timeout"] == 12.5
    assert "12.5 s" in failed.fault.message


def test_what_a_stopped_prompt_says_does_not_matter() -> None:
    entry = parse_history({"p": recorded("value_error")["history"]}, "p")
    assert entry is not None
    assert judge(entry, (), Cancelled()) == Cancelled()
    done = parse_history({"p": {"status": {"status_str": "success"}}}, "p")
    assert done is not None
    assert judge(done, (), Cancelled()) == Completed(())


# Workers and drivers


@pytest.mark.parametrize(
    ("error", "category", "recovery"),
    [
        (WorkerProtocolError("x", code="OUTPUT_MISSING"), "system", ELSEWHERE),
        (WorkerProtocolError("it answered 500"), "system", ELSEWHERE),
        (WorkerProtocolError("x", code="INPUT_UPLOAD_FAILED"), "system", ELSEWHERE),
        (WorkerProtocolError("x", code="OUTPUT_TOO_LARGE"), "execution", None),
        (WorkerUnreachable("gone"), "system", ELSEWHERE),
        (RequestError("x", code="INPUT_UNREADABLE"), "validation", None),
        (RequestError("x", code="INPUT_TOO_LARGE"), "validation", ELSEWHERE),
        (DriverRefused("x", code="NOVITA_KEY_REFUSED"), "validation", ELSEWHERE),
        (DriverRefused("x"), "validation", ELSEWHERE),
        (WorkerUnreachable("x", code="KUBERNETES_QUOTA"), "resource", ELSEWHERE),
        (WorkerUnreachable("x", details={"status": 429}), "resource", ELSEWHERE),
        (WorkerUnreachable("x", details={"status": 503}), "system", ELSEWHERE),
        (WorkerError("x", code="NEVER_HEARD_OF"), "system", ELSEWHERE),
    ],
)
def test_errors_of_workers_and_drivers(
    error: WorkerError, category: str, recovery: RecoveryKind | None
) -> None:
    failed = classify_worker_error(error)
    assert (failed.fault.category, failed.fault.code) == (category, error.code)
    assert kind_of(failed) is recovery
    assert failed.fault.message == error.message
    assert failed.fault.suggested_action


def test_time_that_a_cloud_asks_for_is_passed_on() -> None:
    error = WorkerUnreachable("busy", details={"status": 429}, retry_after=17)
    assert classify_worker_error(error).fault.retry_after == 17


WORKER_ERRORS = {"DriverRefused", "WorkerUnreachable", "WorkerError", "WorkerProtocolError"}
ABOUT_NO_WORKER = {"NO_LOG", "NO_WORKER_LOG"}
"""Answers to whoever asks for a log."""


def codes_of_worker_errors() -> set[str]:
    """All that the room's sources give to errors of workers and drivers."""
    found = set()
    for path in Path(str(fleet.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                codes = [each.value for each in node.keywords if each.arg == "code"]
                if node.func.id in WORKER_ERRORS:
                    found |= {str(each.value) for each in codes if isinstance(each, ast.Constant)}
    return found


def test_every_code_of_a_driver_has_its_row() -> None:
    codes = codes_of_worker_errors()
    assert len(codes) > 20, "the sources were not found"
    assert codes - ABOUT_NO_WORKER <= set(classification._TROUBLE_OF)
