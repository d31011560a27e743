"""A value that stops whatever takes it from running."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecutionBlocker:
    """Given in place of an output: nodes that take it do not run, and pass it on.

    With a `message` the first node that is stopped so tells the client; the execution goes on.
    """

    message: str | None = None
