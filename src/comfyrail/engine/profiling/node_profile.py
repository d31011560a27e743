"""One node of one execution, measured. Times are seconds since the execution began."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time without a break in one lane: a thread, or a place among coroutines or processes."""

    began: float
    ended: float
    lane: str

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """`status` is `completed`, `cached`, `failed` or `interrupted`. None stands for what is not
    known: see the fields.
    """

    node_id: str
    node_type: str
    title: str | None
    parent_id: str | None
    """The node that put this one in, where one did."""
    status: str
    cache_level: str | None
    """Where the result was kept, of a cached node; None also where that is not known."""
    attempts: int
    """How often it was tried; 0 for a cached node."""
    ready_at: float | None
    """When all that it waits for was there."""
    began: float | None
    ended: float | None
    seconds: float
    """How long it was at work: its stretches together."""
    waited_seconds: float
    """From when it was ready to when it began: for a thread, or for what the pool hands out."""
    cpu_seconds: float | None
    """Of the whole process where it was alone, else of its thread. Not known of a node that ran in
    another process, or where coroutines took turns."""
    output_bytes: int | None
    peak_memory_bytes: int | None
    """How far the process's memory rose above where it was. Not known where others ran too."""
    read_bytes: int | None
    """By its thread. Not known where `cpu_seconds` is not."""
    written_bytes: int | None
    alone: bool
    """Whether no other node was at work at the same time."""
    lane: str | None
    """Where it was longest at work."""
    stretches: tuple[Stretch, ...]
    on_critical_path: bool = False
