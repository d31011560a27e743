"""What a node was given."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from comfyrail.engine.resources.gpu_room import Devices
from comfyrail.engine.resources.needs import ResourceNeeds


class Grant:
    """Held until it is released, which a `with` block does at its end.

    `gpu_devices` are the indices of the GPUs: whole ones where `needs.gpu_count` is above 0, else
    the one that has the node's share of memory.
    """

    __slots__ = ("_give_back", "gpu_devices", "needs")

    def __init__(
        self, needs: ResourceNeeds, gpu_devices: Devices, give_back: Callable[["Grant"], None]
    ) -> None:
        self.needs = needs
        self.gpu_devices = gpu_devices
        self._give_back = give_back

    def release(self) -> None:
        """As the pool's `release`."""
        self._give_back(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
