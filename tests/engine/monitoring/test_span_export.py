"""Spans on their way to a collector."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.configuration import MonitoringSection
from comfyrail.engine.monitoring import start_monitoring
from comfyrail.engine.monitoring.span_export import traces_url
from comfyrail.errors import ConfigurationError
from tests.cli.ports import free_port
from tests.engine.monitoring.collector import attributes_of, collecting
from tests.engine.monitoring.test_worker_metrics import config_file, run, worker
from tests.graphs import picture


def test_a_worker_sends_its_spans_to_a_collector(tmp_path: Path) -> None:
    with collecting() as collector:
        config = config_file(
            tmp_path, metrics=False, tracing=True, sampling=1.0, otlp_endpoint=collector.url
        )
        with worker(tmp_path / "data", "--config", config) as process:
            run(process, picture())
            # Those that wait are sent when it ends.
            assert process.stop() == 0
        assert set(collector.paths) == {"/v1/traces"}
        assert collector.resources[0]["service.name"] == "comfyrail-worker"
        (graph,) = collector.named("execute_graph")
        assert {span.name for span in collector.spans} == {
            "execute_graph",
            "execute_node_EmptyImage",
            "execute_node_ImageInvert",
            "execute_node_SaveImage",
        }
        (save,) = collector.named("execute_node_SaveImage")
        assert (save.trace_id, save.parent_span_id) == (graph.trace_id, graph.span_id)
        about = attributes_of(save)
        assert about["node.id"] == "3"
        assert about["node.type"] == "SaveImage"
        assert about["status"] == "completed"
        assert about["execution.id"] == attributes_of(graph)["execution.id"] != ""
        assert graph.start_time_unix_nano <= save.start_time_unix_nano
        assert save.end_time_unix_nano <= graph.end_time_unix_nano


def test_a_collector_that_is_not_there_holds_nothing_up(tmp_path: Path) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    config = config_file(
        tmp_path, metrics=False, tracing=True, sampling=1.0, otlp_endpoint=endpoint
    )
    with worker(tmp_path / "data", "--config", config) as process:
        run(process, picture())
        began = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - began < 6


def test_tracing_without_an_address_is_said_and_left_out(tmp_path: Path) -> None:
    config = config_file(tmp_path, metrics=False, tracing=True)
    with worker(tmp_path / "data", "--config", config) as process:
        run(process, picture())
        assert "monitoring.otlp_endpoint is not set" in process.log


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/otel", "https://c/otel/v1/traces"),
        ("https://c/v1/traces", "https://c/v1/traces"),
    ],
)
def test_the_path_is_added_where_it_is_missing(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


@pytest.mark.parametrize("endpoint", ["localhost:4318", "grpc://c", "http://", "http://[x", ""])
def test_what_is_no_address_is_refused(endpoint: str) -> None:
    section = MonitoringSection(metrics=False, tracing=True, otlp_endpoint=endpoint)
    with (
        pytest.raises(ConfigurationError, match="otlp_endpoint must be an address"),
        start_monitoring(section, builtin_registry(), "127.0.0.1"),
    ):
        pass


def without_module(name: str, work: str) -> subprocess.CompletedProcess[str]:
    """Run some code where a package is not installed."""
    code = textwrap.dedent(f"""
        import sys
        sys.modules[{name!r}] = None
        from comfyrail.engine.builtin import builtin_registry
        from comfyrail.engine.configuration import MonitoringSection
        from comfyrail.engine.monitoring import start_monitoring
        {work}
    """)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_missing_extra_is_named_with_what_to_do() -> None:
    ended = without_module(
        "opentelemetry.sdk",
        "section = MonitoringSection(metrics=False, tracing=True, otlp_endpoint='http://c')\n"
        "        start_monitoring(section, builtin_registry(), '127.0.0.1').__enter__()",
    )
    assert ended.returncode == 1
    assert "ConfigurationError: monitoring.tracing needs OpenTelemetry" in ended.stderr
    assert "pip install 'comfyrail[tracing]'" in ended.stderr


def test_a_worker_without_the_metrics_library_works_without_metrics() -> None:
    ended = without_module(
        "prometheus_client",
        "with start_monitoring(MonitoringSection(), builtin_registry(), '127.0.0.1', 0) as it:\n"
        "            print(it.hooks, it.metrics_url)",
    )
    assert ended.returncode == 0, ended.stderr
    assert "[] None" in ended.stdout
    assert "prometheus-client cannot be imported" in ended.stdout


def test_nothing_of_opentelemetry_is_imported_without_tracing() -> None:
    ended = without_module(
        "opentelemetry",
        "with start_monitoring(MonitoringSection(), builtin_registry(), '127.0.0.1', 0) as it:\n"
        "            print(len(it.hooks))",
    )
    assert ended.stdout.endswith("1\n"), ended.stderr
