"""What workers and drivers report, and what it means [7.1]: the one table of signs.

A sign (an exception, a text, an error of ComfyUI's own) has a meaning: code, category, what is to
be done about it by whom. The first rule that fits decides. Bodies that a real ComfyUI has answered
are beside the tests, and the table is tried on them.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from comfyrail.errors import Category, ComfyrailError, PromptRejected
from comfyrail.fleet.comfyui.history import NodeFailure
from comfyrail.jobs.faults import SUGGESTED_ACTION, Fault
from comfyrail.jobs.outcome import Failed
from comfyrail.jobs.recovery import RecoveryKind, Remedy
from comfyrail.workflow.catalog import UPLOAD_FLAGS
from comfyrail.workflow.models import FOLDER_OF_CLASS, FOLDER_OF_INPUT, MODEL_SUFFIXES

MODELS = "models"
"""The detail under which a fault names the models that it is about."""
DAMAGED = "damaged"
"""The detail that tells whether a model that could not be loaded is a damaged file. Else it does
not fit its node, which may be the node's fault as well.
"""
MODELS_SHOWN = 3
DISK_FULL_SECONDS = 300.0
MODEL_LOAD_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a sign means. `message`: for people; `{said}` are the worker's own words, `{sentence}`
    the same as a sentence, `{advice}` what to do, `{node}`, `{models}` and `{type}` where and with
    what it happened. `recovery` None: trying again would be of no use.
    """

    code: str
    category: Category
    recovery: RecoveryKind | None
    advice: str
    message: str = "{node} failed: {said}"
    retry_after: float | None = None


_MEMORY = Meaning(
    code="OUT_OF_MEMORY",
    category="resource",
    recovery=RecoveryKind.LESS_MEMORY,
    advice="Make the pictures smaller or fewer at once, use a smaller or quantized model, or run "
    "it on a worker with more memory.",
    message="{node} ran out of memory on its worker: {sentence} {advice}",
)
_TOO_SMALL = Meaning(
    code="INSUFFICIENT_RESOURCES",
    category="resource",
    recovery=RecoveryKind.ELSEWHERE,
    advice="Let the node ask for less, or run it on a larger worker.",
)
_DISK = Meaning(
    code="WORKER_DISK_FULL",
    category="resource",
    recovery=RecoveryKind.ELSEWHERE,
    advice="Make room there, then submit the job again. Outputs and temporary files that are "
    "no longer needed can go.",
    message="{node} could not write: the disk of its worker is full ({said}). {advice}",
    retry_after=DISK_FULL_SECONDS,
)
_DEVICE = Meaning(
    code="DEVICE_FAILED",
    category="system",
    recovery=RecoveryKind.ELSEWHERE,
    advice="Start the worker anew; when it comes back, look at its driver and at the card.",
    message="{node} failed because the device of its worker did: {sentence} {advice}",
)
_BROKEN = Meaning(
    code="WORKER_BROKEN",
    category="system",
    recovery=RecoveryKind.ELSEWHERE,
    advice="Mend what the worker's machine or its installation lacks (rights and limits, its "
    "file system, its version of PyTorch), then start it anew. If the node was given a path, see "
    "that it leads where the worker may write.",
    message="{node} failed because its worker is not in order: {sentence} {advice}",
)
_NETWORK = Meaning(
    code="NODE_NETWORK_ERROR",
    category="execution",
    recovery=RecoveryKind.AGAIN,
    advice="See that the worker can reach what the node asks for, then submit the job again.",
    message="{node} could not reach what it asked for: {said}",
)
_MODEL_GONE = Meaning(
    code="MODEL_MISSING",
    category="resource",
    recovery=RecoveryKind.ELSEWHERE,
    advice="Put the file into the worker's folder of models, or choose a model that it has.",
    message="{node} did not find {models} on its worker: {sentence} {advice}",
)
_MODEL_BROKEN = Meaning(
    code="MODEL_LOAD_FAILED",
    category="resource",
    recovery=RecoveryKind.ELSEWHERE,
    advice="The file seems to be damaged: compare its checksum, fetch it anew, or choose another "
    "model.",
    message="{node} could not load {models} on its worker: {sentence} {advice}",
    retry_after=MODEL_LOAD_SECONDS,
)
_MODEL_UNFIT = replace(
    _MODEL_BROKEN,
    advice="The model may not be of the kind that the node loads: choose the loader and the type "
    "that it is made for, or another model. If it has worked here before, compare its checksum.",
)
_FILE_GONE = Meaning(
    code="INPUT_FILE_MISSING",
    category="execution",
    recovery=None,
    advice="Upload the file, or correct its name, then submit the job again.",
    message="{node} lacks a file: {sentence} {advice}",
)
_PACKAGE_GONE = Meaning(
    code="NODE_FAILED",
    category="execution",
    recovery=RecoveryKind.ELSEWHERE,
    advice="Install what the node needs on the worker, and start that anew.",
)
_GRAPHS_OWN = Meaning(
    code="NODE_FAILED",
    category="execution",
    recovery=RecoveryKind.MENDED,
    advice="Correct what the node is given: it fails like this every time.",
)
_UNKNOWN = Meaning(
    code="NODE_FAILED",
    category="execution",
    recovery=RecoveryKind.AGAIN,
    advice="Submit the job again; if it fails in the same way, the worker's log may say more.",
)
_TYPE_GONE = Meaning(
    code="NODE_TYPE_MISSING",
    category="execution",
    recovery=RecoveryKind.ELSEWHERE,
    advice="Install the pack that has the node on the worker, or take the node out of the graph.",
    message="The worker does not have the node type '{type}': {sentence} {advice}",
)
_MODEL_NOT_LISTED = replace(
    _MODEL_GONE, message="The worker does not have {models}: {sentence} {advice}"
)
_FILE_NOT_LISTED = replace(_FILE_GONE, message="A file is missing: {sentence} {advice}")
_REJECTED = Meaning(
    code=PromptRejected.code,
    category="validation",
    recovery=RecoveryKind.MENDED,
    advice="Correct the inputs that the message names.",
    message="{said}",
)
_INTERRUPTED = Meaning(
    code="INTERRUPTED",
    category="execution",
    recovery=None,
    advice="Submit it again.",
    message="Someone interrupted the job on its worker. {advice}",
)
_UNEXPLAINED = Meaning(
    code="EXECUTION_FAILED",
    category="execution",
    recovery=RecoveryKind.AGAIN,
    advice="Look at the worker's log: it may say more.",
    message="The worker says that the job failed, but not why. Its log may say more.",
)
_TIMEOUT = Meaning(
    code="EXECUTION_TIMEOUT",
    category="timeout",
    recovery=RecoveryKind.MORE_TIME,
    advice="Give it more with 'timeout' (at most 86400), or make it smaller.",
    message="The job ran longer than its timeout of {said} s and was stopped. {advice}",
)

OUT_OF_MEMORY = _MEMORY.code
MODEL_MISSING = _MODEL_GONE.code
MODEL_LOAD_FAILED = _MODEL_BROKEN.code
NODE_TYPE_MISSING = _TYPE_GONE.code


# What nodes raise


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _texts(listed: str) -> tuple[str, ...]:
    return tuple(listed.split(" | "))


_BACKENDS = _types("AcceleratorError Fail RuntimeError RuntimeException XlaRuntimeError")
"""What PyTorch, ONNX Runtime and XLA raise, whatever has happened."""
_SYSTEM = _types("IOError OSError")
_PLAIN = _BACKENDS | _SYSTEM | _types("Exception error")
"""Types that say nothing by themselves: what is meant is in the text alone. Plain ones of Python
often repeat what a graph has given them, so no worker is blamed for what those say.
"""
_ANY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """Fits an exception of one of the `types` or from one of the `modules`; or one of the
    `speakers` (none: whichever) that says one of the `texts`. Types are named with their module or
    without. `in_loaders`: only in a node that loads a model.
    """

    meaning: Meaning
    types: frozenset[str] = frozenset()
    modules: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    speakers: frozenset[str] = _PLAIN
    in_loaders: bool = False

    def fits(self, exception_type: str, text: str, *, loads_model: bool) -> bool:
        """`text` in small letters."""
        if self.in_loaders and not loads_model:
            return False
        names = {exception_type, exception_type.rpartition(".")[2]}
        if not names.isdisjoint(self.types) or exception_type.startswith(self.modules):
            return True
        is_heard = not self.speakers or not names.isdisjoint(self.speakers)
        return is_heard and any(each in text for each in self.texts)


RULES = (
    Rule(
        _MEMORY,
        types=_types("OutOfMemoryError MemoryError _ArrayMemoryError"),
        texts=_texts(
            "out of memory | allocation on device | can't allocate memory | "
            "cannot allocate memory | not enough memory | not enough gpu video memory | "
            "would exceed allowed memory | unable to allocate | failed to allocate memory | "
            "insufficient memory | blas_status_alloc_failed | cudnn_status_alloc_failed | "
            "out_of_device_memory | resource_exhausted"
        ),
        speakers=_BACKENDS | _SYSTEM | {"SafetensorError", "cv2.error"},
    ),
    Rule(
        _MEMORY,
        texts=_texts("cuda out of memory | hip out of memory | mps backend out of memory"),
        speakers=_ANY,
    ),
    Rule(
        _DISK,
        texts=_texts(
            "no space left on device | disk quota exceeded | [errno 28] | [errno 122] | "
            "database or disk is full | pytorchstreamwriter failed writing file"
        ),
        speakers=_BACKENDS
        | _SYSTEM
        | _types("FFmpegError OperationalError SafetensorError shutil.Error"),
    ),
    Rule(_TOO_SMALL, types=_types("NeverFits ReservationTimedOut")),
    Rule(
        _DEVICE,
        types=_types("AcceleratorError CUDARuntimeError"),
        texts=_texts(
            "cuda error: | cuda error ( | cuda failure | cuda driver error | cuda unknown error | "
            "cudagetdevicecount | hip error: | hip failure | cudnn error: | cudnn_status_ | "
            "cublas_status_ | triton error [ | nvml_success == r | "
            "no kernel image is available | device-side assert | illegal memory access | "
            "unspecified launch failure | no cuda gpus are available | no hip gpus are available | "
            "driver version is insufficient | found no nvidia driver | device_lost"
        ),
        speakers=_BACKENDS,
    ),
    Rule(
        _BROKEN,
        types=_types("PermissionError"),
        texts=_texts(
            "[errno 5] | [errno 13] | [errno 23] | [errno 24] | [errno 30] | [errno 107] | "
            "[errno 116] | (os error 5) | (os error 24) | (os error 30)"
        ),
        speakers=_SYSTEM | {"SafetensorError"},
    ),
    Rule(_BROKEN, texts=_texts("can't start new thread"), speakers=_types("RuntimeError")),
    Rule(
        _BROKEN,
        texts=_texts("torch not compiled with"),
        speakers=_types("AssertionError RuntimeError"),
    ),
    Rule(_BROKEN, texts=_texts("module 'torch"), speakers=_types("AttributeError")),
    Rule(
        _NETWORK,
        types=_types(
            "BrokerUnreachable ConnectTimeout ConnectionAbortedError ConnectionError "
            "ConnectionRefusedError ConnectionResetError IncompleteRead LocalEntryNotFoundError "
            "ReadTimeout RemoteDisconnected SSLError ServiceUnreachable TimeoutError URLError "
            "gaierror"
        ),
        modules=_texts(
            "aiohttp. | http.client. | httpcore. | httpx. | requests. | urllib.error. | urllib3. | "
            "websocket. | websockets."
        ),
        texts=_texts(
            "temporary failure in name resolution | name or service not known | "
            "getaddrinfo failed | connection refused | connection reset | connection aborted | "
            "connection timed out | read timed out | network is unreachable | "
            "max retries exceeded with url | couldn't connect to"
        ),
    ),
    Rule(_MODEL_GONE, types=_types("FileNotFoundError"), in_loaders=True),
    Rule(
        _MODEL_BROKEN,
        types=_types(
            "BadZipFile EOFError InvalidProtobuf SafetensorError TensorFileBroken UnpicklingError"
        ),
        texts=_texts(
            "deserializing header | header too large | headertoolarge | invalidheader | "
            "metadataincompletebuffer | incomplete metadata | pytorchstreamreader | "
            "invalid magic number | gguf magic invalid | unexpected end of file | ran out of input"
        ),
        speakers=_PLAIN | {"ValueError"},
        in_loaders=True,
    ),
    Rule(
        _MODEL_UNFIT,
        types=_types("UnsupportedModelError"),
        texts=_texts(
            "could not detect model type | error(s) in loading state_dict | invalid state dict | "
            "unsupported model | not a valid model | not a valid checkpoint | "
            "weights only load failed | unpickling | corrupted | truncated"
        ),
        speakers=_ANY,
        in_loaders=True,
    ),
    Rule(
        _MODEL_GONE,
        texts=_texts("not found | no such file | does not exist"),
        in_loaders=True,
    ),
    Rule(
        _FILE_GONE,
        types=_types("FileNotFoundError NotADirectoryError"),
        texts=_texts("no such file or directory | invalid image file"),
    ),
    Rule(_PACKAGE_GONE, types=_types("ImportError ModuleNotFoundError")),
    Rule(_PACKAGE_GONE, texts=_texts("module '"), speakers=_types("AttributeError")),
    Rule(
        _GRAPHS_OWN,
        types=_types(
            "AssertionError AttributeError BrokenNodeType DecompressionBombError "
            "DependencyCycleError DuplicateNode EinopsError ExecutionBlocked ExpansionTooLarge "
            "IndexError JSONDecodeError KeyError NameError NotImplementedError OverflowError "
            "PatternError PatternInvalid RecursionError TensorFileBroken TypeError "
            "UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnidentifiedImageError "
            "UnknownNode UnservedInput ValueError ZeroDivisionError re.error"
        ),
        texts=_texts(
            "shape | size of tensor | sizes of tensors | size mismatch | equal size | "
            "input of size | kernel size | dtype | expected scalar type | should be the same | "
            "same device | not implemented for | channels | dimension | out of range | "
            "out of bounds | is invalid: none | assertion failed"
        ),
    ),
    Rule(_UNKNOWN, texts=("",), speakers=_ANY),
)
"""In their order. What a device, a disk, a memory or a network lacks is no fault of a model."""


def classify_node_failure(failure: NodeFailure, models: Collection[str] = ()) -> Failed:
    """How an attempt ends by what one of its nodes has raised. `models`: those that the node
    itself loads.
    """
    text = failure.message.lower()
    meaning = next(
        rule.meaning
        for rule in RULES
        if rule.fits(failure.exception_type, text, loads_model=bool(models))
    )
    details: dict[str, Any] = {
        "node_id": failure.node_id,
        "node_type": failure.node_type,
        "exception_type": failure.exception_type,
        "exception_message": failure.message,
    }
    if meaning.code in {MODEL_MISSING, MODEL_LOAD_FAILED}:
        details[MODELS] = sorted(models)
    if meaning.code == MODEL_LOAD_FAILED:
        details[DAMAGED] = meaning is _MODEL_BROKEN
    return _failed(
        meaning,
        details,
        node=f"Node '{failure.node_id}' ({failure.node_type})",
        said=failure.message or failure.exception_type,
        models=_named(models),
    )


# Why a graph is refused

_UNKNOWN_TYPE = re.compile(
    r"node '?(?P<type>[^'\n]{1,200}?)'? (?:does not exist|not found)", re.IGNORECASE
)
_MISSING_FILE = re.compile(r"\binvalid (?:\w+ ){0,2}file\b|no such file", re.IGNORECASE)
_NODE_ID = re.compile(r"#(?P<id>[^'\n]{1,200})'?$")
_ABOUT_TYPES = frozenset(("missing_node_type", "invalid_prompt"))


@dataclass(frozen=True, slots=True)
class _InputError:
    """One of ComfyUI's `node_errors`."""

    node_id: str
    node_type: str
    kind: str
    details: str
    input: str
    value: str
    takes_upload: bool

    @property
    def lacks_file(self) -> bool:
        if self.kind == "value_not_in_list":
            return self.takes_upload
        return self.kind == "custom_validation_failed" and bool(_MISSING_FILE.search(self.details))

    @property
    def lacks_model(self) -> bool:
        return (
            self.kind == "value_not_in_list"
            and not self.takes_upload
            and (
                self.input in FOLDER_OF_INPUT
                or (self.node_type, self.input) in FOLDER_OF_CLASS
                or self.value.lower().endswith(MODEL_SUFFIXES)
            )
        )


def classify_rejection(error: PromptRejected) -> Failed:
    """How an attempt ends whose graph the worker has refused. What no other worker would take
    either weighs more than what this one lacks.
    """
    details: dict[str, Any] = dict(error.details)
    found = _unknown_type(error.body)
    if found:
        details |= found
        return _failed(_TYPE_GONE, details, said=error.message, type=found["node_type"])
    errors = list(_input_errors(error.body.get("node_errors")))
    if not errors or not all(each.lacks_file or each.lacks_model for each in errors):
        return _failed(_REJECTED, details, said=error.message)
    details |= {"node_id": errors[0].node_id, "node_type": errors[0].node_type}
    if any(each.lacks_file for each in errors):
        return _failed(_FILE_NOT_LISTED, details, said=error.message)
    models = sorted({each.value for each in errors})
    details[MODELS] = models
    return _failed(_MODEL_NOT_LISTED, details, said=error.message, models=_named(models))


def _unknown_type(body: Mapping[str, Any]) -> dict[str, str]:
    """The node type that the worker does not know, and whose it is; empty where that is not why.

    ComfyUI 0.3.75 says it in words, later ones in fields.
    """
    error = _table(body.get("error"))
    kind = str(error.get("type"))
    if kind not in _ABOUT_TYPES:
        return {}
    extra = _table(error.get("extra_info"))
    told = _UNKNOWN_TYPE.search(str(error.get("message")))
    node_type = str(extra.get("class_type") or (told["type"] if told else ""))
    if not node_type or (kind == "invalid_prompt" and told is None):
        return {}
    place = _NODE_ID.search(str(error.get("details")))
    node_id = str(extra.get("node_id") or (place["id"] if place else ""))
    return {"node_type": node_type, **({"node_id": node_id} if node_id else {})}


def _input_errors(node_errors: object) -> Iterable[_InputError]:
    for node_id, node in _table(node_errors).items():
        about = _table(node)
        errors = about.get("errors")
        for each in errors if isinstance(errors, list) else ():
            error = _table(each)
            extra = _table(error.get("extra_info"))
            config = extra.get("input_config")
            options = config[1] if isinstance(config, list) and len(config) > 1 else None
            yield _InputError(
                node_id=str(node_id),
                node_type=str(about.get("class_type")),
                kind=str(error.get("type")),
                details=str(error.get("details")),
                input=str(extra.get("input_name")),
                value=str(extra.get("received_value")),
                takes_upload=any(_table(options).get(flag) for flag in UPLOAD_FLAGS),
            )


# How a prompt ends without a word, and when its time is up


def classify_end(entry_status: Literal["error", "interrupted"]) -> Failed:
    """How an attempt ends of which the worker tells no more than this."""
    return _failed(_INTERRUPTED if entry_status == "interrupted" else _UNEXPLAINED, {})


def timed_out(limit_seconds: float) -> Failed:
    return _failed(_TIMEOUT, {"timeout": limit_seconds}, said=f"{limit_seconds:g}")


# What goes wrong between the server, its workers and those who make workers


@dataclass(frozen=True, slots=True)
class Trouble:
    """What an error of a worker or of its driver means, by its code."""

    category: Category
    advice: str
    recovery: RecoveryKind | None = RecoveryKind.ELSEWHERE


_WAIT = "Nothing: it is tried again by itself."
_RESUME = "then let it be tried again with: comfyrail workers resume"
_LOGS = "Look at the worker's log (comfyrail workers logs) and at its machine."

_TROUBLES: Mapping[str, Trouble] = {
    "OUTPUT_MISSING WORKER_ERROR WORKER_PROTOCOL_ERROR POD_ENDED INSTANCE_ENDED "
    "ENGINE_FAILED": Trouble("system", _LOGS),
    "WORKER_UNREACHABLE SSH_UNREACHABLE ENGINE_UNREACHABLE": Trouble(
        "system", "See that the worker runs and that the network leads to it."
    ),
    "INPUT_UPLOAD_FAILED": Trouble(
        "system", "See that the worker's disk has room; its log may say more."
    ),
    "AGENT_NOT_CONNECTED": Trouble(
        "system", "Start the agent on its machine: comfyrail agent --server …"
    ),
    "MODEL_UNREACHABLE": Trouble(
        "system", "See that the machine can reach the address of the model."
    ),
    "POD_REMAINS INSTANCE_REMAINS": Trouble(
        "system", "Remove it by hand where it runs, or it goes on costing."
    ),
    "POD_NOT_READY INSTANCE_NOT_READY": Trouble(
        "timeout", "See why it takes so long to come up, or give it more time."
    ),
    "NOVITA_OUT_OF_STOCK KUBERNETES_QUOTA": Trouble(
        "resource", _WAIT + " To have it sooner, ask for less or for another kind."
    ),
    "NOVITA_BALANCE": Trouble("resource", f"Top up the account, {_RESUME}"),
    "MODELS_DO_NOT_FIT": Trouble(
        "resource", f"Make room for the models or shorten their list, {_RESUME}"
    ),
    "SECRET_MISSING NOVITA_NO_KEY NOVITA_NO_IMAGE_AUTH": Trouble(
        "validation", "Set the secret in the server's environment and start it again."
    ),
    "NOVITA_KEY_REFUSED KUBERNETES_ACCESS KUBERNETES_REFUSED SSH_KEY_REFUSED "
    "SSH_KEY_UNUSABLE": Trouble(
        "validation", f"Give the server a credential that is accepted, {_RESUME}"
    ),
    "SSH_HOST_KEY_CHANGED SSH_HOST_KEY_UNKNOWN SSH_KEY_EXCHANGE": Trouble(
        "validation", f"Make sure of the machine's host key, {_RESUME}"
    ),
    "CONTAINER_REFUSED IMAGE_MISSING INSTANCE_REFUSED NOVITA_REFUSED POD_REFUSED "
    "PORT_NOT_PUBLISHED": Trouble("validation", f"Correct the image or how it is run, {_RESUME}"),
    "CONTAINER_NAME_TAKEN POD_NAME_TAKEN PORT_IN_USE": Trouble(
        "validation", f"Remove what has the name or the port, {_RESUME}"
    ),
    "MODELS_FOLDER_UNUSABLE MODEL_CHECKSUM_DIFFERS MODEL_FILE_DIFFERS MODEL_PATH_ESCAPES "
    "MODEL_REFUSED": Trouble("validation", f"Correct the list of models or the file, {_RESUME}"),
    "DRIVER_REFUSED NO_AGENTS": Trouble("validation", f"Correct the worker's settings, {_RESUME}"),
    "OUTPUT_TOO_LARGE TOO_MANY_OUTPUTS": Trouble(
        "execution", "Let the workflow make fewer or smaller files.", None
    ),
    "INPUT_TOO_LARGE": Trouble("validation", "Make the file smaller, or raise the worker's limit."),
    "INPUT_UNREADABLE": Trouble(
        "validation", "See that the file can be read, then submit the job again.", None
    ),
}
_TROUBLE_OF = {code: trouble for codes, trouble in _TROUBLES.items() for code in codes.split()}
_ASKED_TOO_OFTEN = Trouble("resource", _WAIT)
_SERVICE_DOWN = Trouble("system", _WAIT)


def classify_worker_error(error: ComfyrailError) -> Failed:
    """How an attempt ends by an error of its worker, or of bringing files there and back. Its
    fault is also what is told of a worker that a driver cannot make or keep.
    """
    trouble = _trouble_of(error)
    details = {**error.details, SUGGESTED_ACTION: trouble.advice}
    fault = Fault(trouble.category, error.code, error.message, details, error.retry_after)
    return Failed(fault, remedy=None if trouble.recovery is None else Remedy(trouble.recovery))


def _trouble_of(error: ComfyrailError) -> Trouble:
    status = error.details.get("status")
    if isinstance(status, int) and error.code == "WORKER_UNREACHABLE":  # a cloud's own answer
        return _ASKED_TOO_OFTEN if status == 429 else _SERVICE_DOWN
    return _TROUBLE_OF.get(error.code) or Trouble(error.category, _LOGS)


# Making of it what a client sees


def _failed(
    meaning: Meaning,
    details: Mapping[str, Any],
    *,
    node: str = "A node",
    said: str = "",
    models: str = "",
    type: str = "",  # noqa: A002 - the name in the template
) -> Failed:
    message = meaning.message.format(
        node=node,
        said=said,
        sentence=f"{said.rstrip('. ')}.",
        models=models,
        type=type,
        advice=meaning.advice,
    )
    fault = Fault(
        meaning.category,
        meaning.code,
        message,
        {**details, SUGGESTED_ACTION: meaning.advice},
        meaning.retry_after,
    )
    return Failed(fault, remedy=None if meaning.recovery is None else Remedy(meaning.recovery))


def _named(models: Collection[str]) -> str:
    names = sorted(models)
    shown = ", ".join(f"'{name}'" for name in names[:MODELS_SHOWN])
    more = f" and {len(names) - MODELS_SHOWN} more" if len(names) > MODELS_SHOWN else ""
    return f"the model {shown}{more}" if len(names) == 1 else f"one of the models {shown}{more}"


def _table(said: object) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else {}
