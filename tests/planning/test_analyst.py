"""Analyses are remembered by all that they look at, and by nothing else."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.folders import Folders
from comfyrail.planning.analysis import analyse
from comfyrail.planning.analyst import Analyst
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.graph import Workflow, parse_workflow


def catalog_of_engine() -> Any:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        return parse_object_info(builtin_registry().object_info(Folders.under(Path(folder))))


CATALOG = catalog_of_engine()


def graph(width: int, color: int, prefix: str, method: str) -> Workflow:
    return parse_workflow(
        {
            "1": {
                "class_type": "EmptyImage",
                "inputs": {"width": width, "height": 64, "batch_size": 1, "color": color},
            },
            "2": {
                "class_type": "ImageScaleBy",
                "inputs": {"image": ["1", 0], "upscale_method": method, "scale_by": 2.0},
            },
            "3": {
                "class_type": "SaveImage",
                "inputs": {"images": ["2", 0], "filename_prefix": prefix},
            },
        }
    )


def test_another_text_is_no_new_analysis() -> None:
    analyst = Analyst(CATALOG, {})
    first = analyst.analyse(graph(64, 1, "a", "bilinear"))
    assert analyst.analyse(graph(64, 1, "b", "bilinear")) is first
    assert analyst.analyse(graph(65, 1, "a", "bilinear")) is not first


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.integers(0, 2),
            st.text(max_size=3),
            st.sampled_from(["area", "lanczos"]),
        ),
        max_size=20,
    )
)
def test_remembered_analysis_is_what_a_new_one_would_be(
    submitted: list[tuple[int, int, str, str]],
) -> None:
    analyst = Analyst(CATALOG, {})
    for values in submitted:
        workflow = graph(*values)
        assert analyst.analyse(workflow) == analyse(workflow, CATALOG, {})


def test_hostile_values_are_analysed_without_a_key() -> None:
    analyst = Analyst(CATALOG, {})
    workflow = parse_workflow(json.loads('{"1": {"class_type": "EmptyImage", "inputs": {}}}'))
    bad = workflow.with_inputs({"1": {"width": 10**400, "height": "\ud800", "color": float("nan")}})
    assert analyst.analyse(bad).node_count == 1
    unknown = parse_workflow({"1": {"class_type": "Nobody knows", "inputs": {"seed": 1}}})
    assert analyst.analyse(unknown).node_count == 1


def test_transform_and_link_to_a_text_are_part_of_what_is_remembered() -> None:
    plain = graph(64, 1, "a", "area").to_prompt()
    blurred = json.loads(json.dumps(plain))
    blur = {"class_type": "ImageBlur", "input": "image", "inputs": {"blur_radius": 9, "sigma": 1.0}}
    blurred["3"]["_meta"] = {"transforms": {"images": blur}}
    linked = json.loads(json.dumps(plain))
    linked["3"]["inputs"]["filename_prefix"] = ["2", 0]
    analyst = Analyst(CATALOG, {})
    for prompt in (plain, blurred, linked):
        workflow = parse_workflow(prompt)
        assert analyst.analyse(workflow) == analyse(workflow, CATALOG, {})
