"""Which GPUs are free, and how much memory is left on those that are shared."""

from comfyrail.engine.resources.units import Demand

Devices = tuple[int, ...]
"""Indices of the devices that a grant names."""


class GpuRoom:
    """A device is free, shared by some, or held whole; of the last nothing is left.

    A share goes where the least is left, and whole devices are the smallest that will do: larger
    ones stay free for those that need them.
    """

    __slots__ = ("_free", "_total", "_users")

    def __init__(self, total: tuple[int, ...]) -> None:
        self._total = total
        self._free = list(total)
        self._users = [0] * len(total)

    def copy(self) -> "GpuRoom":
        other = GpuRoom(self._total)
        other._free = list(self._free)
        other._users = list(self._users)
        return other

    @property
    def free_memory(self) -> int:
        return sum(self._free)

    def place(self, demand: Demand) -> Devices | None:
        """The devices that the demand would get, or None where they are not there."""
        if demand.whole_gpus:
            return self._place_whole(demand)
        if demand.gpu_memory:
            return self._place_share(demand)
        return ()

    def take(self, demand: Demand, devices: Devices) -> None:
        for device in devices:
            self._users[device] += 1
            self._free[device] -= self._part_of(device, demand)

    def give_back(self, demand: Demand, devices: Devices) -> None:
        for device in devices:
            self._users[device] -= 1
            self._free[device] += self._part_of(device, demand)

    def take_all(self) -> None:
        """Leave nothing to anyone."""
        self._free = [0] * len(self._total)
        self._users = [1] * len(self._total)

    def _place_whole(self, demand: Demand) -> Devices | None:
        suited = [
            device
            for device, memory in enumerate(self._total)
            if self._users[device] == 0 and memory >= demand.gpu_memory
        ]
        if len(suited) < demand.whole_gpus:
            return None
        smallest = sorted(suited, key=lambda device: self._total[device])
        return tuple(sorted(smallest[: demand.whole_gpus]))

    def _place_share(self, demand: Demand) -> Devices | None:
        suited = [device for device, memory in enumerate(self._free) if memory >= demand.gpu_memory]
        if not suited:
            return None
        return (min(suited, key=lambda device: (self._free[device], device)),)

    def _part_of(self, device: int, demand: Demand) -> int:
        return self._total[device] if demand.whole_gpus else demand.gpu_memory
