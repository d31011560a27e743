"""Nodes with known ends, and what a scraper makes of what is exposed."""

import time
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, node

ANY = ("*",)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@node("Number", required={"value": ("INT",)}, outputs=("INT",))
def number(value: int) -> int:
    return value


@node("Nap", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",), cacheable=False)
def nap(value: Any, seconds: float) -> Any:
    time.sleep(seconds)
    return value


@node("Wait", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",), cacheable=False)
def wait(value: Any, seconds: float, context: NodeContext) -> Any:
    context.sleep(seconds)
    return value


@node("Fail", required={"value": ANY}, outputs=("INT",))
def fail(value: Any) -> int:
    raise RuntimeError(f"no {value}")


@node("Show", required={"value": ANY}, is_output=True)
def show(value: Any) -> NodeResult:
    return NodeResult(ui={"value": [value]})


NODES = [number, nap, wait, fail, show]


def read_samples(text: str) -> Samples:
    """All samples of an exposition, as a scraper reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def exposed(*collectors: Collector) -> str:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry).decode()


def value_of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))
