"""The port of the metrics: what it answers, and to whom."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser
from prometheus_client.registry import Collector

from comfyrail.engine.monitoring.metrics_server import MOST_AT_ONCE, MetricsServer
from comfyrail.process import listen

read_open_metrics: Any = parser.text_string_to_metric_families


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)
    return registry


@pytest.fixture
def server(registry: CollectorRegistry) -> Iterator[MetricsServer]:
    with MetricsServer(listen("127.0.0.1", 0), registry) as running:
        yield running


def ask(
    server: MetricsServer, method: str = "GET", path: str = "/metrics", **headers: str
) -> tuple[int, str, str]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, str(reply.getheader("Content-Type")), reply.read().decode()
    finally:
        connection.close()


def test_metrics_are_at_their_path_only(server: MetricsServer) -> None:
    status, content_type, body = ask(server)
    assert (status, "things_total 3.0" in body) == (200, True)
    assert content_type.startswith("text/plain; version=0.0.4")
    assert ask(server, path="/metrics?name=x")[0] == 200
    assert ask(server, path="/")[0] == 404
    assert ask(server, "HEAD")[::2] == (200, "")
    assert ask(server, "POST")[0] == 501


def test_a_scraper_may_ask_for_open_metrics(server: MetricsServer) -> None:
    accepted = "application/openmetrics-text; version=1.0.0"
    status, content_type, body = ask(server, Accept=accepted)
    assert (status, content_type.split(";")[0]) == (200, "application/openmetrics-text")
    assert [family.name for family in read_open_metrics(body)] == ["things"]


def test_a_page_of_another_site_may_not_look_in(server: MetricsServer) -> None:
    assert ask(server, Origin="http://evil.example")[::2] == (403, "")
    assert ask(server, Host="evil.example:9090")[::2] == (403, "")
    assert ask(server, Host="[x")[0] == 403
    assert ask(server, Host="localhost:9090")[0] == 200
    assert ask(server, Host="[::1]:9090")[0] == 200


def test_a_collector_that_fails_does_not_end_the_server(
    server: MetricsServer, registry: CollectorRegistry
) -> None:
    class Failing(Collector):
        def collect(self) -> list[Metric]:
            raise RuntimeError("no figures")

    failing = Failing()
    # Registered as it is: the registry would ask it for its names.
    registry._collector_to_names[failing] = []
    assert ask(server)[0] == 500
    del registry._collector_to_names[failing]
    assert ask(server)[0] == 200


def test_clients_that_say_nothing_do_not_keep_others_out_for_long(server: MetricsServer) -> None:
    address = urlsplit(server.url)
    silent = [
        socket.create_connection((str(address.hostname), address.port or 0))
        for _ in range(MOST_AT_ONCE - 1)
    ]
    began = time.monotonic()
    assert ask(server)[0] == 200
    assert time.monotonic() - began < 3
    for each in silent:
        each.close()


def test_more_at_once_than_there_are_places_are_turned_away(server: MetricsServer) -> None:
    address = urlsplit(server.url)
    silent = [
        socket.create_connection((str(address.hostname), address.port or 0))
        for _ in range(MOST_AT_ONCE + 5)
    ]
    silent[-1].settimeout(5)
    assert silent[-1].recv(1) == b""
    running = [each for each in threading.enumerate() if "process_request" in each.name]
    assert len(running) <= MOST_AT_ONCE
    for each in silent:
        each.close()


def test_a_closed_server_lets_go_of_its_port(registry: CollectorRegistry) -> None:
    with MetricsServer(listen("127.0.0.1", 0), registry) as server:
        port = urlsplit(server.url).port or 0
    with listen("127.0.0.1", port):
        pass


def test_an_address_of_the_sixth_version_is_served(registry: CollectorRegistry) -> None:
    try:
        listener = listen("::1", 0)
    except Exception:  # noqa: BLE001 - a machine without it
        pytest.skip("no IPv6 here")
    with MetricsServer(listener, registry) as server:
        assert server.url.startswith("http://[::1]:")
        assert ask(server)[0] == 200
