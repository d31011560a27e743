"""Values of widgets get the names of inputs, by the order of the node's type."""

from typing import Any

import pytest

from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from tests.workflow_formats.editor_graphs import (
    CATALOG,
    Drawing,
    convert,
    convert_with_notes,
    inputs_of,
)


def types(**inputs: Any) -> NodeCatalog:
    """A catalog with one type `It`, whose inputs are all required."""
    return parse_object_info({"It": {"input": {"required": inputs}, "output": ["IMAGE"]}})


def values_of(catalog: NodeCatalog, values: Any, *inputs: str, **fields: Any) -> dict[str, Any]:
    drawing = Drawing()
    drawing.node("It", *inputs, values=values, **fields)
    return inputs_of(drawing.raw(), "1", catalog)


def test_the_control_of_a_seed_has_a_value_that_is_not_sent() -> None:
    drawing = Drawing()
    drawing.node("Sample", values=[7, "randomize", 9, "heun", "a dog"])
    assert inputs_of(drawing.raw(), "1") == {"seed": 7, "steps": 9, "name": "heun", "text": "a dog"}


@pytest.mark.parametrize("name", ["seed", "noise_seed"])
def test_a_number_named_seed_has_a_control_without_being_told(name: str) -> None:
    catalog = types(**{name: ["INT", {}], "after": ["INT", {}]})
    assert values_of(catalog, [1, "fixed", 2]) == {name: 1, "after": 2}


def test_a_control_that_is_switched_off_has_no_value() -> None:
    catalog = types(seed=["INT", {"control_after_generate": False}], after=["INT", {}])
    assert values_of(catalog, [1, 2]) == {"seed": 1, "after": 2}


def test_a_controlled_choice_has_a_filter_too() -> None:
    catalog = types(
        name=["COMBO", {"options": ["a", "b"], "control_after_generate": True}], after=["INT", {}]
    )
    assert values_of(catalog, ["b", "increment", "/x/", 5]) == {"name": "b", "after": 5}


def test_values_that_are_missing_are_the_defaults_of_the_editor() -> None:
    catalog = types(
        a=["INT", {}],
        b=["FLOAT", {"default": 0.5}],
        c=["BOOLEAN", {}],
        d=["STRING", {}],
        e=[["x", "y"], {}],
        f=["COMBO", {"options": []}],
    )
    assert values_of(catalog, []) == {"a": 0, "b": 0.5, "c": False, "d": "", "e": "x"}


def test_values_may_be_named() -> None:
    catalog = types(a=["INT", {}], b=["INT", {}])
    assert values_of(catalog, {"b": 2, "unused": 3}) == {"a": 0, "b": 2}
    assert values_of(catalog, [1, 2], widgets_values_named={"a": 8, "b": 9}) == {"a": 1, "b": 2}


def test_names_are_the_better_guide_where_a_type_has_changed() -> None:
    catalog = types(b=["INT", {}], c=["INT", {}])
    assert values_of(catalog, [1, 2, 3], widgets_values_named={"a": 1, "b": 2, "c": 3}) == {
        "b": 2,
        "c": 3,
    }


def test_an_input_that_takes_links_only_has_no_value() -> None:
    catalog = types(a=["STRING", {"forceInput": True}], b=["INT", {}])
    assert values_of(catalog, [5]) == {"b": 5}


def test_values_that_old_files_have_for_such_inputs_are_passed_over() -> None:
    catalog = types(a=["STRING", {"forceInput": True}], b=["INT", {}])
    assert values_of(catalog, ["", 5]) == {"b": 5}


def test_the_type_of_a_widget_may_differ_from_that_of_its_links() -> None:
    catalog = types(a=["A,B", {"widgetType": "STRING"}], b=["INT", {}])
    assert values_of(catalog, ["text", 5]) == {"a": "text", "b": 5}


def test_a_widget_without_a_socket_is_sent_like_others() -> None:
    catalog = types(a=["INT", {"socketless": True}], b=["INT", {"hidden": True}])
    assert values_of(catalog, [1, 2]) == {"a": 1, "b": 2}


def test_upload_buttons_have_a_value_that_is_not_sent() -> None:
    catalog = types(image=[["a.png"], {"image_upload": True}], after=["INT", {}])
    assert values_of(catalog, ["b.png", 3, "image"]) == {"image": "b.png", "after": 3}


def test_no_picture_is_the_first_one_and_other_folders_are_marked() -> None:
    options = {"image_upload": True, "image_folder": "output"}
    catalog = types(image=[["a.png"], options])
    assert values_of(catalog, [""]) == {"image": "a.png"}
    assert values_of(catalog, ["b.png"]) == {"image": "b.png [output]"}
    assert values_of(catalog, ["c.png [temp]"]) == {"image": "c.png [temp]"}


def test_players_are_sent_empty_and_not_saved(catalog: NodeCatalog) -> None:
    drawing = Drawing()
    drawing.node("LoadAudio", values=["song.mp3", None, ""])
    assert inputs_of(drawing.raw(), "1", catalog) == {"audio": "song.mp3", "audioUI": ""}


def test_buttons_of_the_model_viewer_are_sent(catalog: NodeCatalog) -> None:
    drawing = Drawing()
    buttons = ["upload3dmodel", "uploadExtraResources", "clear"]
    drawing.node("Load3D", values=["toy.glb", *buttons, "", 512, 256])
    sent = inputs_of(drawing.raw(), "1", catalog)
    assert (sent["model_file"], sent["width"], sent["height"]) == ("toy.glb", 512, 256)
    assert sent["clear"] == "clear"


def test_choices_that_the_user_wrote_are_sent_with_the_place_of_the_chosen_one() -> None:
    catalog = parse_object_info(
        {"CustomCombo": {"input": {"required": {"choice": [[], {}]}}, "output": ["STRING"]}}
    )
    drawing = Drawing()
    drawing.node("CustomCombo", values=["b", 1, "a", "b", ""])
    drawing.node("CustomCombo", values=["b", "b", "c"])
    prompt = convert(drawing.raw(), catalog)
    assert prompt["1"]["inputs"] == {
        "choice": "b",
        "index": 1,
        "option1": "a",
        "option2": "b",
        "option3": "",
    }
    assert prompt["2"]["inputs"] == {"choice": "b", "index": 0, "option1": "b", "option2": "c"}


def test_lists_are_wrapped_so_that_they_are_no_links() -> None:
    catalog = types(a=["COLORS", {}])
    assert values_of(catalog, [["1", 2]]) == {"a": {"__value__": ["1", 2]}}


def test_text_fields_hold_text() -> None:
    catalog = types(a=["STRING", {"multiline": True}], b=["STRING", {"multiline": True}])
    assert values_of(catalog, ["x\r\ny\rz", None]) == {"a": "x\ny\nz", "b": ""}


DYNAMIC = types(
    size=[
        "COMFY_DYNAMICCOMBO_V3",
        {
            "options": [
                {"key": "by", "inputs": {"required": {"factor": ["FLOAT", {"default": 2.0}]}}},
                {
                    "key": "to",
                    "inputs": {
                        "required": {"width": ["INT", {}], "like": ["IMAGE", {}]},
                        "optional": {
                            "crop": [
                                "COMFY_DYNAMICCOMBO_V3",
                                {
                                    "options": [
                                        {"key": "no", "inputs": {}},
                                        {
                                            "key": "at",
                                            "inputs": {"required": {"x": ["INT", {}]}},
                                        },
                                    ]
                                },
                            ]
                        },
                    },
                },
            ]
        },
    ],
    after=["INT", {}],
)


def test_a_choice_brings_its_own_widgets() -> None:
    assert values_of(DYNAMIC, ["by", 3.0, 5]) == {"size": "by", "size.factor": 3.0, "after": 5}
    assert values_of(DYNAMIC, ["to", 8, "at", 4, 5]) == {
        "size": "to",
        "size.width": 8,
        "size.crop": "at",
        "size.crop.x": 4,
        "after": 5,
    }
    assert values_of(DYNAMIC, []) == {"size": "by", "size.factor": 2.0, "after": 0}
    assert values_of(DYNAMIC, ["gone", 5]) == {"size": "gone", "after": 5}


def test_a_choice_brings_sockets_and_a_list_grows() -> None:
    drawing = Drawing()
    source = drawing.node("Load")
    grown = drawing.node("Grow", "images.image0:IMAGE", "images.image1:IMAGE", values=[])
    chosen = drawing.node("It", "size.like:IMAGE", values=["to", 8, "no", 5])
    drawing.link(source, grown, "images.image1")
    drawing.link(source, chosen, "size.like")
    template = {"input": {"required": {"image": ["IMAGE"]}}, "prefix": "image", "min": 1, "max": 9}
    growing = parse_object_info(
        {"Grow": {"input": {"required": {"images": ["COMFY_AUTOGROW_V3", {"template": template}]}}}}
    )
    catalog = NodeCatalog({**DYNAMIC.types, **growing.types, **CATALOG.types})
    prompt = convert(drawing.raw(), catalog)
    assert prompt["2"]["inputs"] == {"images.image1": ["1", 0]}
    assert prompt["3"]["inputs"]["size.like"] == ["1", 0]


def growing_texts(**template: Any) -> Any:
    item = {"input": {"required": {"text": ["STRING", {"default": "new"}]}}}
    return ["COMFY_AUTOGROW_V3", {"template": {**item, "prefix": "text", "max": 9, **template}}]


GROWING = parse_object_info(
    {
        "Join": {
            "input": {
                "required": {"texts": growing_texts(min=1), "after": ["INT", {}]},
            },
            "output": ["STRING"],
        }
    }
)


def test_items_of_a_growing_list_have_values() -> None:
    drawing = Drawing()
    source = drawing.node("Join", values=["a", "b", 7])
    slots = [f"texts.text{number}:STRING*" for number in range(4)]
    # The editor has as many items as there must be and one more; those added later come last.
    grown = drawing.node("Join", *slots, values=["a", "b", 7, "c", "d"])
    drawing.link(source, grown, "texts.text1")
    prompt = convert(drawing.raw(), GROWING)
    assert prompt["1"]["inputs"] == {"texts.text0": "a", "texts.text1": "b", "after": 7}
    assert prompt["2"]["inputs"] == {
        "texts.text0": "a",
        "texts.text1": ["1", 0],
        "after": 7,
        "texts.text2": "c",
        "texts.text3": "d",
    }


def test_a_primitive_gives_to_an_item_of_a_growing_list() -> None:
    drawing = Drawing()
    number = drawing.node("PrimitiveNode", values=["hello"], outputs=("STRING",))
    target = drawing.node("Join", "texts.text0:STRING*", values=["a", "b", 7])
    drawing.link(number, target, "texts.text0")
    assert inputs_of(drawing.raw(), "2", GROWING)["texts.text0"] == "hello"


def test_items_of_a_growing_list_may_have_names_and_an_end() -> None:
    catalog = types(texts=growing_texts(names=["first", "second"], min=5), after=["INT", {}])
    sent = values_of(catalog, ["a", "b", 7], "texts.first:STRING*", "texts.third:STRING*")
    assert sent == {"texts.first": "a", "texts.second": "b", "after": 7}


def test_a_slot_that_brings_inputs_takes_links() -> None:
    catalog = types(slot=["COMFY_DYNAMICSLOT_V3", {"slotType": "IMAGE", "inputs": {}}])
    drawing = Drawing()
    source = drawing.node("It")
    target = drawing.node("It", "slot:IMAGE", "slot.mask:MASK")
    drawing.link(source, target, "slot")
    drawing.link(source, target, "slot.mask")
    assert inputs_of(drawing.raw(), "2", catalog) == {"slot": ["1", 0], "slot.mask": ["1", 0]}


def test_a_widget_that_is_linked_gives_way_to_the_link() -> None:
    drawing = Drawing()
    text = drawing.node("Text", values=["hello"], outputs=("STRING",))
    old = drawing.node("Sample", "image:IMAGE", "text:STRING*", values=[1, "fixed", 2, "heun", "x"])
    drawing.link(text, old, "text")
    assert inputs_of(drawing.raw(), "2")["text"] == ["1", 0]


def test_the_slot_of_a_widget_that_the_type_no_longer_has_is_dropped() -> None:
    drawing = Drawing()
    text = drawing.node("Text", values=["hello"], outputs=("STRING",))
    target = drawing.node("Invert", "image:IMAGE", "gone:STRING*", "extra:STRING", values=[1.0])
    drawing.link(text, target, "gone")
    drawing.link(text, target, "extra")
    assert inputs_of(drawing.raw(), "2") == {"amount": 1.0, "extra": ["1", 0]}


def test_an_unknown_type_is_converted_as_far_as_it_names_its_inputs() -> None:
    drawing = Drawing()
    source = drawing.node("Load")
    named = drawing.node(
        "Odd", "image:IMAGE", "seed:INT*", "text:STRING*", values=[5, "randomize", "hello"]
    )
    nameless = drawing.node("Odder", "image:IMAGE", values=[1, 2])
    drawing.link(source, named, "image")
    drawing.link(named, nameless, "image")
    prompt, notes = convert_with_notes(drawing.raw())
    assert prompt["2"] == {
        "class_type": "Odd",
        "inputs": {"seed": 5, "text": "hello", "image": ["1", 0]},
        "_meta": {"title": "Odd"},
    }
    assert prompt["3"]["inputs"] == {"image": ["2", 0]}
    assert [(note.code, note.node_id) for note in notes] == [
        ("UNKNOWN_NODE_TYPE", "2"),
        ("UNKNOWN_NODE_TYPE", "3"),
    ]
    assert "2 of its values have no name" in notes[1].message
