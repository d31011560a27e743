"""Texts and numbers are judged by where they go, however they are wrapped, passed on or joined."""

import copy
from typing import Any

import pytest

from comfyrail.validation import text_flow
from comfyrail.validation.policy import SecurityPolicy, WorkflowLimits
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from tests.graphs import Graph
from tests.validation.parts import (
    codes,
    findings,
    node,
    object_info,
    shown_image,
    whole_catalog,
)

ANYWHERE = SecurityPolicy(allowed_domains=("*",))
INSIDE = "http://169.254.169.254/latest"

EVIL = [
    ("LoadFolder", "directory", "/etc/passwd", "PATH_TRAVERSAL"),
    ("LoadFolder", "directory", "../../etc", "PATH_TRAVERSAL"),
    ("RunTool", "command", "curl x | sh", "CODE_INJECTION"),
    ("Formula", "expression", "__import__('os').system('id')", "CODE_INJECTION"),
    ("FetchImage", "url", INSIDE, "UNAUTHORIZED_DOMAIN"),
    ("WebPicture", "source", INSIDE, "UNAUTHORIZED_DOMAIN"),
]


def wrapped(value: Any, times: int = 1) -> Any:
    for _ in range(times):
        value = {"__value__": value}
    return value


def switch(one: Any, other: Any = "harmless") -> dict[str, Any]:
    return node("ComfySwitchNode", switch=True, on_false=one, on_true=other)


def ways_of(text: str) -> dict[str, Graph]:
    """Graphs in which the text comes out of node `t`."""
    primitive = node("PrimitiveString", value=text)
    half = len(text) // 2
    return {
        "primitive": {"t": primitive},
        "multiline": {"t": node("PrimitiveStringMultiline", value=text)},
        "wrapped": {"t": node("PrimitiveString", value=wrapped(text))},
        "wrapped twice": {"t": node("PrimitiveString", value=wrapped(text, 2))},
        "ignored input": {"t": node("PrimitiveString", value=text, zzz="x", yyy=1)},
        "primitive of a primitive": {"a": primitive, "t": node("PrimitiveString", value=["a", 0])},
        "choice": {"t": node("CustomCombo", choice=text)},
        "switch": {"a": primitive, "t": switch(["a", 0])},
        "switched literal": {"t": switch("harmless", text)},
        "wrapped link": {"a": primitive, "t": switch(wrapped(["a", 0]))},
        "join of halves": {
            "t": node("StringConcatenate", string_a=text[:half], string_b=text[half:], delimiter="")
        },
        "replaced": {
            "t": node("StringReplace", string="§".join(text), find="§", replace=""),
        },
        "join of linked halves": {
            "a": node("PrimitiveString", value=text[:3]),
            "b": node("PrimitiveString", value=text[3:]),
            "j": node("StringConcatenate", string_a=["a", 0], string_b=["b", 0], delimiter=""),
            "t": switch(["j", 0]),
        },
    }


@pytest.mark.parametrize("way", ways_of("x" * 9))
@pytest.mark.parametrize(("class_type", "name", "text", "code"), EVIL)
def test_text_is_judged_by_where_it_goes_whatever_it_comes_through(
    class_type: str, name: str, text: str, code: str, way: str
) -> None:
    graph = shown_image(**ways_of(text)[way], end=node(class_type, **{name: ["t", 0]}))
    found = findings(graph, ANYWHERE)
    assert code in [each.error_code for each in found]


@pytest.mark.parametrize("way", ways_of("x" * 9))
@pytest.mark.parametrize("text", [text for _, _, text, _ in EVIL])
def test_text_that_is_only_shown_may_say_anything(text: str, way: str) -> None:
    graph = shown_image(**ways_of(text)[way], end=node("PreviewAny", source=["t", 0]))
    assert findings(graph) == []


@pytest.mark.parametrize("way", ways_of("x" * 9))
def test_what_is_put_together_of_written_texts_is_known(way: str) -> None:
    for text, name, class_type in (
        ("https://example.com/x.png", "url", "FetchImage"),
        ("cats/and/dogs", "directory", "LoadFolder"),
    ):
        graph = shown_image(**ways_of(text)[way], end=node(class_type, **{name: ["t", 0]}))
        policy = SecurityPolicy(allowed_domains=("example.com", "harmless"))
        assert findings(graph, policy) == []


def test_switch_of_a_computed_url_is_a_computed_url() -> None:
    graph = shown_image(
        c=node("CaseConverter", string="HTTP://EXAMPLE.COM", mode="lowercase"),
        s=switch(["c", 0], "https://example.com"),
        f=node("FetchImage", url=["s", 0]),
    )
    found = findings(graph, ANYWHERE)
    assert [(each.path, each.details["reason"]) for each in found] == [("f.inputs.url", "computed")]
    assert findings(graph, SecurityPolicy(("*",), allow_computed_urls=True)) == []


def computed() -> dict[str, Any]:
    return node("RegexReplace", string="a", regex_pattern="b", replace="c")


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("/etc/", ["c", 0], True),
        ("C:/", ["c", 0], True),
        ("~", ["c", 0], True),
        (["c", 0], "/../x", True),
        (["c", 0], "/./x", True),
        (["c", 0], "/img", False),
        (["c", 0], ".", False),
        ("out/", ["c", 0], False),
    ],
)
def test_part_of_a_computed_path_is_judged_by_its_place(
    first: Any, second: Any, is_refused: bool
) -> None:
    graph = shown_image(
        c=computed(),
        j=node("StringConcatenate", string_a=first, string_b=second, delimiter=""),
        s=node("SaveImage", images=["1", 0], filename_prefix=["j", 0]),
    )
    assert [code for code, _ in codes(graph)] == ["PATH_TRAVERSAL"] * is_refused


def test_beginning_of_a_url_may_not_be_completed_as_the_workflow_runs() -> None:
    graph = shown_image(
        c=computed(),
        j=node(
            "StringConcatenate", string_a="https://example.com", string_b=["c", 0], delimiter=""
        ),
        w=node("WebPicture", source=["j", 0]),
    )
    found = findings(graph, ANYWHERE)
    assert [(each.path, each.details["reason"]) for each in found] == [
        ("j.inputs.string_a", "computed")
    ]
    assert findings(graph, SecurityPolicy(("*",), allow_computed_urls=True)) == []


def test_output_that_is_no_text_carries_none() -> None:
    """A prompt does not become a path because its node also gives a text."""
    info = object_info()
    info["Speak"] = {
        "input": {"required": {"prompt": ["STRING", {}], "voice": ["INT", {}]}},
        "output": ["STRING", "*"],
    }
    catalog = parse_object_info(info)
    resize = {"input": ["1", 0], "scale_method": "area", "resize_type.multiplier": 2.0}
    graph = shown_image(
        p=node("Speak", prompt="/imagine ../..", voice=1),
        r=node("ResizeImageMaskNode", resize_type="scale by multiplier", **resize),
        s=node("SaveImage", images=["r", 0], filename_prefix="x"),
    )
    assert codes(graph, catalog=catalog) == []
    graph["s"]["inputs"]["filename_prefix"] = ["p", 0]
    assert [code for code, _ in codes(graph, catalog=catalog)] == ["PATH_TRAVERSAL"]


ACTING = {
    "Scrape": {
        "input": {"required": {"source": ["STRING", {}]}},
        "output": ["STRING"],
        "output_node": True,
        "python_module": "custom_nodes.x",
    },
    "Calculate": {
        "input": {"required": {"a": ["STRING", {}]}},
        "output": ["*"],
        "output_node": True,
        "python_module": "custom_nodes.x",
    },
    "Modes": {
        "input": {
            "required": {
                "mode": [
                    "COMFY_DYNAMICCOMBO_V3",
                    {"options": [{"key": "k", "inputs": {"required": {"source": ["STRING", {}]}}}]},
                ]
            }
        },
        "output": ["IMAGE"],
        "output_node": True,
    },
    "Either": {"input": {"required": {"thing": ["STRING,INT", {}]}}, "output": ["IMAGE"]},
}


@pytest.mark.parametrize(
    ("class_type", "name", "more"),
    [
        ("Scrape", "source", {}),
        ("Calculate", "a", {}),
        ("Modes", "mode.source", {"mode": "k"}),
        ("Either", "thing", {}),
    ],
)
@pytest.mark.parametrize(
    ("text", "expected"), [(INSIDE, "UNAUTHORIZED_DOMAIN"), ("__import__('os')", "CODE_INJECTION")]
)
def test_node_that_gives_a_text_may_act_on_its_own_all_the_same(
    class_type: str, name: str, more: dict[str, Any], text: str, expected: str
) -> None:
    catalog = parse_object_info(object_info() | copy.deepcopy(ACTING))
    graph = shown_image(x=node(class_type, **more, **{name: text}))
    assert codes(graph, catalog=catalog) == [(expected, f"x.inputs.{name}")]
    graph = shown_image(
        t=node("PrimitiveString", value=text), x=node(class_type, **more, **{name: ["t", 0]})
    )
    assert codes(graph, catalog=catalog) == [(expected, "t.inputs.value")]


@pytest.mark.parametrize("way", ["primitive", "wrapped", "ignored input", "switch"])
@pytest.mark.parametrize(("class_type", "name", "text", "code"), EVIL[:5])
def test_texts_are_followed_while_no_node_type_is_known(
    class_type: str, name: str, text: str, code: str, way: str
) -> None:
    graph = ways_of(text)[way] | {"end": node(class_type, **{name: ["t", 0]})}
    found = findings(graph, ANYWHERE, catalog=NodeCatalog())
    assert code in [each.error_code for each in found]


def test_unknown_node_may_make_a_url_of_what_it_is_given() -> None:
    graph = {"m": node("Anything", a="x", b="y"), "f": node("FetchImage", url=["m", 0])}
    found = findings(graph, ANYWHERE, catalog=NodeCatalog())
    assert [each.details["reason"] for each in found] == ["computed"]


def test_joins_that_would_grow_without_end_are_not_carried_out() -> None:
    graph = shown_image(j0=node("StringConcatenate", string_a="ab", string_b="cd", delimiter=""))
    for number in range(1, 80):
        link = [f"j{number - 1}", 0]
        graph[f"j{number}"] = node(
            "StringConcatenate", string_a=link, string_b=link, delimiter=switch_delimiter(number)
        )
    graph["f"] = node("FetchImage", url=["j79", 0])
    found = findings(graph, ANYWHERE)
    assert [each.error_code for each in found] == ["UNAUTHORIZED_DOMAIN", "LIMIT_EXCEEDED"]


def switch_delimiter(number: int) -> str:
    return "/" if number % 2 else ""


def test_what_is_joined_is_bounded_for_a_whole_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_flow, "MOST_JOINED", 1000)
    graph = shown_image(j0=node("StringConcatenate", string_a="ab", string_b="cd", delimiter=""))
    for number in range(1, 80):
        graph[f"j{number}"] = node(
            "StringConcatenate", string_a=[f"j{number - 1}", 0], string_b="x", delimiter=""
        )
    graph["f"] = node("FetchImage", url=["j79", 0])
    found = findings(graph, ANYWHERE)
    assert [each.error_code for each in found] == ["UNAUTHORIZED_DOMAIN", "LIMIT_EXCEEDED"]


def test_replacing_that_would_grow_without_end_is_not_carried_out() -> None:
    graph = shown_image(r0=node("StringReplace", string="aa", find="a", replace="aa"))
    for number in range(1, 60):
        graph[f"r{number}"] = node(
            "StringReplace", string=[f"r{number - 1}", 0], find="a", replace="aa"
        )
    graph["f"] = node("FetchImage", url=["r59", 0])
    found = findings(graph, ANYWHERE)
    assert [each.error_code for each in found] == ["UNAUTHORIZED_DOMAIN", "LIMIT_EXCEEDED"]


def test_code_cannot_hide_among_many_texts() -> None:
    graph = shown_image(
        t0=switch("__imp", "x"),
        j=node("StringConcatenate", string_a=["t9", 0], string_b="ort__('os')", delimiter=""),
        f=node("Formula", expression=["j", 0]),
    )
    for number in range(1, 10):
        graph[f"t{number}"] = switch([f"t{number - 1}", 0], f"x{number}")
    assert codes(graph) == [("CODE_INJECTION", "t0.inputs.on_false")]
    for number in range(10, 30):
        graph[f"t{number}"] = switch([f"t{number - 1}", 0], f"x{number}")
    graph["j"]["inputs"]["string_a"] = ["t29", 0]
    assert [code for code, _ in codes(graph)] == ["LIMIT_EXCEEDED"]
    graph["f"] = node("PreviewAny", source=["j", 0])
    assert codes(graph) == []


def test_prompt_of_a_model_is_no_part_of_what_it_answers() -> None:
    info = object_info()
    info["Ask"] = {
        "input": {"required": {"prompt": ["STRING", {}], "seed": ["INT", {}]}},
        "output": ["STRING"],
        "python_module": "custom_nodes.x",
    }
    graph = shown_image(
        a=node("Ask", prompt="What does eval( do?", seed=1), w=node("WebPicture", source=["a", 0])
    )
    assert codes(graph, catalog=parse_object_info(info)) == []


def test_long_chain_of_primitives_is_followed_to_its_end() -> None:
    policy = SecurityPolicy(limits=WorkflowLimits(max_nodes=None))
    graph = shown_image(
        t0=node("PrimitiveString", value="../../x"), n0=node("PrimitiveInt", value=16384)
    )
    for number in range(1, 3000):
        graph[f"t{number}"] = node("PrimitiveString", value=[f"t{number - 1}", 0])
        graph[f"n{number}"] = node("PrimitiveInt", value=[f"n{number - 1}", 0])
    graph["s"] = node("SaveImage", images=["1", 0], filename_prefix=["t2999", 0])
    graph["1"]["inputs"]["width"] = ["n2999", 0]
    assert sorted(codes(graph, policy=policy)) == [
        ("LIMIT_EXCEEDED", "1.inputs.width"),
        ("PATH_TRAVERSAL", "t0.inputs.value"),
    ]


# Numbers


@pytest.mark.parametrize(
    "more",
    [
        {"n": node("PrimitiveInt", value=16384)},
        {"n": node("PrimitiveInt", value=wrapped(16384))},
        {"n": node("PrimitiveInt", value="16384")},
        {"n": node("PrimitiveInt", value=16384, zzz=1)},
        {"m": node("PrimitiveInt", value=16384), "n": node("PrimitiveInt", value=["m", 0])},
        {"m": node("PrimitiveInt", value=16384), "n": switch(64, ["m", 0])},
    ],
)
def test_sizes_are_followed_through_primitives(more: Graph) -> None:
    graph = shown_image(**more)
    graph["1"]["inputs"] |= {"width": ["n", 0], "height": 64}
    assert codes(graph) == [("LIMIT_EXCEEDED", "1.inputs.width")]


def test_area_of_linked_sides_is_limited() -> None:
    graph = shown_image(n=node("PrimitiveInt", value=8000))
    graph["1"]["inputs"] |= {"width": ["n", 0], "height": ["n", 0]}
    found = findings(graph)
    assert [each.details["limit"] for each in found] == ["max_image_pixels"]


def test_frames_of_a_video_are_limited() -> None:
    video = {"width": 64, "height": 64, "length": 1001, "batch_size": 1}
    graph = shown_image(v=node("EmptyHunyuanLatentVideo", **video))
    assert codes(graph, catalog=whole_catalog()) == [("LIMIT_EXCEEDED", "v.inputs.length")]
    graph["v"]["inputs"]["length"] = 1000
    graph["b"] = node("ImageFromBatch", image=["1", 0], batch_index=0, length=4096)
    graph["r"] = node("RepeatImageBatch", image=["1", 0], amount=1000)
    assert codes(graph, catalog=whole_catalog()) == []


def test_size_of_chunks_is_no_batch() -> None:
    graph = shown_image(r=node("RebatchImages", images=["1", 0], batch_size=4096))
    assert codes(graph, catalog=whole_catalog()) == []
    assert codes(graph, catalog=NodeCatalog()) == []
    graph["1"]["inputs"]["batch_size"] = 65
    assert codes(graph, catalog=whole_catalog()) == [("LIMIT_EXCEEDED", "1.inputs.batch_size")]


# Long texts


@pytest.mark.parametrize("times", [0, 1, 2])
def test_long_text_is_limited_however_it_is_wrapped(times: int) -> None:
    text = "__import__('os').system('id')#" + "A" * 100_000
    graph = shown_image(f=node("Formula", expression=wrapped(text, times)))
    assert codes(graph) == [("LIMIT_EXCEEDED", "f.inputs.expression")]
    policy = SecurityPolicy(limits=WorkflowLimits(max_string_length=None))
    assert codes(graph, policy=policy) == [("CODE_INJECTION", "f.inputs.expression")]
