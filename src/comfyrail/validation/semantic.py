"""Stage 2: the nodes together: links, their types, required inputs, cycles, outputs."""

from collections.abc import Iterator, Mapping

from comfyrail.errors import CyclicWorkflow
from comfyrail.validation.findings import Finding
from comfyrail.workflow.catalog import InputPort, NodeCatalog, types_match
from comfyrail.workflow.graph import Edge, Node, Workflow, is_link
from comfyrail.workflow.nearest import Suggestions, did_you_mean, shown


def check_semantics(workflow: Workflow, catalog: NodeCatalog) -> Iterator[Finding]:
    suggestions = Suggestions()
    for node in workflow.nodes.values():
        node_type = catalog.get(node.class_type)
        ports: Mapping[str, InputPort] = node_type.inputs if node_type else {}
        yield from _check_required(node, ports)
        for name, value in node.inputs.items():
            if isinstance(value, list) and not is_link(value):
                yield _bad_link(node, name, value)
        for edge in node.edges():
            if edge.source in workflow.nodes:
                yield from _check_edge(workflow, catalog, edge, ports.get(edge.input))
            else:
                yield _missing_source(workflow, edge, suggestions)
    yield from _check_cycle(workflow)
    if catalog and not any(_is_output(node, catalog) for node in workflow.nodes.values()):
        yield _error(
            "NO_OUTPUT_NODE",
            "The workflow has no output node: nothing would be kept. Add one, such as SaveImage.",
        )


def _check_required(node: Node, ports: Mapping[str, InputPort]) -> Iterator[Finding]:
    for port in ports.values():
        # Dotted names are parts of dynamic inputs ("images.image0"): the group is then given.
        given = port.name in node.inputs or any(
            name.startswith(f"{port.name}.") for name in node.inputs
        )
        if port.required and not given:
            yield _error(
                "MISSING_REQUIRED_INPUT",
                f"Node '{node.id}' ({node.class_type}) needs the input '{port.name}' "
                f"({port.type}).",
                node_id=node.id,
                path=f"{node.id}.inputs.{port.name}",
                expected_type=port.type,
            )


def _check_edge(
    workflow: Workflow, catalog: NodeCatalog, edge: Edge, port: InputPort | None
) -> Iterator[Finding]:
    path = f"{edge.target}.inputs.{edge.input}"
    source = workflow.nodes[edge.source]
    source_type = catalog.get(source.class_type)
    if source_type is None:
        return
    if not 0 <= edge.slot < len(source_type.outputs):
        yield _error(
            "BAD_LINK",
            f"Node '{edge.target}', input '{edge.input}': node '{edge.source}' "
            f"({source.class_type}) has {len(source_type.outputs)} outputs (counted from 0), "
            f"none number {edge.slot}.",
            node_id=edge.target,
            path=path,
            from_node=edge.source,
        )
        return
    actual = source_type.outputs[edge.slot].type
    if port is not None and not types_match(actual, port.type):
        yield _error(
            "TYPE_MISMATCH",
            f"Node '{edge.target}', input '{edge.input}' takes {port.type}, but node "
            f"'{edge.source}' ({source.class_type}) gives {actual}.",
            node_id=edge.target,
            path=path,
            from_node=edge.source,
            expected_type=port.type,
            actual_type=actual,
        )


def _missing_source(workflow: Workflow, edge: Edge, suggestions: Suggestions) -> Finding:
    near = suggestions.near(edge.source, workflow.nodes)
    return _error(
        "BAD_LINK",
        f"Node '{edge.target}', input '{edge.input}': there is no node {shown(edge.source)}."
        f"{did_you_mean(near)}",
        node_id=edge.target,
        path=f"{edge.target}.inputs.{edge.input}",
        from_node=edge.source[:200],
    )


def _check_cycle(workflow: Workflow) -> Iterator[Finding]:
    try:
        workflow.order  # noqa: B018 - reading it is the check
    except CyclicWorkflow as error:
        yield _error(error.code, error.message, node_id=error.cycle[0], cycle=error.cycle)


def _bad_link(node: Node, name: str, value: list[object]) -> Finding:
    return _error(
        "BAD_LINK",
        f"Node '{node.id}', input '{name}': a link is [\"node id\", output number], "
        f"not {shown(value)}."
        ' A literal list is written {"__value__": [...]}.',
        node_id=node.id,
        path=f"{node.id}.inputs.{name}",
    )


def _is_output(node: Node, catalog: NodeCatalog) -> bool:
    node_type = catalog.get(node.class_type)
    return node_type is not None and node_type.is_output


def _error(
    code: str, message: str, node_id: str | None = None, path: str | None = None, **details: object
) -> Finding:
    return Finding("semantic", "error", code, message, node_id, path, details)
