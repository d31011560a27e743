"""Celery as the engine uses it: a queue of tasks in Redis or Valkey, and nothing more.

Messages are JSON, never pickle. There is no result backend: replies go to a list of the
coordinator's own, so that it can wait for all of them at once.
"""

from typing import Any
from urllib.parse import quote, urlsplit

from celery import Celery

from comfyrail.engine.distributed.broker_client import CONNECT_SECONDS

TASK_NAME = "comfyrail.run_node"
VISIBILITY_SECONDS = 6 * 3600
"""When the broker gives a message to another worker that was taken and not acknowledged. The
coordinator sends a lost task again long before."""


def make_app(broker_url: str, queue: str, *, waits_for_broker: bool = True) -> Any:
    """A Celery application of its own; it is not the current one of any thread.

    One that does not wait for the broker raises when it cannot be reached.
    """
    app = Celery("comfyrail", broker=broker_address(broker_url), set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_backend=None,
        result_accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_default_queue=queue,
        task_create_missing_queues=True,
        worker_prefetch_multiplier=1,
        worker_disable_rate_limits=True,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=CONNECT_SECONDS,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_SECONDS,
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_keepalive": True,
            **({} if waits_for_broker else {"max_retries": 1, "interval_start": 0.0}),
        },
    )
    return app


def broker_address(url: str) -> str:
    """A URL of redis-py as Celery writes it: only sockets of Unix differ."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    user = f"{parts.netloc}" if "@" in parts.netloc else ""
    database = next(
        (part.partition("=")[2] for part in parts.query.split("&") if part.startswith("db=")), "0"
    )
    return f"redis+socket://{user}{parts.path}?virtual_host={quote(database)}"
