"""What is free of every kind."""

from comfyrail.engine.resources.gpu_room import Devices, GpuRoom
from comfyrail.engine.resources.needs import Capacity, Kind
from comfyrail.engine.resources.units import PLAIN_KINDS, Demand, to_units


class Room:
    """Free amounts. Whoever holds it has to lock it."""

    __slots__ = ("gpus", "plain")

    def __init__(self, plain: list[int], gpus: GpuRoom) -> None:
        self.plain = plain
        self.gpus = gpus

    @classmethod
    def of(cls, capacity: Capacity) -> "Room":
        """All of it."""
        plain = [to_units(getattr(capacity, kind)) for kind in PLAIN_KINDS]
        return cls(plain, GpuRoom(tuple(map(to_units, capacity.gpus))))

    def copy(self) -> "Room":
        return Room(list(self.plain), self.gpus.copy())

    def units(self) -> dict[Kind, int]:
        """What is free, of every kind but `gpu_count`."""
        plain = dict(zip(PLAIN_KINDS, self.plain, strict=True))
        return {**plain, "gpu_memory_mb": self.gpus.free_memory}

    def place(self, demand: Demand) -> Devices | None:
        """The devices that the demand would get, or None where it does not fit."""
        if any(wanted > free for wanted, free in zip(demand.plain, self.plain, strict=True)):
            return None
        return self.gpus.place(demand)

    def take(self, demand: Demand, devices: Devices) -> None:
        for kind, wanted in enumerate(demand.plain):
            self.plain[kind] -= wanted
        self.gpus.take(demand, devices)

    def give_back(self, demand: Demand, devices: Devices) -> None:
        for kind, wanted in enumerate(demand.plain):
            self.plain[kind] += wanted
        self.gpus.give_back(demand, devices)

    def set_aside(self, demand: Demand) -> None:
        """Take what there is of the demand; all GPUs, where there are too few for it."""
        for kind, wanted in enumerate(demand.plain):
            self.plain[kind] = max(0, self.plain[kind] - wanted)
        devices = self.gpus.place(demand)
        if devices is None:
            self.gpus.take_all()
        else:
            self.gpus.take(demand, devices)

    def lacks_for(self, demand: Demand, *, used_by: Demand) -> bool:
        """Whether too little is left for the demand of a kind that `used_by` uses as well."""
        kinds = zip(demand.plain, used_by.plain, self.plain, strict=True)
        if any(used and wanted > free for wanted, used, free in kinds):
            return True
        return used_by.uses_gpu and self.gpus.place(demand) is None
