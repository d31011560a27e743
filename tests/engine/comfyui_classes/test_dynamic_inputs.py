"""Inputs that depend on other inputs, in the words of /object_info."""

from typing import Any

from comfyrail.workflow.dynamic_inputs import expand_ports, has_dynamic_inputs, nest

GROWING: dict[str, dict[str, Any]] = {
    "required": {
        "images": [
            "COMFY_AUTOGROW_V3",
            {
                "template": {
                    "input": {"required": {"image": ["IMAGE", {}]}},
                    "prefix": "image",
                    "min": 2,
                    "max": 50,
                }
            },
        ]
    }
}
NAMED: dict[str, dict[str, Any]] = {
    "required": {
        "parts": [
            "COMFY_AUTOGROW_V3",
            {
                "template": {
                    "input": {"required": {"part": ["STRING", {"forceInput": True}]}},
                    "names": ["head", "tail"],
                    "min": 1,
                }
            },
        ]
    }
}
CHOICE: dict[str, dict[str, Any]] = {
    "required": {
        "input": [
            "COMFY_MATCHTYPE_V3",
            {"template": {"template_id": "t", "allowed_types": "IMAGE,MASK"}},
        ],
        "resize_type": [
            "COMFY_DYNAMICCOMBO_V3",
            {
                "options": [
                    {
                        "key": "by multiplier",
                        "inputs": {
                            "required": {"multiplier": ["FLOAT", {"min": 0.01, "max": 8.0}]},
                            "optional": {"note": ["STRING", {}]},
                        },
                    },
                    {"key": "many", "inputs": GROWING},
                    {"key": "nothing", "inputs": {"required": {}}},
                ]
            },
        ],
        "scale_method": [["area", "lanczos"]],
    }
}
SLOT: dict[str, dict[str, Any]] = {
    "optional": {
        "model": [
            "COMFY_DYNAMICSLOT_V3",
            {"slotType": "MODEL", "inputs": {"required": {"strength": ["FLOAT", {"min": 0}]}}},
        ]
    }
}


def test_a_growing_list_has_a_port_for_each_item_that_is_there() -> None:
    ports = expand_ports(GROWING, {"images.image0": ["1", 0], "images.image2": ["2", 0]})
    assert list(ports) == ["images.image0", "images.image2"]
    assert [port.type for port in ports.values()] == ["IMAGE", "IMAGE"]
    assert [port.required for port in ports.values()] == [True, False]


def test_items_of_a_growing_list_beyond_its_maximum_are_no_ports() -> None:
    assert expand_ports(GROWING, {"images.image50": ["1", 0], "images.other": 1}) == {}


def test_a_growing_list_may_have_names() -> None:
    ports = expand_ports(NAMED, {"parts.tail": "x", "parts.head": "y"})
    assert list(ports) == ["parts.head", "parts.tail"]
    assert [port.required for port in ports.values()] == [True, False]


def test_a_choice_brings_its_inputs() -> None:
    ports = expand_ports(CHOICE, {"resize_type": "by multiplier"})
    assert list(ports) == [
        "input",
        "resize_type",
        "resize_type.multiplier",
        "resize_type.note",
        "scale_method",
    ]
    assert ports["resize_type.multiplier"].required
    assert ports["resize_type.multiplier"].maximum == 8.0
    assert not ports["resize_type.note"].required


def test_a_choice_that_is_not_made_or_not_known_is_no_port() -> None:
    for inputs in ({}, {"resize_type": "unheard of"}, {"resize_type": ["1", 0]}):
        assert list(expand_ports(CHOICE, inputs)) == ["input", "scale_method"]


def test_a_choice_may_bring_a_growing_list() -> None:
    inputs = {"resize_type": "many", "resize_type.images.image0": 1}
    assert "resize_type.images.image0" in expand_ports(CHOICE, inputs)
    assert nest(inputs, CHOICE)["resize_type"] == {"resize_type": "many", "images": {"image0": 1}}


def test_matching_types_are_not_judged() -> None:
    port = expand_ports(CHOICE, {})["input"]
    assert port.type == "*"
    assert port.spec[0] == "COMFY_MATCHTYPE_V3"


def test_a_slot_brings_its_inputs_once_it_is_there() -> None:
    assert expand_ports(SLOT, {"model.strength": 1.0}) == {}
    ports = expand_ports(SLOT, {"model": ["1", 0]})
    assert [(name, port.type, port.required) for name, port in ports.items()] == [
        ("model", "MODEL", False),
        ("model.strength", "FLOAT", True),
    ]


def test_values_of_dotted_names_are_nested() -> None:
    values = {"resize_type": "by multiplier", "resize_type.multiplier": 2.0, "scale_method": "area"}
    assert nest(values, CHOICE) == {
        "resize_type": {"resize_type": "by multiplier", "multiplier": 2.0, "note": None},
        "scale_method": "area",
    }
    assert nest({"images.image0": 1, "images.image1": 2}, GROWING) == {
        "images": {"image0": 1, "image1": 2}
    }
    assert nest({"model": 3, "model.strength": 1.0}, SLOT) == {
        "model": {"model": 3, "strength": 1.0}
    }


def test_an_empty_growing_list_is_not_given_at_all() -> None:
    assert nest({}, GROWING) == {}


def test_nesting_leaves_the_given_values_alone() -> None:
    values = {"images.image0": 1}
    nest(values, GROWING)
    assert values == {"images.image0": 1}


def test_for_lazy_inputs_each_value_comes_with_its_name() -> None:
    nested = nest({"images.image0": None, "images.image1": 2}, GROWING, with_names=True)
    assert nested == {"images": {"image0": (None, "images.image0"), "image1": (2, "images.image1")}}


def test_plain_inputs_need_none_of_this() -> None:
    assert has_dynamic_inputs(CHOICE)
    assert not has_dynamic_inputs({"required": {"mode": [["a", "b"]], "width": ["INT", {}]}})
