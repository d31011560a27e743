"""The globals that ComfyUI's nodes rely on, set up around their runs."""

import gc
import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from comfyrail.engine.comfyui.dynamic_prompt import DynamicPromptView
from comfyrail.engine.comfyui.graph_prefixes import keep_prefixes_apart, prefixed
from comfyrail.engine.comfyui.machine import Machine
from comfyrail.engine.comfyui.progress import ProgressReporter
from comfyrail.engine.comfyui.prompt_server import PromptServer
from comfyrail.engine.comfyui.sizes import held_bytes
from comfyrail.engine.surroundings import RunView, Surroundings

COLLECTION_SECONDS = 10.0
"""How often at most memory is given back after an execution: it takes a while."""

OUT_OF_MEMORY_ADVICE = (
    "The device has not enough memory for this node. Loaded models were let go of, so trying again "
    "may help; else use smaller or fewer images, a smaller batch, or a smaller model."
)


class ComfyUISurroundings(Surroundings):
    """For one loaded checkout in this process: there can be no second one."""

    judges_slowly = True
    one_at_a_time = True

    def __init__(self, server: PromptServer) -> None:
        self._server = server
        self._torch: Any = importlib.import_module("torch")
        self._nodes: Any = importlib.import_module("nodes")
        self._memory: Any = importlib.import_module("comfy.model_management")
        self._progress: Any = importlib.import_module("comfy_execution.progress")
        self._context: Any = importlib.import_module("comfy_execution.utils")
        keep_prefixes_apart(importlib.import_module("comfy_execution.graph_utils"))
        self._machine = Machine()
        self._previews = _PreviewMethods()
        self._last_collection = time.monotonic()
        self.halting_errors = (self._memory.InterruptProcessingException,)
        comfy_utils: Any = importlib.import_module("comfy.utils")
        comfy_utils.set_progress_bar_global_hook(self._take_progress)

    @contextmanager
    def execution(self, run: RunView) -> Iterator[None]:
        self._nodes.interrupt_processing(False)
        self._previews.choose(run.extra_data.get("preview_method"))
        self._server.client_id = run.extra_data.get("client_id")
        self._server.last_prompt_id = run.execution_id
        self._server.follow(run.emit)
        reporter = ProgressReporter(run)
        self._progress.reset_progress_state(run.execution_id, DynamicPromptView(run))
        self._progress.add_progress_handler(reporter)
        try:
            with self._torch.inference_mode():
                self._memory.cleanup_models_gc()
                yield
        finally:
            reporter.disable()
            self._server.follow(None)
            self._server.last_node_id = None
            self._tidy_up()

    @contextmanager
    def call(self, run: RunView, node_id: str, index: int) -> Iterator[None]:
        self._nodes.before_node_execution()
        self._server.last_node_id = run.graph.display_id(node_id)
        with ExitStack() as around:
            around.enter_context(prefixed(node_id, index))
            around.enter_context(self._context.CurrentNodeContext(run.execution_id, node_id, index))
            if not self._torch.is_inference_mode_enabled():
                # The mode belongs to a thread, and this is not the one of the execution.
                around.enter_context(self._torch.inference_mode())
            yield

    def dynamic_prompt(self, run: RunView) -> DynamicPromptView:
        return DynamicPromptView(run)

    def interrupt(self) -> None:
        self._nodes.interrupt_processing(True)

    def explain(self, error: BaseException) -> str:
        if not self._is_out_of_memory(error):
            return str(error)
        self._memory.unload_all_models()
        return f"{error}\n{OUT_OF_MEMORY_ADVICE}"

    @property
    def measure_model(self) -> Callable[[Any], int | None]:
        return held_bytes

    def system_stats(self) -> Mapping[str, Any]:
        return self._machine.stats()

    def model_folders(self) -> Sequence[str]:
        return self._machine.model_folders()

    def models(self, kind: str) -> Sequence[str] | None:
        return self._machine.models(kind)

    def model_size(self, kind: str, name: str) -> int | None:
        return self._machine.model_size(kind, name)

    def embeddings(self) -> Sequence[str]:
        return self._machine.embeddings()

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        if unload_models or free_memory:
            self._memory.unload_all_models()
            self._collect()

    def _take_progress(
        self,
        value: float,
        total: float,
        preview_image: Any = None,
        prompt_id: str | None = None,  # noqa: ARG002 - ComfyUI's form
        node_id: str | None = None,
    ) -> None:
        """What progress bars of nodes call, from the thread of the node."""
        self._memory.throw_exception_if_processing_interrupted()
        if node_id is None:
            context = self._context.get_executing_context()
            node_id = self._server.last_node_id if context is None else context.node_id
        if node_id is not None:
            self._progress.get_progress_state().update_progress(
                node_id, value, total, preview_image
            )

    def _is_out_of_memory(self, error: BaseException) -> bool:
        kind = self._memory.OOM_EXCEPTION
        # Builds of torch that have no error of their own for it leave `Exception` there.
        return kind is not Exception and isinstance(error, kind)

    def _tidy_up(self) -> None:
        if self._memory.DISABLE_SMART_MEMORY:
            self._memory.unload_all_models()
        if time.monotonic() - self._last_collection > COLLECTION_SECONDS:
            self._collect()

    def _collect(self) -> None:
        gc.collect()
        self._memory.soft_empty_cache()
        self._last_collection = time.monotonic()


class _PreviewMethods:
    """How samplers make previews: ComfyUI's setting, which an execution may override."""

    def __init__(self) -> None:
        cli: Any = importlib.import_module("comfy.cli_args")
        self._arguments: Any = cli.args
        self._methods: Any = cli.LatentPreviewMethod
        self._default: Any = cli.args.preview_method

    def choose(self, wanted: Any) -> None:
        try:
            self._arguments.preview_method = self._methods(wanted)
        except ValueError:
            self._arguments.preview_method = self._default
