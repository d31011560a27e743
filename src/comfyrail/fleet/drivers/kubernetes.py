"""Driver `kubernetes`: one pod a worker, through the API server of a cluster.

It was tried against a server of the tests that keeps to the documented API, not on a real cluster.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import aiohttp
import structlog

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers.interface import Driver, HostContext
from comfyrail.fleet.drivers.kubernetes_access import ClusterAccess, open_access
from comfyrail.fleet.drivers.kubernetes_client import PodApi
from comfyrail.fleet.drivers.kubernetes_pods import (
    CONTAINER,
    PodState,
    has_settings,
    is_ours,
    pod_name,
    read_state,
    write_pod,
)
from comfyrail.fleet.drivers.kubernetes_proxy import PodProxy
from comfyrail.fleet.drivers.kubernetes_settings import (
    DRIVER_NAME,
    KubernetesSettings,
    check_settings,
)
from comfyrail.fleet.drivers.log_files import keep_last_lines
from comfyrail.fleet.drivers.settings import plain_settings, read_settings
from comfyrail.ids import WorkerId

STOP_MARGIN_SECONDS = 30.0
PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0

log = structlog.get_logger(__name__)


class KubernetesHost:
    """The pod of one worker. It is found again by its name, and known by its labels."""

    driver = DRIVER_NAME
    shares_inputs = False

    def __init__(
        self, worker_id: WorkerId, settings: KubernetesSettings, context: HostContext
    ) -> None:
        self._worker_id = worker_id
        self._settings = settings
        self._http = context.http
        self._name = pod_name(worker_id)
        self._uid = ""
        self._access: ClusterAccess | None = None
        self._proxy: PodProxy | None = None

    @property
    def place(self) -> str | None:
        """The pod is this worker's alone."""
        return None

    async def start(self) -> str:
        api = await self._api()
        why = "nothing was heard of it"
        starting: set[str] = set()
        is_new = False
        try:
            async with asyncio.timeout(self._settings.start_limit), aclosing(api.follow()) as pods:
                async for pod in pods:
                    if pod is None:
                        await api.create(write_pod(self._settings, self._worker_id))
                        is_new = True
                        continue
                    state = self._judge(api, pod)
                    if state.kind == "ready":
                        self._uid = state.uid
                        return await self._reach(api, state)
                    await self._clear_away(api, state, died=is_new or state.uid in starting)
                    why = state.why
                    if state.kind == "waiting":
                        starting.add(state.uid)
        except TimeoutError as error:
            raise WorkerUnreachable(
                f"The pod {self._name} in {api.namespace} is not ready after "
                f"{self._settings.start_limit:g} s: {why}. It stays as it is and is looked at "
                f"again; see: kubectl -n {api.namespace} describe pod {self._name}",
                code="POD_NOT_READY",
                details={"pod": self._name, "namespace": api.namespace, "reason": why},
            ) from error
        raise AssertionError("a pod is followed for ever")

    async def wait_ended(self) -> str:
        api = await self._api()
        pause = PAUSE_SECONDS
        while True:
            try:
                async with aclosing(api.follow()) as pods:
                    async for pod in pods:
                        pause = PAUSE_SECONDS
                        cause = self._why_ended(pod)
                        if cause is not None:
                            return cause
            except WorkerError as error:
                # The worker may well live on; whether it does is for its own line to say.
                log.warning("pod_not_watched", pod=self._name, error=error.message)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _why_ended(self, pod: dict[str, Any] | None) -> str | None:
        if pod is None:
            return f"the pod {self._name} was deleted"
        state = read_state(pod)
        if state.uid != self._uid:
            return f"the pod {self._name} was replaced by another one"
        if state.kind in {"ended", "refused"}:
            return f"the pod {self._name} ended: {state.why}"
        return None

    async def stop(self) -> None:
        api = await self._api()
        why = "the cluster did not answer"
        try:
            async with asyncio.timeout(self._settings.stop_grace + STOP_MARGIN_SECONDS):
                is_gone = False
                while not is_gone:
                    try:
                        await self._delete(api)
                        is_gone = True
                    except WorkerUnreachable as error:
                        why = error.message
                        await asyncio.sleep(PAUSE_SECONDS)
        except TimeoutError as error:
            raise WorkerUnreachable(
                f"The pod {self._name} in {api.namespace} could not be ended: {why}. It may hold "
                f"its GPU: kubectl -n {api.namespace} delete pod {self._name}",
                code="POD_REMAINS",
                details={"pod": self._name, "namespace": api.namespace},
            ) from error
        finally:
            await self.release()

    async def _delete(self, api: PodApi) -> None:
        """Return when there is no pod of ours."""
        async with aclosing(api.follow()) as pods:
            async for pod in pods:
                if pod is None or not is_ours(pod, self._worker_id):
                    return
                state = read_state(pod)
                if state.kind != "leaving":
                    await api.delete(state.uid, self._settings.stop_grace)

    async def release(self) -> None:
        if self._proxy is not None:
            await self._proxy.close()

    async def logs(self, lines: int) -> str:
        api = await self._api()
        try:
            text = await api.log(max(1, min(lines, 10_000)), CONTAINER)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise WorkerUnreachable(f"The log cannot be had: {error}.") from error
        return keep_last_lines(text, lines)

    def _judge(self, api: PodApi, pod: dict[str, Any]) -> PodState:
        """The pod's state; one that was made by earlier settings counts as ended."""
        if not is_ours(pod, self._worker_id):
            raise DriverRefused(
                f"There is a pod {self._name} in {api.namespace} that is not of this worker. "
                "Remove it, or add the worker under another id.",
                code="POD_NAME_TAKEN",
                details={"pod": self._name, "namespace": api.namespace},
            )
        state = read_state(pod)
        if state.kind not in {"leaving", "ended"} and not has_settings(pod, self._settings):
            return PodState("ended", state.uid, "it was made by other settings")
        return state

    async def _clear_away(self, api: PodApi, state: PodState, *, died: bool) -> None:
        """Delete a pod that will not become ready. `died`: it ended while it was waited for."""
        if state.kind == "refused":
            await api.delete(state.uid, 0)
            raise DriverRefused(
                f"The pod {self._name} cannot run: {state.why}. Change the worker's settings.",
                code="POD_REFUSED",
                details={"pod": self._name, "image": self._settings.image},
            )
        if state.kind == "ended":
            log.info("pod_replaced", pod=self._name, why=state.why)
            await api.delete(state.uid, self._settings.stop_grace)
            if died:
                raise WorkerUnreachable(
                    f"The pod {self._name} ended while it started: {state.why}.",
                    code="POD_ENDED",
                    details={"pod": self._name},
                )

    async def _reach(self, api: PodApi, state: PodState) -> str:
        port = self._settings.port
        if self._settings.reach == "pod_ip":
            host = f"[{state.address}]" if ":" in state.address else state.address
            return f"http://{host}:{port}"
        if self._proxy is None:
            assert self._access is not None  # noqa: S101 - `api` was made with it
            self._proxy = PodProxy(self._http, self._access, api.name, port)
        return await self._proxy.start()

    async def _api(self) -> PodApi:
        if self._access is None:
            self._access = await asyncio.to_thread(open_access, self._settings)
        return PodApi(self._http, self._access, self._name)


class KubernetesDriver:
    name = DRIVER_NAME

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = read_settings(KubernetesSettings, config, self.name)
        check_settings(settings)
        return plain_settings(settings)

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> KubernetesHost:
        return KubernetesHost(
            worker_id, read_settings(KubernetesSettings, config, self.name), context
        )


DRIVER: Driver = KubernetesDriver()
