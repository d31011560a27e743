"""Driver `novita`: one GPU instance of Novita AI a worker, over its REST API.

It was tried against a server of the tests that keeps to the documented contract; there was no
account to try it with. What costs money is never asked for twice without looking, and never
forgotten: an instance that cannot be deleted is named in the log and in the error.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import structlog

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers.interface import Driver, HostContext
from comfyrail.fleet.drivers.log_files import keep_last_lines
from comfyrail.fleet.drivers.novita_client import NovitaApi, Unsure
from comfyrail.fleet.drivers.novita_instances import (
    Instance,
    checked_url,
    fingerprint,
    instance_name,
    worker_url,
    write_instance,
)
from comfyrail.fleet.drivers.novita_settings import (
    DRIVER_NAME,
    NovitaSettings,
    check_settings,
)
from comfyrail.fleet.drivers.readiness import answers_like_comfyui
from comfyrail.fleet.drivers.settings import plain_settings, read_settings
from comfyrail.ids import WorkerId
from comfyrail.network.addresses import is_public_name, normal_host

KEY_NAME = "novita_api_key"
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
STOP_LIMIT_SECONDS = 180.0
LOOKS_AFTER_DOUBT = 3
LOG_SECONDS = 5.0
LOG_SILENCE_SECONDS = 1.0
"""The log is a stream without an end: what comes until it pauses is what there is."""
LOG_BYTES = 1 << 20

log = structlog.get_logger(__name__)


class NovitaHost:
    """The instance of one worker: found again by its name, and known by its variables."""

    driver = DRIVER_NAME
    shares_inputs = False

    def __init__(self, worker_id: WorkerId, settings: NovitaSettings, context: HostContext) -> None:
        self._worker_id = worker_id
        self._settings = settings
        self._context = context
        self._name = instance_name(worker_id)
        self._id: str | None = None
        host = normal_host(urlsplit(settings.base_url).hostname or "") or ""
        self._may_be_private = not is_public_name(host)

    @property
    def place(self) -> str | None:
        """The instance is this worker's alone."""
        return None

    async def start(self) -> str:
        api = self._api()
        try:
            async with asyncio.timeout(self._settings.start_limit):
                instance_id = await self._find_or_create(api)
                self._id = instance_id
                return await self._wait_ready(api, instance_id)
        except TimeoutError as error:
            why = f"it does not answer after {self._settings.start_limit:g} s"
            await self._delete_failed(api, why)
            raise WorkerUnreachable(
                f"The Novita instance {self._name} was started and deleted again: {why}. Its image "
                "may be too large for start_limit, or not listen on its port.",
                code="INSTANCE_NOT_READY",
            ) from error

    async def wait_ended(self) -> str:
        api = self._api()
        pause = self._settings.poll_seconds
        while self._id is not None:
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spread
            try:
                cause = await self._look_for_end(api, self._id)
            except WorkerError as error:
                # The instance may well live on; whether it does is for its own line to say.
                log.warning("novita_not_watched", instance=self._id, error=error.message)
                pause = max(
                    min(2 * pause, 10 * self._settings.poll_seconds), error.retry_after or 0
                )
                continue
            if cause is not None:
                return cause
            pause = self._settings.poll_seconds
        return f"the instance {self._name} was deleted"

    async def stop(self) -> None:
        await self._delete_until_gone(self._api(), await self._known_ids())

    async def release(self) -> None:
        """The instance goes on, and is found again by its name."""

    async def logs(self, lines: int) -> str:
        api = self._api()
        ours = await self._ours(api)
        instance = await api.get(ours[0].id) if ours else None
        address = instance.log_address if instance is not None else ""
        url = checked_url(address, may_be_private=self._may_be_private) if address else None
        if url is None:
            raise WorkerError(
                f"Novita gives no log of the instance {self._name}. Look in its console.",
                code="NO_LOG",
            )
        return keep_last_lines(await self._read_log(url), lines)

    # Starting

    async def _find_or_create(self, api: NovitaApi) -> str:
        wanted = fingerprint(self._settings)
        kept: Instance | None = None
        for instance in await self._ours(api):
            is_good = instance.phase in {"running", "starting"} and instance.settings == wanted
            if is_good and kept is None:
                kept = instance
            elif instance.phase not in {"leaving", "gone"}:
                log.info("novita_instance_replaced", instance=instance.id, status=instance.status)
                await self._delete_until_gone(api, [instance.id])
        if kept is not None:
            return kept.id
        return await self._create(api)

    async def _create(self, api: NovitaApi) -> str:
        body = write_instance(self._settings, self._worker_id, self._image_auth())
        try:
            return await api.create(body)
        except Unsure as doubt:
            log.warning("novita_create_unsure", name=self._name, error=doubt.message)
            pause = FIRST_PAUSE_SECONDS
            for _ in range(LOOKS_AFTER_DOUBT):
                await asyncio.sleep(pause)
                pause *= 2
                for instance in await self._ours(api):
                    if instance.phase in {"running", "starting"}:
                        return instance.id
            raise

    async def _wait_ready(self, api: NovitaApi, instance_id: str) -> str:
        pause = FIRST_PAUSE_SECONDS
        missed = 0
        while True:
            instance = await self._get_patiently(api, instance_id)
            missed = missed + 1 if instance is None else 0
            if missed > LOOKS_AFTER_DOUBT or (instance is not None and instance.phase == "gone"):
                raise WorkerUnreachable(
                    f"The Novita instance {instance_id} was deleted while it started.",
                    code="INSTANCE_ENDED",
                )
            if instance is not None:
                await self._give_up_if_failed(api, instance)
                url = self._url_of(instance)
                if url is not None and await answers_like_comfyui(self._context.http, url):
                    return url
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spread
            pause = min(1.5 * pause, max(FIRST_PAUSE_SECONDS, self._settings.poll_seconds))

    async def _get_patiently(self, api: NovitaApi, instance_id: str) -> Instance | None:
        """Trouble with the API while an instance starts is no reason to lose what is paid for."""
        while True:
            try:
                return await api.get(instance_id)
            except WorkerUnreachable as error:
                log.info("novita_in_trouble", instance=instance_id, error=error.message)
                wanted = error.retry_after or self._settings.poll_seconds
                await asyncio.sleep(wanted * random.uniform(1.0, 1.3))  # noqa: S311 - spread

    async def _give_up_if_failed(self, api: NovitaApi, instance: Instance) -> None:
        has_failed = instance.phase in {"stopped", "leaving"}
        if not has_failed and not (instance.phase == "starting" and instance.error):
            return
        why = instance.error or f"its status is {instance.status}"
        await self._delete_failed(api, why)
        if instance.needs_a_person:
            raise DriverRefused(
                f"The Novita instance {instance.id} cannot run its image: {why}. "
                "Change the worker's settings.",
                code="INSTANCE_REFUSED",
                details={"instance": instance.id, "image": self._settings.image},
            )
        raise WorkerUnreachable(
            f"The Novita instance {instance.id} ended while it started: {why}.",
            code="INSTANCE_ENDED",
            details={"instance": instance.id},
        )

    def _url_of(self, instance: Instance) -> str | None:
        if instance.phase != "running":
            return None
        return worker_url(instance, self._settings.port, may_be_private=self._may_be_private)

    # The end

    async def _look_for_end(self, api: NovitaApi, instance_id: str) -> str | None:
        instance = await api.get(instance_id)
        if instance is None:
            # A slip of the API would cost a second instance: it must be gone from the list too.
            if any(each.id == instance_id for each in await self._ours(api)):
                return None
            return f"the instance {instance_id} is gone"
        if instance.phase in {"running", "starting"}:
            return None
        why = f": {instance.error}" if instance.error else ""
        return f"the instance {instance_id} ended ({instance.status}){why}"

    async def _delete_failed(self, api: NovitaApi, why: str) -> None:
        log.warning("novita_instance_failed", name=self._name, why=why)
        await self._delete_until_gone(api, await self._known_ids())

    async def _known_ids(self) -> list[str]:
        """Every instance of ours that is not gone, one that no list shows yet included."""
        found = [each.id for each in await self._ours(self._api()) if each.phase != "gone"]
        if self._id is not None and self._id not in found:
            found.append(self._id)
        return found

    async def _delete_until_gone(self, api: NovitaApi, ids: Iterable[str]) -> None:
        left = list(ids)
        why = "it is still there"
        pause = FIRST_PAUSE_SECONDS
        try:
            async with asyncio.timeout(STOP_LIMIT_SECONDS):
                while left:
                    left, said = await self._delete_once(api, left)
                    why = said or why
                    if left:
                        await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spread
                        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        except (TimeoutError, DriverRefused) as error:
            why = error.message if isinstance(error, DriverRefused) else why
            log.exception("novita_instance_remains", instances=left, why=why)
            raise WorkerUnreachable(
                f"Novita instances remain and cost money: {', '.join(left)}. They could not be "
                f"deleted: {why} Delete them in Novita's console.",
                code="INSTANCE_REMAINS",
                details={"instances": left},
            ) from error
        self._id = None

    async def _delete_once(self, api: NovitaApi, ids: list[str]) -> tuple[list[str], str]:
        """Those that are still there, and what went wrong."""
        left, why = [], ""
        for instance_id in ids:
            try:
                instance = await api.get(instance_id)
                if instance is None or instance.phase == "gone":
                    continue
                left.append(instance_id)
                if instance.phase != "leaving":
                    await api.delete(instance_id)
            except WorkerUnreachable as error:
                why = error.message
                if instance_id not in left:
                    left.append(instance_id)
        return left, why

    # Asking

    async def _ours(self, api: NovitaApi) -> list[Instance]:
        """The instances of this worker; the running ones first. Others of the same name are not
        ours to touch: names need not differ at Novita.
        """
        named = await api.list_named(self._name)
        ours = [each for each in named if each.worker == self._worker_id and each.phase != "gone"]
        if len(ours) < len(named):
            log.info("novita_name_shared", name=self._name, others=len(named) - len(ours))
        return sorted(ours, key=lambda each: (each.phase != "running", each.id))

    def _api(self) -> NovitaApi:
        key = self._context.secrets.get(KEY_NAME, "").strip()
        if not key:
            raise DriverRefused(
                "There is no API key for Novita: set COMFYRAIL_SECRET_NOVITA_API_KEY.",
                code="NOVITA_NO_KEY",
            )
        return NovitaApi(self._context.http, self._settings.base_url, key)

    def _image_auth(self) -> str:
        name = self._settings.image_auth_secret
        if not name:
            return ""
        secret = self._context.secrets.get(name, "")
        if not secret:
            raise DriverRefused(
                f"The server has no secret {name}, which the image's registry needs: set "
                f"COMFYRAIL_SECRET_{name.upper()}.",
                code="NOVITA_NO_IMAGE_AUTH",
            )
        return secret

    async def _read_log(self, url: str) -> str:
        """What the log's stream gives in a few seconds. The API key is not sent there."""
        content = bytearray()
        limits = aiohttp.ClientTimeout(total=LOG_SECONDS, sock_read=LOG_SILENCE_SECONDS)
        try:
            async with self._context.http.get(url, allow_redirects=False, timeout=limits) as reply:
                if reply.status != 200:
                    raise WorkerError(f"Novita's log answered {reply.status}.", code="NO_LOG")
                async for piece in reply.content.iter_chunked(1 << 16):
                    content += piece
                    if len(content) > LOG_BYTES:
                        del content[:-LOG_BYTES]
        except TimeoutError:
            pass
        except (aiohttp.ClientError, OSError) as error:
            raise WorkerUnreachable(f"Novita's log cannot be read: {error}.") from error
        return content.decode(errors="replace")


class NovitaDriver:
    name = DRIVER_NAME

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = read_settings(NovitaSettings, config, self.name)
        check_settings(settings)
        return plain_settings(settings)

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> NovitaHost:
        return NovitaHost(worker_id, read_settings(NovitaSettings, config, self.name), context)


DRIVER: Driver = NovitaDriver()
