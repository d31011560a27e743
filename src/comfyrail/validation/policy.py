"""What a tenant's workflows may do: plain data, filled from settings."""

from dataclasses import dataclass, field
from typing import Literal

CustomNodePolicy = Literal["allow", "deny"] | frozenset[str]
"""`allow`, `deny`, or the names of the packs and node types that are allowed."""

RUNS_COMMANDS = frozenset(
    ("ExecuteSystemCommand", "FileSystemAccess", "NetworkRequest", "ScriptExecution")
)

RUNS_CODE = frozenset(
    (
        # Python code or an expression of the workflow goes to exec or eval. Public attack tools
        # use the first two; for SRL Eval see Comfy-Org/ComfyUI-Manager, issue 2816.
        "IDENode",
        "SRL Eval",
        "SrlEval",
        "NotebookCell",
        "ExecutePython",
        "ExecutePythonNode",
        "Exec Python Code Script",
        "PythonInterpreter",
        "PythonCodeExecutor",
        "PyExec",
        "RunPython",
        "RunPythonCode",
        "SilverRunPythonCode",
        "SILVER.SilverRunPythonCode",
        "NodePython",
        "EvalPython",
        "Eval",
        "EVAL",
        "Eval_AS",
        "FL_CodeNode",
        "AutogenCodeExecutor",
        # A language model writes the code that is then run (lks-ai/anynode, issue 46).
        "AnyNode",
        # CVE-2024-21577, ComfyUI-Ace-Nodes: eval of an input.
        "ACE_ExpressionEval",
        # CVE-2024-21576, ComfyUI-Bmad-Nodes: eval of inputs behind a filter that can be passed.
        "BuildColorRangeHSVAdvanced",
        "FilterContour",
        "FindContour",
        # A shell (nullquant/ComfyUI-BrushNet, issue 141).
        "Terminal",
    )
)
"""Node types of well-known packs that run what a workflow says."""

DENIED_NODE_TYPES = RUNS_COMMANDS | RUNS_CODE

CONTENT_TYPES = (
    "image/*",
    "video/*",
    "audio/*",
    "application/json",
    "application/octet-stream",  # what object stores say of files that they know nothing of
)


@dataclass(frozen=True, slots=True)
class WorkflowLimits:
    """None is no limit."""

    max_nodes: int | None = 100
    max_image_side: int | None = 8192
    max_image_pixels: int | None = 4096 * 4096
    max_batch_size: int | None = 64
    max_frames: int | None = 1000
    """Of a video."""
    max_steps: int | None = 1000
    max_string_length: int | None = 100_000
    max_workflow_bytes: int | None = 10 * 1024 * 1024
    max_seconds: float | None = None
    """Of a run, as it is estimated."""


@dataclass(frozen=True, slots=True)
class SecurityPolicy:
    allowed_domains: tuple[str, ...] = ()
    """Of URLs: `example.com`, `*.example.com` for what is below it, `*` for any public one."""
    allow_computed_urls: bool = False
    """Whether a node may take a URL that only another node makes, which nobody has seen then."""
    allowed_content_types: tuple[str, ...] = CONTENT_TYPES
    allowed_folders: tuple[str, ...] = ()
    """Absolute folders of workers, such as `/data/shared`, that paths may lead into."""
    denied_node_types: frozenset[str] = DENIED_NODE_TYPES
    allowed_node_types: frozenset[str] | None = None
    """Where it is set, no others."""
    custom_node_policy: CustomNodePolicy = "allow"
    limits: WorkflowLimits = field(default_factory=WorkflowLimits)
