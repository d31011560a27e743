"""What can go wrong when a node asks for its share of the machine."""

from comfyrail.errors import Category, ComfyrailError


class ResourceError(ComfyrailError):
    """The machine cannot give a node what it needs."""

    category: Category = "resource"
    code = "INSUFFICIENT_RESOURCES"


class NeverFits(ResourceError):
    """More was asked for than there is when nothing else runs: waiting would not help."""

    def __init__(self, kind: str, asked: float, available: float) -> None:
        super().__init__(
            f"The node needs {asked:g} of {kind}, and all there is here is {available:g}. "
            "Ask for less, or run it on a larger worker.",
            details={"kind": kind, "asked": asked, "available": available},
        )
        self.kind = kind
        self.asked = asked
        self.available = available


class ReservationTimedOut(ResourceError):
    """The time to wait was over before there was enough for the node."""

    category: Category = "timeout"
    code = "RESOURCE_TIMEOUT"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"In {seconds:g} seconds the worker had not enough free for the node. "
            "Run less at the same time, or allow more time."
        )


class ReservationStopped(ResourceError):
    """`should_stop` said to wait no longer."""

    def __init__(self) -> None:
        super().__init__("The node was stopped while it waited for its share of the worker.")
