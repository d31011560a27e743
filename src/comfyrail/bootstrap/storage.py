"""What happens when the disk is in trouble: no job is begun, and those that wait say why."""

from comfyrail.jobs.events import EventType
from comfyrail.notifications.notices import Notices
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.disk_trouble import StorageTrouble
from comfyrail.store.storage_watch import StorageWatch
from comfyrail.usecases.waits import WaitForecast

HOLD = "storage"


async def hold_while_in_trouble(
    storage: StorageWatch, scheduler: Scheduler, waits: WaitForecast, notices: Notices
) -> None:
    """From now on; returns when the disk has been looked at once."""

    def change(trouble: StorageTrouble | None) -> None:
        waits.hold = None if trouble is None else trouble.lasting_message
        if trouble is None:
            scheduler.release(HOLD)
            notices.tell(EventType.STORAGE_RECOVERED)
        else:
            scheduler.hold(HOLD)
            notices.tell(
                EventType.STORAGE_TROUBLE, kind=trouble.kind, message=trouble.lasting_message
            )

    storage.changed = change
    await storage.look()
