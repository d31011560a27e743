"""A report as table, JSON, folded stacks and picture."""

import itertools
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from comfyrail.engine.profiling import NodeProfile, ProfileReport, Stretch
from comfyrail.engine.profiling.amounts import shown_bytes, shown_seconds
from comfyrail.engine.profiling.json_form import as_plain_data
from tests.engine.profiling.profile_parts import at, profiled, two_branches

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</title><script>alert(1)</script>",
    '" onload="alert(1)',
    "a & b < c > d",
    "\x00\x08\x1b[31m\ufffe\ud800",
    "]]>",
    "\u202egnp.exe",
    "{{7*7}}",
    "x" * 3000,
    "漢字の題名",
]


def node(node_id: str, began: float, ended: float, **changed: Any) -> NodeProfile:
    lane = changed.pop("lane", "main")
    about: dict[str, Any] = {
        "node_type": "Type",
        "title": None,
        "parent_id": None,
        "status": "completed",
        "cache_level": None,
        "attempts": 1,
        "ready_at": began,
        "began": began,
        "ended": ended,
        "seconds": ended - began,
        "waited_seconds": 0.0,
        "cpu_seconds": None,
        "output_bytes": 10,
        "peak_memory_bytes": None,
        "read_bytes": 0,
        "written_bytes": 0,
        "alone": True,
        "lane": lane,
        "stretches": (Stretch(began, ended, lane),),
    }
    return NodeProfile(node_id, **{**about, **changed})


def known(node_id: str, node_type: str = "Type") -> NodeProfile:
    ran = node(node_id, 0, 0, node_type=node_type, status="cached", cache_level="disk", lane=None)
    return replace(ran, began=None, ended=None, stretches=())


def report_of(*nodes: NodeProfile, wall: float = 10.0) -> ProfileReport:
    return ProfileReport(
        execution_id="run-1",
        outcome="completed",
        message=None,
        strategy="parallel",
        wall_seconds=wall,
        cpu_seconds=1.0,
        highest_memory_bytes=1000,
        critical_seconds=1.0,
        critical_path=(),
        nodes=nodes,
    )


def bars(svg: str) -> dict[str, ET.Element]:
    """The groups of the bars that stand for one node, by its id."""
    groups = ET.fromstring(svg).iter(f"{SVG}g")
    return {
        group.attrib["data-node"]: group
        for group in groups
        if "bar" in group.attrib["class"].split() and "data-node" in group.attrib
    }


def extent(group: ET.Element) -> tuple[float, float]:
    body = group.find(f"{SVG}rect")
    assert body is not None
    return float(body.attrib["x"]), float(body.attrib["width"])


# Table


def test_the_table_has_the_longest_first_and_sums_up() -> None:
    report = report_of(node("a", 0, 1), node("b", 1, 4), node("c", 4, 6), known("d"))
    table = report.as_table()
    assert [row[0] for row in table.rows] == ["b", "c", "a", "d"]
    assert [row[3] for row in table.rows] == ["3.00 s", "2.00 s", "1.00 s", "–"]
    assert [row[4] for row in table.rows[:3]] == ["50.0 %", "33.3 %", "16.7 %"]
    assert table.rows[-1][2] == "cached (disk)"
    assert table.totals[2:4] == ("3 completed, 1 cached", "6.00 s")
    assert dict(table.summary)["Parallelism"] == "0.60"
    assert all(len(row) == len(table.columns) == len(table.totals) for row in table.rows)


def test_a_long_table_ends_with_a_row_for_the_rest() -> None:
    report = report_of(*(node(str(n), n, n + 0.5) for n in range(100)), wall=100)
    table = report.as_table(most_rows=10)
    assert len(table.rows) == 10
    assert table.rows[-1][0] == "… 91 more"
    assert table.rows[-1][3] == "45.5 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 µs"),
        (0.0000004, "0 µs"),
        (0.000789, "789 µs"),
        (0.00123, "1.23 ms"),
        (0.0456, "45.6 ms"),
        (0.99951, "1.00 s"),
        (12.34, "12.3 s"),
        (4000, "4000 s"),
        (None, "–"),
    ],
)
def test_times_have_three_digits(seconds: float | None, text: str) -> None:
    assert shown_seconds(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (120 << 20, "120 MiB"), (None, "–")],
)
def test_sizes_are_short(amount: int | None, text: str) -> None:
    assert shown_bytes(amount) == text


# JSON


def test_json_has_the_figures_of_the_report(tmp_path: Path) -> None:
    with profiled(tmp_path) as engine:
        report = engine.run(two_branches(0.01, 0.02))
    read = json.loads(report.as_json())
    assert read == report.as_dict()
    assert read["version"] == 1
    assert [each["node_id"] for each in read["nodes"]] == [each.node_id for each in report.nodes]
    assert read["parallelism"] == pytest.approx(
        sum(each["seconds"] for each in read["nodes"]) / read["wall_seconds"], rel=1e-6
    )


def test_every_field_of_the_json_is_documented() -> None:
    page = (ROOT / "docs" / "how-to" / "profile-a-workflow.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    data = as_plain_data(report_of(node("a", 0, 1)))
    assert {*data, *data["nodes"][0]} <= documented
    assert {"workflow", "runs"} <= documented


# Folded stacks


def test_stacks_are_by_type_and_nested_as_the_nodes_are() -> None:
    report = report_of(
        node("a", 0, 1, node_type="Loop"),
        node("b", 1, 2, node_type="Blur; 5", parent_id="a"),
        node("c", 2, 4, node_type="Blur; 5", parent_id="a"),
        node("d", 4, 4.5, node_type="Save\nImage"),
        known("e"),
    )
    assert report.as_folded().splitlines() == [
        "execute_graph;Loop 1000000",
        "execute_graph;Loop;Blur:_5 3000000",
        "execute_graph;Save\N{REPLACEMENT CHARACTER}Image 500000",
    ]


def test_stacks_have_an_end_however_deep_the_nesting_is() -> None:
    nodes = [node(str(n), n, n + 1, parent_id=str(n - 1) if n else None) for n in range(500)]
    lines = report_of(*nodes, wall=500).as_folded().splitlines()
    assert max(line.count(";") for line in lines) == 100
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 500_000_000


# Picture


def test_bars_stand_where_the_nodes_ran(tmp_path: Path) -> None:
    with profiled(tmp_path, "parallel") as engine:
        report = engine.run(two_branches(0.1, 0.3))
        cached = engine.run(two_branches(0.1, 0.3))
    drawn = bars(report.as_svg("two branches"))
    assert {"short", "long", "after"} <= set(drawn)
    (_, short), (x_long, long), (x_after, _) = map(
        extent, (drawn["short"], drawn["long"], drawn["after"])
    )
    assert long > 2 * short
    assert x_after >= x_long + long
    assert 1050 < x_after + extent(drawn["after"])[1] < 1190
    hatched = bars(cached.as_svg("again"))
    assert set(hatched) == {each.node_id for each in cached.nodes}
    for group in hatched.values():
        assert group.attrib["class"] == "bar cached"
        body = group.find(f"{SVG}rect")
        assert body is not None
        assert body.attrib["fill"].startswith("url(#hatch-")


def test_each_thread_has_its_lane() -> None:
    nodes = [node(str(n), n, n + 1, lane=f"thread {n % 3 + 1}") for n in range(9)]
    svg = report_of(*nodes).as_svg()
    texts = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]
    assert [text for text in texts if text and text.startswith("thread")] == [
        "thread 1",
        "thread 2",
        "thread 3",
    ]
    heights = {
        number: float(str(bars(svg)[str(number)].find(f"{SVG}rect").attrib["y"]))  # type: ignore[union-attr]
        for number in range(9)
    }
    assert heights[0] == heights[3] == heights[6] < heights[1] < heights[2]


def test_bars_of_a_lane_do_not_cover_each_other() -> None:
    nodes = [node(str(n), n * 0.5, n * 0.5 + 0.4) for n in range(20)]
    places = sorted(map(extent, bars(report_of(*nodes).as_svg()).values()))
    for (x, width), (following, _) in itertools.pairwise(places):
        assert x + width <= following + 0.01


def test_texts_of_a_workflow_cannot_become_markup(tmp_path: Path) -> None:
    prompt: dict[str, Any] = {}
    for index, text in enumerate(HOSTILE):
        prompt[f"{index}{text}"] = at("Number", title=text, value=index)
        prompt[f"s{index}"] = at("Show", title=text, value=[f"{index}{text}", 0])
    with profiled(tmp_path) as engine:
        report = engine.run(prompt)
        again = engine.run(prompt)
    for each in (report, again):
        svg = each.as_svg(HOSTILE[0])
        root = ET.fromstring(svg)
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "title", "style", "defs", "pattern", "rect", "g", "text", "line"} | {
            "path"
        }
        for element in root.iter():
            assert not any(name.startswith("on") for name in element.attrib)
        svg.encode()
        json.loads(each.as_json())
        each.as_folded().encode()
    assert len(bars(again.as_svg())) == len(prompt)


def test_a_failed_and_an_interrupted_node_are_marked() -> None:
    svg = report_of(
        node("a", 0, 3, status="failed"),
        node("b", 3, 6, status="interrupted"),
        node("c", 6, 9, on_critical_path=True),
    ).as_svg()
    drawn = bars(svg)
    assert drawn["a"].attrib["class"] == "bar failed"
    assert drawn["b"].attrib["class"] == "bar interrupted"
    assert [rect.attrib.get("class") for rect in drawn["c"].iter(f"{SVG}rect")] == [
        "body",
        "critical",
    ]


@pytest.mark.parametrize("count", [5, 50, 200])
def test_all_nodes_of_a_common_graph_are_in_the_picture(count: int) -> None:
    nodes = [node(str(n), n, n + 0.9, node_type=f"Type {n % 7}") for n in range(count)]
    assert len(bars(report_of(*nodes, wall=count).as_svg())) == count


def test_a_huge_graph_makes_a_picture_of_a_common_size() -> None:
    nodes = [
        node(str(n), n // 4, n // 4 + 0.9, lane=f"thread {n % 4 + 1}", node_type=f"Type {n % 300}")
        for n in range(10_000)
    ]
    nodes += [known(f"k{n}", f"Type {n}") for n in range(10_000)]
    began = time.monotonic()
    svg = report_of(*nodes, wall=2500).as_svg("huge")
    assert time.monotonic() - began < 5
    assert len(svg) < 1_000_000
    groups = ET.fromstring(svg).iter(f"{SVG}g")
    counts = [int(group.attrib["data-count"]) for group in groups if "data-count" in group.attrib]
    at_work = [count for count in counts if count > 1]
    assert sum(at_work) <= 10_000
    assert len(counts) < 1500
    assert sum(counts) > 10_000


def test_more_lanes_than_can_be_seen_are_left_out() -> None:
    nodes = [node(str(n), 0, 1, lane=f"coroutine {n + 1}") for n in range(300)]
    svg = report_of(*nodes).as_svg()
    assert "and 260 more lanes" in svg
    ET.fromstring(svg)


@pytest.mark.parametrize("report", [report_of(), report_of(wall=0.0), report_of(known("a"))])
def test_a_report_of_nothing_has_all_forms(report: ProfileReport) -> None:
    ET.fromstring(report.as_svg())
    assert json.loads(report.as_json())["node_seconds"] == 0
    assert report.as_folded() == ""
    assert report.as_table().totals
    assert report.parallelism == 0
