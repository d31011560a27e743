"""The world that nodes of another program expect around them while they run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from comfyrail.engine.events import Event
from comfyrail.engine.failures import text_of

_NOTHING_AROUND: AbstractContextManager[None] = nullcontext()


class RunningGraph(Protocol):
    """What surroundings may see of a graph while it runs; it grows when nodes expand."""

    def entry(self, node_id: str) -> Mapping[str, Any]:
        """The node as it stands in the prompt or in an expansion. Raises KeyError."""
        ...

    def parent_of(self, node_id: str) -> str | None: ...

    def display_id(self, node_id: str) -> str: ...

    def real_id(self, node_id: str) -> str: ...

    def all_ids(self) -> set[str]: ...


class RunView(Protocol):
    """One execution, as its surroundings see it."""

    @property
    def execution_id(self) -> str: ...

    @property
    def prompt(self) -> Mapping[str, Any]: ...

    @property
    def extra_data(self) -> Mapping[str, Any]: ...

    @property
    def graph(self) -> RunningGraph: ...

    def emit(self, event: Event) -> None:
        """Takes NodeProgress, Preview, Picture and TextShown; from any thread."""
        ...


class Surroundings:
    """Nothing around: Comfyrail's own nodes need no globals. Others override what they need."""

    halting_errors: tuple[type[BaseException], ...] = ()
    """What a node raises when it has seen an interrupt."""
    one_at_a_time: bool = False
    """Whether nodes share globals, so that no two of them may run at once."""
    judges_slowly: bool = False
    """Whether node types run foreign code when a prompt is checked: then not on the event loop."""

    def execution(self, run: RunView) -> AbstractContextManager[None]:
        """Entered in the thread that executes, around a whole execution."""
        del run
        return _NOTHING_AROUND

    def call(self, run: RunView, node_id: str, index: int) -> AbstractContextManager[None]:
        """Entered around every call of a node's function; `index` counts over its lists.

        For a coroutine function it is entered inside of the task that runs it.
        """
        del run, node_id, index
        return _NOTHING_AROUND

    def dynamic_prompt(self, run: RunView) -> Any:
        """What a hidden input of the kind DYNPROMPT gets."""
        return run.graph

    def interrupt(self) -> None:
        """An interrupt was requested. Called from another thread than the one that executes."""

    def explain(self, error: BaseException) -> str:
        """A node's error for people; may also mend what it can, such as free a device."""
        return text_of(error)

    @property
    def measure_model(self) -> Callable[[Any], int | None] | None:
        """Gives the bytes that a model holds, None for no model; None where there are no models."""
        return None

    def system_stats(self) -> Mapping[str, Any]:
        """Parts of /system_stats that differ from those of an engine by itself."""
        return {}

    def model_folders(self) -> Sequence[str] | None:
        """The kinds of models that there are; None where the usual ones are, and empty."""
        return None

    def models(self, kind: str) -> Sequence[str] | None:
        """The files of a kind; None for a kind that there is not."""
        del kind
        return None

    def model_size(self, kind: str, name: str) -> int | None:
        """Bytes of a model's file; None where there is none."""
        del kind, name
        return None

    def embeddings(self) -> Sequence[str]:
        return ()

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        """Let go of what is kept between executions. Called in the thread that executes."""
