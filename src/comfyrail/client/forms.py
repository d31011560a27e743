"""What can be set in a workflow, as a server tells it."""

from typing import Any

import msgspec

from comfyrail.client.checks import ConversionNote


class FormPosition(msgspec.Struct):
    x: int
    y: int
    width: int
    height: int


class FormLink(msgspec.Struct):
    input: str
    node_id: str
    output: int


class FormField(msgspec.Struct, kw_only=True):
    """Set it as the parameter `<node_id>.<name>`. `upload` is image, video, audio or file.

    `choices` may be cut: `choices_total` says how many there are.
    """

    name: str
    type: str
    value: Any
    given: bool
    value_text: str | None
    default: Any
    required: bool
    minimum: int | float | None
    maximum: int | float | None
    step: int | float | None
    choices: list[str | int | float | bool] | None
    choices_total: int | None
    multiline: bool
    seed: bool
    upload: str | None
    mask: bool
    tooltip: str | None


class FormNode(msgspec.Struct, kw_only=True):
    node_id: str
    class_type: str
    title: str
    known: bool
    output_node: bool
    description: str
    position: FormPosition | None
    links: list[FormLink]
    fields: list[FormField]


class Form(msgspec.Struct, kw_only=True):
    """`workflow` is what to submit; `format` is api or editor."""

    workflow: dict[str, Any]
    format: str
    nodes: list[FormNode]
    nodes_total: int
    notes: list[ConversionNote]


class ExecutionForm(Form, kw_only=True):
    execution_id: str
    workflow_id: str | None
