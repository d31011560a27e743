"""`comfyrail nodes`: what node types there are, and what one takes and gives."""

from rich.text import Text

from comfyrail.cli.exits import FAILED, call_server, explain_and_exit
from comfyrail.cli.tables import add_row, new_table, print_table
from comfyrail.cli.terminal import line, out, say
from comfyrail.client import ComfyrailClient, RequestFailed
from comfyrail.client.checks import NodeInput, NodeSummary, NodeType

NOT_FOUND = 404
CHOICES_SHOWN = 8


def show_nodes(server: str, name: str | None) -> None:
    """The type of this very name, or all whose names have it in them."""
    found = call_server(_ask(server, name))
    if isinstance(found, NodeType):
        _describe(found)
    elif found:
        _list(found)
    elif name is None:
        say("No worker has told of its node types yet.")
    else:
        explain_and_exit(f"No node type has {name!r} in its name, title or category.", FAILED)


async def _ask(server: str, name: str | None) -> NodeType | list[NodeSummary]:
    async with ComfyrailClient(server) as client:
        if name is not None:
            try:
                return await client.node(name)
            except RequestFailed as error:
                if error.status != NOT_FOUND:
                    raise
        return await client.nodes(name or "")


def _list(nodes: list[NodeSummary]) -> None:
    table = new_table("Node type", "Title", "Category", "Workers")
    for node in nodes:
        add_row(table, node.name, node.display_name or "", node.category, str(len(node.workers)))
    print_table(table)


def _describe(node: NodeType) -> None:
    say(Text(line(node.name), "bold"), node.display_name or "", f"({node.category})")
    out.print()
    table = new_table("Input", "Type", "Required", "Default", "Values")
    for port in node.inputs:
        default = "" if port.default is None else line(str(port.default))[:40]
        is_required = "yes" if port.required else ""
        add_row(table, port.name, port.type, is_required, default, _values(port))
    print_table(table)
    outputs = ", ".join(f"{output.name} ({output.type})" for output in node.outputs)
    say(f"Gives {outputs or 'nothing'}{', and is an output node' if node.output_node else ''}.")
    say(f"Workers: {', '.join(node.workers) or 'none that is known'}.")
    for difference in node.differences:
        where = f" of {difference.input}" if difference.input else ""
        say(f"Workers differ in the {difference.kind}{where}.")


def _values(port: NodeInput) -> str:
    if port.choices is not None:
        shown = ", ".join(line(str(choice)) for choice in port.choices[:CHOICES_SHOWN])
        more = len(port.choices) - CHOICES_SHOWN
        return f"{shown} and {more} more" if more > 0 else shown
    if port.minimum is None and port.maximum is None:
        return ""
    low = "" if port.minimum is None else f"{port.minimum:g}"
    high = "" if port.maximum is None else f"{port.maximum:g}"
    return f"{low} to {high}"
