"""Stage 4 and the report on every worker: who lacks what [2.2, 2.4]."""

from typing import Any

import pytest

from comfyrail.validation import fleet_fit
from comfyrail.validation.fleet_fit import fleet_report
from comfyrail.validation.policy import SecurityPolicy, WorkflowLimits
from comfyrail.workflow.capabilities import GIBIBYTE, ResourceNeeds, WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.catalog_merge import merge_catalogs
from comfyrail.workflow.graph import parse_workflow
from tests.validation.parts import catalog, context, findings, object_info, text_to_image


def catalog_with(**changes: Any) -> NodeCatalog:
    """One that lacks types (`without`), or has other choices (`Type__input=[…]`)."""
    info = object_info()
    for class_type in changes.pop("without", ()):
        del info[class_type]
    for place, choices in changes.items():
        class_type, _, name = place.partition("__")
        info[class_type]["input"]["required"][name][0] = choices
    return parse_object_info(info)


def needing(**needs: Any) -> Any:
    return lambda _: ResourceNeeds(**needs)


def test_nothing_is_said_while_no_worker_is_known() -> None:
    assert findings(text_to_image(), needs=needing(video_memory=10**15)) == []


def test_one_worker_that_can_is_enough() -> None:
    small = WorkerCapabilities("small", catalog(), video_memory=GIBIBYTE)
    silent = WorkerCapabilities("silent", catalog())
    away = WorkerCapabilities("away", catalog(), is_online=False, video_memory=80 * GIBIBYTE)
    needs = needing(video_memory=8 * GIBIBYTE)
    for fitting in (silent, away):
        assert findings(text_to_image(), workers=[small, fitting], needs=needs) == []


def test_workers_that_are_too_small_are_named_with_how_much_they_lack() -> None:
    workers = [
        WorkerCapabilities("a", catalog(), video_memory=6 * GIBIBYTE, memory=64 * GIBIBYTE),
        WorkerCapabilities("b", catalog(), video_memory=24 * GIBIBYTE, memory=GIBIBYTE),
        WorkerCapabilities("c", catalog(), disk_free=0),
    ]
    needs = needing(video_memory=8 * GIBIBYTE, memory=2 * GIBIBYTE, disk=GIBIBYTE)
    found = findings(text_to_image(), workers=workers, needs=needs)
    assert [(each.stage, each.error_code) for each in found] == [
        ("resources", "INSUFFICIENT_RESOURCES")
    ]
    lacks = {name: each["memory"] for name, each in found[0].details["workers"].items()}
    assert lacks == {
        "a": {"video_memory": 2 * GIBIBYTE, "memory": 0, "disk": 0},
        "b": {"video_memory": 0, "memory": GIBIBYTE, "disk": 0},
        "c": {"video_memory": 0, "memory": 0, "disk": GIBIBYTE},
    }
    assert "a: 2.0 GiB of video memory too few" in found[0].message


def test_no_single_worker_with_all_that_is_needed_is_an_error_that_names_what_each_lacks() -> None:
    without_sampler = catalog_with(without=["KSampler"])
    without_model = catalog_with(CheckpointLoaderSimple__ckpt_name=["other.safetensors"])
    without_choice = catalog_with(KSampler__scheduler=["karras"])
    catalogs = [without_sampler, without_model, without_choice]
    workers = [WorkerCapabilities(name, each) for name, each in zip("abc", catalogs, strict=True)]
    found = findings(text_to_image(), catalog=merge_catalogs(catalogs), workers=workers)
    assert [each.error_code for each in found] == ["INSUFFICIENT_RESOURCES"]
    lacking = found[0].details["workers"]
    assert lacking["a"]["missing_node_types"] == ["KSampler"]
    assert lacking["b"]["missing_models"] == ["checkpoints/sd15.safetensors"]
    assert lacking["c"]["missing_choices"] == [
        {"node_id": "k", "input": "scheduler", "value": "'normal'"}
    ]
    for part in ("a: no node type 'KSampler'", "b: no model 'sd15", "c: does not take the value"):
        assert part in found[0].message


def test_what_only_some_workers_have_is_no_fault() -> None:
    catalogs = [catalog(), catalog_with(without=["KSampler"])]
    workers = [WorkerCapabilities(name, each) for name, each in zip("ab", catalogs, strict=True)]
    merged = merge_catalogs(catalogs)
    assert findings(text_to_image(), catalog=merged, workers=workers) == []
    report = fleet_report(parse_workflow(text_to_image()), context(catalog=merged, workers=workers))
    assert [(fit.worker_id, fit.can_run) for fit in report] == [("a", True), ("b", False)]
    assert report[1].missing_node_types == ("KSampler",)


def test_model_that_a_worker_tells_of_is_not_held_against_it() -> None:
    own = catalog_with(CheckpointLoaderSimple__ckpt_name=["other.safetensors"])
    told = {"checkpoints": {"sd15.safetensors": 4 * GIBIBYTE}}
    workers = [WorkerCapabilities("a", own), WorkerCapabilities("b", own, models=told)]
    report = fleet_report(parse_workflow(text_to_image()), context(workers=workers))
    assert [fit.can_run for fit in report] == [False, True]
    assert [model.name for model in report[0].missing_models] == ["sd15.safetensors"]


def test_worker_of_which_nothing_is_known_is_not_held_back() -> None:
    worker = WorkerCapabilities("new", NodeCatalog())
    report = fleet_report(parse_workflow(text_to_image()), context(workers=[worker]))
    assert report[0].can_run


def test_workers_with_one_catalog_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[NodeCatalog] = []
    judge = fleet_fit._fit_of_catalog

    def count(examined: Any, each: NodeCatalog) -> Any:
        judged.append(each)
        return judge(examined, each)

    monkeypatch.setattr(fleet_fit, "_fit_of_catalog", count)
    shared = catalog_with(without=["KSampler"])
    workers = [WorkerCapabilities(f"w{number}", shared) for number in range(10_000)]
    report = fleet_report(parse_workflow(text_to_image()), context(workers=workers))
    assert len(report) == 10_000
    assert not any(fit.can_run for fit in report)
    assert judged == [shared]
    found = findings(text_to_image(), workers=workers)
    assert len(found[0].details["workers"]) == 20
    assert found[0].details["worker_count"] == 10_000
    assert len(found[0].message) < 500


def test_first_worker_that_fits_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    judge = fleet_fit._fit_of_worker

    def count(worker: WorkerCapabilities, *rest: Any) -> Any:
        asked.append(worker.id)
        return judge(worker, *rest)

    monkeypatch.setattr(fleet_fit, "_fit_of_worker", count)
    workers = [WorkerCapabilities(f"w{number}", catalog()) for number in range(10_000)]
    assert findings(text_to_image(), workers=workers) == []
    assert asked == ["w0"]


def test_run_that_would_take_too_long_is_refused() -> None:
    policy = SecurityPolicy(limits=WorkflowLimits(max_seconds=60))
    found = findings(text_to_image(), policy, needs=needing(seconds=61.0))
    assert [each.details for each in found] == [{"seconds": 61.0, "allowed_seconds": 60}]
