"""API v1: node types."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.messages import json_response
from comfyrail.api.services import services_of
from comfyrail.usecases.nodes import KnownNodeType
from comfyrail.validation.node_checks import dynamic_choices
from comfyrail.validation.schemas import node_schema
from comfyrail.workflow.catalog import InputPort

NODES = "/v1/nodes"
NODE = "/v1/nodes/{name}"

router = APIRouter(tags=["nodes"])


class NodeSummary(msgspec.Struct, kw_only=True):
    name: str
    display_name: str | None
    category: str
    output_node: bool
    workers: list[str]


class NodeList(msgspec.Struct, kw_only=True):
    nodes: list[NodeSummary]
    next_cursor: str | None


class NodeInput(msgspec.Struct, kw_only=True):
    """`choices` where it is one of a list; `minimum` and `maximum` where it is a number."""

    name: str
    type: str
    required: bool
    default: Any
    choices: list[Any] | None
    minimum: float | None
    maximum: float | None


class NodeOutput(msgspec.Struct, kw_only=True):
    name: str
    type: str
    is_list: bool


class NodeDifference(msgspec.Struct, kw_only=True):
    """`kind`: inputs, outputs, kind, choices, range or required."""

    kind: str
    input: str | None


class NodeBody(NodeSummary, kw_only=True):
    """What a node type takes and gives, over all workers; `differences` where they disagree."""

    inputs: list[NodeInput]
    outputs: list[NodeOutput]
    differences: list[NodeDifference]
    schema: dict[str, Any]
    """The JSON Schema of a node of this type."""


@router.get(NODES)
async def list_nodes(
    request: Request,
    search: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    """Node types by name. Pass `next_cursor` back as `cursor` to go on."""
    found = [
        known
        for known in services_of(request).nodes.list(search)
        if cursor is None or known.node_type.name > cursor
    ]
    page = [NodeSummary(**_summary(known)) for known in found[:limit]]
    following = page[-1].name if len(found) > limit else None
    return json_response(NodeList(nodes=page, next_cursor=following))


@router.get(NODE)
async def show_node(request: Request, name: str) -> Response:
    known = services_of(request).nodes.show(name)
    node_type = known.node_type
    return json_response(
        NodeBody(
            **_summary(known),
            inputs=[_input(port) for port in node_type.inputs.values()],
            outputs=[
                NodeOutput(name=output.name, type=output.type, is_list=output.is_list)
                for output in node_type.outputs
            ],
            differences=[
                NodeDifference(kind=each.kind, input=each.input) for each in known.differences
            ],
            schema=node_schema(node_type),
        )
    )


def _summary(known: KnownNodeType) -> Mapping[str, Any]:
    return {
        "name": known.node_type.name,
        "display_name": known.node_type.display_name,
        "category": known.node_type.category,
        "output_node": known.node_type.is_output,
        "workers": list(known.workers),
    }


def _input(port: InputPort) -> NodeInput:
    choices = port.choices if port.choices is not None else dynamic_choices(port)
    return NodeInput(
        name=port.name,
        type=port.type,
        required=port.required,
        default=port.default,
        choices=None if choices is None else list(choices),
        minimum=port.minimum,
        maximum=port.maximum,
    )
