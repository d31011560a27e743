"""What all workers of a fleet share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from comfyrail.clock import Clock
from comfyrail.fleet.accounts import Accounts, NoAccounts
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.conversion import Converter
from comfyrail.fleet.health import HealthRules
from comfyrail.fleet.outputs import BlobSink
from comfyrail.fleet.places import Places
from comfyrail.fleet.previews import Previews
from comfyrail.fleet.profiles import Profiles
from comfyrail.fleet.prompt_secrets import PromptSecrets
from comfyrail.fleet.remedies import Mender, NoMender, no_trouble
from comfyrail.fleet.session import SessionTimes
from comfyrail.fleet.suspects import Suspects
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.jobs.events import EventType
from comfyrail.store.interface import Store


class Tell(Protocol):
    def __call__(self, event_type: EventType, **data: Any) -> None: ...


def _nobody(event_type: EventType, **data: Any) -> None:
    del event_type, data


@dataclass(frozen=True, slots=True)
class WorkerContext:
    store: Store
    catalog: FleetCatalog
    sink: BlobSink
    http: aiohttp.ClientSession
    clock: Clock
    times: SessionTimes
    owner: str
    lease_seconds: float
    accounts: Accounts = field(default_factory=NoAccounts)
    input_folder: Path | None = None
    """Where the server keeps the files that jobs name; None: nothing is uploaded to workers."""
    previews: Previews = field(default_factory=Previews)
    secrets: PromptSecrets = field(default_factory=PromptSecrets)
    prefetch: PrefetchRules = field(default_factory=PrefetchRules)
    health: HealthRules = field(default_factory=HealthRules)
    warm_up_limit: float = 900.0
    """Seconds that a warm-up may take, models loaded from disk included."""
    places: Places = field(default_factory=Places)
    profiles: Profiles = field(default_factory=Profiles)
    suspects: Suspects = field(default_factory=Suspects)
    mender: Mender = field(default_factory=NoMender)
    converter: Converter | None = None
    """Makes pictures into what submissions want; None: they stay as they are."""
    is_disk_in_trouble: Callable[[], Awaitable[bool]] = no_trouble
    """Whether the server's own disk is full, or cannot be written."""
    tell: Tell = _nobody
    """Says what happens to workers, for those who run the server."""
