"""What can be set in a workflow, without a server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow import form
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.catalog_merge import merge_catalogs
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.form import FormField, FormNode, FormPosition
from comfyrail.workflow.form_sources import WorkflowForm, form_of_prompt, form_of_source
from comfyrail.workflow.graph import Workflow, parse_workflow
from comfyrail.workflow.layouts import LARGEST_LAYOUT, decode_layout, encode_layout, layout_beside
from comfyrail.workflow.parameters import apply_parameters
from tests.workflow_formats.editor_graphs import CATALOG, Drawing
from tests.workflow_formats.pictures import png, text

SEED = 18446744073709551615


def form_of(raw: object, catalog: NodeCatalog = CATALOG) -> WorkflowForm:
    return form_of_source(json.dumps(raw).encode(), catalog)


def single(class_type: str, catalog: NodeCatalog, **inputs: Any) -> dict[str, FormField]:
    """The fields of one node by name."""
    (node,) = form_of({"1": {"class_type": class_type, "inputs": inputs}}, catalog).nodes
    return {field.name: field for field in node.fields}


def catalog_of(**options: Any) -> NodeCatalog:
    """One type, `T`, with one required input `x`: what a worker says of it."""
    return parse_object_info({"T": {"input": {"required": {"x": options["spec"]}}, "output": []}})


def drawn() -> Drawing:
    """Load → Invert → Sample → Save, drawn from right to left."""
    drawing = Drawing()
    save = drawing.node("Save", "image:IMAGE", pos=[900, 0], size=[200, 80], outputs=())
    load = drawing.node("Load", pos={"0": -10.4, "1": 5.6}, size={"0": 210, "1": 60})
    invert = drawing.node("Invert", "image:IMAGE", values=[0.5], pos=[300, 0])
    values = [SEED, "fixed", 20, "heun", "a cat"]
    sample = drawing.node("Sample", "image:IMAGE", values=values, title="Mine")
    drawing.link(load, invert, "image")
    drawing.link(invert, sample, "image")
    drawing.link(sample, save, "image")
    return drawing


def targets(found: WorkflowForm) -> dict[str, Any]:
    return {f"{node.node_id}.{field.name}": field for node in found.nodes for field in node.fields}


def test_fields_say_what_the_catalog_says_of_them(catalog: NodeCatalog) -> None:
    fields = single("KSampler", catalog, seed=SEED, cfg=7.5, model=["9", 0])
    assert list(fields) == ["seed", "steps", "cfg", "sampler_name", "scheduler", "denoise"]
    seed = fields["seed"]
    assert (seed.type, seed.value, seed.value_text, seed.seed) == ("INT", SEED, str(SEED), True)
    assert (seed.minimum, seed.maximum, seed.step, seed.default) == (0, SEED, 1, 0)
    cfg = fields["cfg"]
    assert (cfg.type, cfg.value, cfg.value_text, cfg.step, cfg.seed) == (
        *("FLOAT", 7.5, None, 0.1),
        False,
    )
    # What the workflow does not set has its default; a choice without one has none.
    steps = fields["steps"]
    assert (steps.value, steps.default, steps.given, seed.given) == (20, 20, False, True)
    sampler = fields["sampler_name"]
    assert (sampler.type, sampler.value, sampler.required) == ("COMBO", None, True)
    assert sampler.choices is not None
    assert "heun" in sampler.choices
    assert sampler.choices_total == len(sampler.choices)


@pytest.mark.parametrize(
    ("class_type", "name", "upload", "mask"),
    [
        ("LoadImage", "image", "image", True),
        ("LoadImageMask", "image", "image", True),
        ("LoadImageMask", "channel", None, False),
        ("LoadVideo", "file", "video", False),
        ("LoadAudio", "audio", "audio", False),
        ("Load3D", "model_file", "file", False),
        ("LoadLatent", "latent", "file", False),
        ("LoadImageOutput", "image", None, False),
    ],
)
def test_fields_that_take_files_say_which(
    catalog: NodeCatalog, class_type: str, name: str, upload: str | None, mask: bool
) -> None:
    field = single(class_type, catalog, **{name: "a.png"})[name]
    assert (field.upload, field.mask) == (upload, mask)
    if class_type in {"LoadImage", "LoadAudio", "LoadVideo", "LoadImageMask", "Load3D"}:
        guessed = single(class_type, NodeCatalog(), **{name: "a.png"})[name]
        assert (guessed.upload, guessed.mask) == (upload, mask)


def test_texts_of_several_lines_and_explanations_are_told() -> None:
    options = {"multiline": True, "tooltip": "What to paint.", "default": ""}
    field = single("T", catalog_of(spec=["STRING", options]), x="a")["x"]
    assert (field.multiline, field.tooltip, field.default) == (True, "What to paint.", "")


def test_inputs_without_a_widget_are_fields_where_a_value_was_written() -> None:
    assert single("T", catalog_of(spec=["IMAGE"])) == {}
    assert single("T", catalog_of(spec=["INT", {"forceInput": True, "default": 3}])) == {}
    forced = catalog_of(spec=["INT", {"forceInput": True}])
    assert single("T", forced, x=3)["x"].value == 3
    assert single("T", catalog_of(spec=["*"]), x="a")["x"].type == "*"
    assert single("T", catalog_of(spec=["*"]), x={"a": 1}) == {}
    # Old exports have a button among the inputs.
    assert list(single("T", catalog_of(spec=["INT"]), x=1, upload="image")) == ["x"]


def test_choices_of_both_forms_are_told_and_those_of_all_workers() -> None:
    mixed = ["a", 1, 2.5, True, None, ["x"], {"y": 1}]
    for spec in ([mixed], ["COMBO", {"options": mixed}]):
        field = single("T", catalog_of(spec=spec), x="a")["x"]
        assert (field.type, field.choices, field.choices_total) == ("COMBO", ("a", 1, 2.5, True), 7)
    merged = merge_catalogs([catalog_of(spec=[["a"]]), catalog_of(spec=[["b"]])])
    assert single("T", merged, x="a")["x"].choices == ("a", "b")


def test_long_lists_are_cut_and_have_what_is_chosen() -> None:
    names = [f"model-{number}" for number in range(form.MOST_CHOICES + 10)]
    field = single("T", catalog_of(spec=[names]), x=names[-1])["x"]
    assert field.choices is not None
    assert len(field.choices) == form.MOST_CHOICES + 1
    assert (field.choices[-1], field.choices_total) == (names[-1], len(names))
    assert len(single("T", catalog_of(spec=[names]), x="other")["x"].choices or ()) == 5000


def test_lists_of_many_nodes_together_are_bounded() -> None:
    names = [f"{number:0>100}" for number in range(5000)]
    catalog = catalog_of(spec=[names, {"tooltip": "t"}])
    graph = {str(number): {"class_type": "T", "inputs": {"x": names[0]}} for number in range(100)}
    fields = [node.fields[0] for node in form_of(graph, catalog).nodes]
    told = sum(len(str(choice)) for field in fields for choice in field.choices or ())
    assert 0 < told <= form.MOST_CHARACTERS
    assert (fields[-1].choices, fields[-1].choices_total, fields[-1].tooltip) == ((), 5000, None)
    assert fields[-1].value == names[0]


def test_dynamic_inputs_are_those_of_the_choice() -> None:
    options = [
        {"key": "by factor", "inputs": {"required": {"factor": ["FLOAT", {"default": 2.0}]}}},
        {"key": "to size", "inputs": {"required": {"side": ["INT", {"default": 64}]}}},
    ]
    catalog = catalog_of(spec=["COMFY_DYNAMICCOMBO_V3", {"options": options}])
    fields = single("T", catalog, x="to size")
    assert list(fields) == ["x", "x.side"]
    assert (fields["x"].choices, fields["x.side"].value) == (("by factor", "to size"), 64)
    assert list(single("T", catalog, x="neither")) == ["x"]
    assert list(single("T", catalog)) == ["x"]


def test_types_that_nobody_knows_are_guessed_from_their_values() -> None:
    inputs = {
        "seed": 5,
        "strength": 0.5,
        "on": True,
        "words": "a\nb",
        "image": ["1", 0],
        "many": [1, 2, 3],
        "none": None,
    }
    graph = {"2": {"class_type": "Odd", "inputs": inputs}, "1": {"class_type": "Load"}}
    load, odd = form_of(graph).nodes
    assert (load.known, odd.known, odd.title, odd.output_node) == (True, False, "Odd", False)
    assert [(link.input, link.node_id, link.output) for link in odd.links] == [("image", "1", 0)]
    assert [(each.name, each.type, each.seed, each.multiline) for each in odd.fields] == [
        ("seed", "INT", True, False),
        ("strength", "FLOAT", False, False),
        ("on", "BOOLEAN", False, False),
        ("words", "STRING", False, True),
    ]


def test_editor_format_keeps_its_layout_and_nodes_come_in_order() -> None:
    found = form_of(drawn().raw())
    assert (found.format, found.workflow) == ("editor", drawn().raw())
    assert [(node.node_id, node.title) for node in found.nodes] == [
        ("2", "Load"),
        ("3", "Invert it"),
        ("4", "Mine"),
        ("1", "Save"),
    ]
    assert [node.position for node in found.nodes] == [
        FormPosition(-10, 6, 210, 60),
        FormPosition(300, 0, 210, 100),
        None,
        FormPosition(900, 0, 200, 80),
    ]
    assert [node.output_node for node in found.nodes] == [False, False, False, True]
    assert targets(found)["4.seed"].value_text == str(SEED)


def test_nodes_of_a_level_stand_as_they_came() -> None:
    graph = {
        "s": {"class_type": "Save", "inputs": {"image": ["b", 0]}},
        "b": {"class_type": "Invert", "inputs": {"image": ["x", 0]}},
        "z": {"class_type": "Load"},
        "x": {"class_type": "Load"},
        "a": {"class_type": "Invert", "inputs": {"image": ["z", 0]}},
    }
    assert [node.node_id for node in form_of(graph).nodes] == ["z", "x", "b", "a", "s"]


@pytest.mark.parametrize("mode", [2, 4])
def test_nodes_that_do_not_run_are_not_there(mode: int) -> None:
    drawing = drawn()
    drawing.nodes[2]["mode"] = mode
    assert [node.node_id for node in form_of(drawing.raw()).nodes] == ["2", "4", "1"]


def nested() -> dict[str, Any]:
    """A subgraph in a subgraph, used twice, each time at another place."""
    inmost = Drawing()
    inmost.node("Invert", "image:IMAGE", values=[0.1], pos=[1000, 2000])
    inmost.node("Invert", "image:IMAGE", values=[0.2], pos=[1300, 1900])
    inmost.link(1, 2, "image")
    middle = Drawing()
    middle.node("inmost", "image:IMAGE", pos=[50, 60])
    middle.node("Invert", "image:IMAGE", values=[0.3], pos=[40, 40])
    middle.link(1, 2, "image")
    whole = Drawing()
    whole.node("Load", pos=[0, 0])
    for number, place in ((2, [500, 500]), (3, [500, 9000])):
        whole.node("middle", "image:IMAGE", id=number, pos=place)
        whole.link(1, number, "image")
    whole.subgraphs = [
        inmost.as_subgraph("inmost", {"image": [(1, "image")]}, {"out": (2, 0)}),
        middle.as_subgraph("middle", {"image": [(1, "image")]}, {"out": (2, 0)}),
    ]
    return whole.raw()


def test_insides_of_subgraphs_stand_where_the_subgraph_does() -> None:
    found = form_of(nested())
    places = {
        node.node_id: node.position and (node.position.x, node.position.y) for node in found.nodes
    }
    assert places == {
        "1": (0, 0),
        "2:2": (500, 500),
        "2:1:1": (510, 620),
        "2:1:2": (810, 520),
        "3:2": (500, 9000),
        "3:1:1": (510, 9120),
        "3:1:2": (810, 9020),
    }


def test_texts_with_choices_give_the_same_form_every_time() -> None:
    drawing = Drawing()
    values = [1, "fixed", 20, "heun", "a {red|blue|green} cat"]
    drawing.node("Sample", "image:IMAGE", values=values)
    found = {targets(form_of(drawing.raw()))["1.text"].value for _ in range(20)}
    assert found == {"a red cat"}


API = {"4": {"class_type": "Sample", "inputs": {"seed": 1, "steps": 2, "name": "heun"}}}


def lossy() -> dict[str, Any]:
    """Of a type that nobody knows, with values that nobody can name."""
    drawing = Drawing()
    drawing.node("Odd", values=[1, 2, 3])
    return drawing.raw()


@pytest.mark.parametrize(
    ("content", "kind", "workflow"),
    [
        (png(text("prompt", API), text("workflow", drawn().raw())), "editor", drawn().raw()),
        (png(text("prompt", API), text("workflow", lossy())), "api", API),
        (png(text("prompt", API), text("workflow", {"nodes": []})), "api", API),
        (png(text("prompt", API)), "api", API),
        (png(text("workflow", lossy())), "editor", lossy()),
        (f"See:\n```json\n{json.dumps(API)}\n```".encode(), "api", API),
        (json.dumps({"nodes": API, "name": "n"}).encode(), "api", {"nodes": API, "name": "n"}),
    ],
    ids=["both", "lossy", "empty", "api", "lossy_alone", "text", "envelope"],
)
def test_workflow_is_found_in_whatever_holds_it(
    content: bytes, kind: str, workflow: dict[str, Any]
) -> None:
    found = form_of_source(content, CATALOG)
    assert (found.format, found.workflow) == (kind, workflow)
    assert found.nodes


@pytest.mark.parametrize(
    "content",
    [png(), b"nothing", b'{"nodes": []}', b'{"1": 5}', png(text("prompt", {"1": 5}))],
    ids=["picture", "text", "no_nodes", "no_node", "bad_picture"],
)
def test_what_is_no_workflow_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedWorkflow):
        form_of_source(content, CATALOG)


@pytest.mark.parametrize("make", [drawn().raw, nested, lambda: API], ids=["drawn", "nested", "api"])
def test_every_field_can_be_set(make: Callable[[], dict[str, Any]]) -> None:
    raw = make()
    found = form_of(raw)
    assert targets(found)
    workflow = workflow_from(raw, CATALOG)[0]
    for target in targets(found):
        apply_parameters(workflow, {target: "new"}, CATALOG)
    node_id, _, name = next(iter(targets(found))).partition(".")
    changed = apply_parameters(workflow, {f"{node_id}.{name}": "new"}, CATALOG)
    assert changed.nodes[node_id].inputs[name] == "new"


def test_fields_that_cannot_be_meant_are_left_out() -> None:
    graph = {
        "a": {"class_type": "Odd", "inputs": {"b.x": 1}},
        "a.b": {"class_type": "Odd", "inputs": {"x": 2}},
        "c.d": {"class_type": "Odd", "inputs": {"x": 3, "n" * 500: 4}},
    }
    found = form_of(graph)
    assert list(targets(found)) == ["a.b.x", "c.d.x"]
    workflow = parse_workflow(graph)
    for target, field in targets(found).items():
        changed = apply_parameters(workflow, {target: 9}, CATALOG)
        before = [node.inputs for node in workflow.nodes.values()]
        after = [node.inputs for node in changed.nodes.values()]
        (pair,) = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert pair[0][field.name] == field.value


def test_circles_links_to_nowhere_and_odd_outputs_do_no_harm() -> None:
    graph = {
        "b": {"class_type": "Invert", "inputs": {"image": ["a", 0], "amount": ["gone", 0]}},
        "a": {"class_type": "Invert", "inputs": {"image": ["b", -1], "amount": 1.0}},
    }
    first, second = form_of(graph).nodes
    assert (first.node_id, [link.node_id for link in first.links], first.fields) == ("b", ["a"], [])
    assert (second.links, [field.name for field in second.fields]) == ([], ["amount"])


def test_very_long_workflows_are_cut() -> None:
    graph = {str(number): {"class_type": "Load"} for number in range(form.MOST_NODES + 50)}
    found = form_of(graph)
    assert (len(found.nodes), found.nodes_total) == (form.MOST_NODES, form.MOST_NODES + 50)
    wide = {f"n{number}": number for number in range(form.MOST_PARTS + 50)}
    odd = {"class_type": "Odd", "inputs": wide}
    found = form_of({"1": odd, "2": {"class_type": "Load"}})
    assert ([len(node.fields) for node in found.nodes], found.nodes_total) == ([100_000], 2)


def test_names_that_a_workflow_gives_are_cut() -> None:
    long = "n" * 100_000
    graph = {
        "1": {"class_type": "Odd", "inputs": {long: 1, "x": 2}, "_meta": {"title": long}},
        "2": {"class_type": long, "inputs": {long: ["1", 0]}},
    }
    titled, untitled = form_of(graph).nodes
    assert titled.title == untitled.title == untitled.class_type == "n" * form.LONGEST_TITLE
    assert [link.input for link in untitled.links] == ["n" * form.LONGEST_TITLE]
    assert [field.name for field in titled.fields] == ["x"]
    drawing = Drawing()
    drawing.node("Load", title=long)
    assert form_of(drawing.raw()).nodes[0].title == "n" * form.LONGEST_TITLE


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    "spec",
    [
        "INT",
        [],
        None,
        ["INT", "options"],
        ["INT", ["options"]],
        [["a", "b"], {"image_folder": ["x"], "image_upload": {}}],
        ["INT", {"min": NAN, "max": INFINITY, "step": -INFINITY, "default": NAN}],
        ["INT", {"min": 10**400, "max": -(10**400), "step": "1", "default": 10**400}],
        ["INT", {"tooltip": 5, "multiline": "yes", "widgetType": {"a": 1}}],
        ["STRING", {"tooltip": "t" * 10**7, "default": "d" * 10**7}],
        ["BOUNDING_BOX", {"default": {"x": [[[1]]] * 10**5}}],
        ["BOUNDING_BOX", {"default": {"x": 10**400}}],
        [["c" * 10**6, NAN, 10**400, {}, "a"]],
        ["COMBO", {"options": {"a": 1}}],
        ["COMFY_DYNAMICCOMBO_V3", {"options": [5, {"key": ["k"]}, {"key": "a"}]}],
        ["COMFY_AUTOGROW_V3", {"template": 5}],
        ["t" * 10**6],
    ],
    ids=range(17),
)
def test_what_a_hostile_worker_says_does_no_harm(spec: Any) -> None:
    entry = {
        "input": {"required": {"x": spec}},
        "output": 5,
        "display_name": "n" * 10**7,
        "description": ["d"],
    }
    catalog = parse_object_info({"T": entry})
    given: list[dict[str, Any]] = [{}, {"x": "a"}, {"x": {"deep": 1}}]
    for inputs in given:
        workflow = parse_workflow({"1": {"class_type": "T", "inputs": inputs}})
        (node,) = form.form_nodes(workflow, catalog)
        written = _written(node)
        assert len(written) < 50_000
        for field in node.fields:
            numbers = (field.minimum, field.maximum, field.step)
            assert all(each is None or abs(each) < 2**64 for each in numbers)


def _written(node: FormNode) -> str:
    """As strict JSON: it raises for what other programs could not read."""
    fields = [{name: getattr(each, name) for name in each.__slots__} for each in node.fields]
    return json.dumps([node.title, node.description, fields], allow_nan=False)


def test_layout_is_kept_small_and_for_the_nodes_that_run() -> None:
    workflow = workflow_from(drawn().raw(), CATALOG)[0]
    kept = encode_layout(workflow)
    assert kept == b'{"1":[900,0,200,80],"2":[-10,6,210,60],"3":[300,0,210,100]}'
    prompt = json.dumps(workflow.to_prompt()).encode()
    found = form_of_prompt(prompt, decode_layout(kept), CATALOG)
    as_given = {node.node_id: node.position for node in form_of(drawn().raw()).nodes}
    assert {node.node_id: node.position for node in found.nodes} == as_given
    assert encode_layout(parse_workflow(workflow.to_prompt())) is None
    some = dict(list(workflow.nodes.items())[:1])
    assert encode_layout(Workflow(some, layout=workflow.layout)) == b'{"1":[900,0,200,80]}'
    nodes = {str(number): workflow.nodes["1"] for number in range(20_000)}
    large = Workflow(nodes, layout=dict.fromkeys(nodes, (1, 2, 3, 4)))
    assert len(nodes) * 10 > LARGEST_LAYOUT // 2
    assert encode_layout(large) is None


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ({"extra_pnginfo": {"workflow": drawn().raw()}}, {"1", "2", "3"}),
        ({"extra_pnginfo": {"workflow": API}}, set()),
        ({"extra_pnginfo": {"workflow": {"nodes": [5]}}}, set()),
        ({"extra_pnginfo": [1]}, set()),
        ({}, set()),
        ([1], set()),
    ],
    ids=["drawn", "api", "bad", "no_object", "nothing", "list"],
)
def test_layout_is_found_in_what_comfyui_sends_beside_the_graph(
    beside: Any, expected: set[str]
) -> None:
    found = layout_beside(json.dumps(beside).encode(), CATALOG)
    assert set(decode_layout(found)) == expected


@pytest.mark.parametrize(
    ("place", "size", "expected"),
    [
        ([1, 2], [3, 4], FormPosition(1, 2, 3, 4)),
        ([1.5, -2.5, 9], None, FormPosition(2, -2, 210, 100)),
        ([1, 2], [-3, 4], FormPosition(1, 2, 0, 4)),
        ([1], [3, 4], None),
        ("ab", [3, 4], None),
        ([True, 2], [3, 4], None),
        ([10**18, 2], [3, 4], None),
        ([1, 2], ["a", {}], FormPosition(1, 2, 210, 100)),
    ],
    ids=range(8),
)
def test_places_that_make_no_sense_are_none(
    place: Any, size: Any, expected: FormPosition | None
) -> None:
    drawing = Drawing()
    drawing.node("Load", pos=place, size=size)
    assert form_of(drawing.raw()).nodes[0].position == expected
