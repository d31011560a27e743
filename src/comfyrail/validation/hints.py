"""Stage 5: what could be done better. Nothing here is an error."""

from collections.abc import Hashable, Iterator, Sequence

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.node_checks import ExaminedNode
from comfyrail.validation.optimize import find_waste
from comfyrail.workflow.graph import Node, Workflow, is_link
from comfyrail.workflow.simplify import describe_node, find_dependents

LARGE_LATENT_PIXELS = 2048 * 2048
SEEDS = ("seed", "noise_seed")
MOST_NAMED = 50


def find_hints(
    workflow: Workflow, examined: Sequence[ExaminedNode], context: ValidationContext
) -> list[Finding]:
    dead, duplicates = find_waste(workflow, context.catalog)
    findings: list[Finding] = []
    if dead:
        findings.append(_dead_nodes(dead))
    findings.extend(_duplicates(duplicates))
    findings.extend(_large_latents(examined))
    findings.extend(_batchable_samplers(examined, duplicates))
    findings.extend(_cached_prefix(workflow, set(dead)))
    return findings


def _dead_nodes(dead: Sequence[str]) -> Finding:
    return Finding(
        "optimization",
        "hint",
        "DEAD_NODES",
        f"{_counted(len(dead))} no output and will not run: {_listed(dead)}. Remove what is not "
        "wanted.",
        node_id=dead[0],
        path=dead[0],
        details={"nodes": list(dead[:MOST_NAMED]), "count": len(dead)},
    )


def _duplicates(duplicates: dict[str, str]) -> Iterator[Finding]:
    groups: dict[str, list[str]] = {}
    for node_id, kept in duplicates.items():
        groups.setdefault(kept, []).append(node_id)
    for kept, others in groups.items():
        yield Finding(
            "optimization",
            "hint",
            "DUPLICATE_NODES",
            f"Nodes {_listed([kept, *others])} do the same. One of them is enough.",
            node_id=kept,
            path=kept,
            details={"kept": kept, "nodes": others[:MOST_NAMED], "count": len(others)},
        )


def _large_latents(examined: Sequence[ExaminedNode]) -> Iterator[Finding]:
    for each in examined:
        if each.check is None or "LATENT" not in each.check.output_types:
            continue
        width, height = each.node.inputs.get("width"), each.node.inputs.get("height")
        if not isinstance(width, int) or not isinstance(height, int):
            continue
        if width * height > LARGE_LATENT_PIXELS:
            yield Finding(
                "optimization",
                "hint",
                "OVERSIZED_LATENT",
                f"Node '{each.node.id}' ({each.node.class_type}): {width} by {height} is more than "
                "models are trained for, and takes much memory. Make it smaller and upscale.",
                node_id=each.node.id,
                path=f"{each.node.id}.inputs.width",
                details={"width": width, "height": height},
            )


def _batchable_samplers(
    examined: Sequence[ExaminedNode], duplicates: dict[str, str]
) -> Iterator[Finding]:
    """Samplers that differ in nothing but their seeds could be one with a larger batch."""
    groups: dict[Hashable, list[Node]] = {}
    for each in examined:
        if each.check is None or not _is_sampler(each):
            continue
        kind = describe_node(each.node, duplicates, besides=SEEDS)
        if kind is not None:
            groups.setdefault(kind, []).append(each.node)
    for nodes in groups.values():
        if len({str(_seed_of(node)) for node in nodes}) > 1:
            ids = [node.id for node in nodes]
            yield Finding(
                "optimization",
                "hint",
                "BATCHABLE_SAMPLERS",
                f"Samplers {_listed(ids)} differ only in their seeds. One with a batch of "
                f"{len(ids)} latents is faster.",
                node_id=ids[0],
                path=ids[0],
                details={"nodes": ids[:MOST_NAMED], "count": len(ids)},
            )


def _is_sampler(each: ExaminedNode) -> bool:
    check, inputs = each.check, each.node.inputs
    if check is None or "LATENT" not in check.output_types:
        return False
    return _seed_of(each.node) is not None and any(
        port.type == "LATENT" and is_link(inputs.get(name)) for name, port in check.ports.items()
    )


def _seed_of(node: Node) -> object:
    return next((node.inputs[name] for name in SEEDS if name in node.inputs), None)


def _cached_prefix(workflow: Workflow, dead: set[str]) -> Iterator[Finding]:
    """What does not depend on a seed is made once for all runs that change nothing else."""
    seeded = [node.id for node in workflow.nodes.values() if _seed_of(node) is not None]
    if not seeded:
        return
    changing = find_dependents(workflow, seeded)
    kept = [each for each in workflow.nodes if each not in changing and each not in dead]
    if kept:
        yield Finding(
            "optimization",
            "hint",
            "CACHED_PREFIX",
            f"{len(kept)} of {len(workflow.nodes)} nodes do not depend on a seed: a worker that "
            "has run them keeps their results for runs with other seeds.",
            details={"nodes": kept[:MOST_NAMED], "count": len(kept)},
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _counted(nodes: int) -> str:
    return "1 node feeds" if nodes == 1 else f"{nodes} nodes feed"
