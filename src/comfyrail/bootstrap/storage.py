"""What happens when the disk is in trouble: no job is begun, and those that wait say why."""

from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.disk_trouble import StorageTrouble
from comfyrail.store.storage_watch import StorageWatch
from comfyrail.usecases.waits import WaitForecast

HOLD = "storage"


async def hold_while_in_trouble(
    storage: StorageWatch, scheduler: Scheduler, waits: WaitForecast
) -> None:
    """From now on; returns when the disk has been looked at once."""

    def change(trouble: StorageTrouble | None) -> None:
        waits.hold = None if trouble is None else trouble.lasting_message
        if trouble is None:
            scheduler.release(HOLD)
        else:
            scheduler.hold(HOLD)

    storage.changed = change
    await storage.look()
