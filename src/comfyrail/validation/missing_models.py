"""Models that a workflow names and no worker has."""

from collections.abc import Iterator, Sequence
from typing import Any

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.node_checks import ExaminedNode
from comfyrail.workflow.catalog import InputPort
from comfyrail.workflow.graph import Node
from comfyrail.workflow.models import model_folder
from comfyrail.workflow.nearest import (
    SearchBudget,
    Suggestions,
    did_you_mean,
    nearest_names,
    printable,
    shown,
)
from comfyrail.workflow.values import unwrap

MOST_WORKERS_NAMED = 20


def find_missing_models(
    examined: Sequence[ExaminedNode], context: ValidationContext, suggestions: Suggestions
) -> Iterator[Finding]:
    """The catalog has the choices of all workers; some tell of their models besides."""
    for each in examined:
        if each.check is None:
            continue
        for port in each.check.model_ports:
            value = unwrap(each.node.inputs.get(port.name))
            if isinstance(value, str) and not each.check.accepts(port.name, value):
                folder = model_folder(each.node.class_type, port, value)
                if folder is not None and not is_told_of(value, folder, context.models):
                    yield _missing(each.node, port, folder, value, context, suggestions)


def is_told_of(name: str, folder: str, models: Any) -> bool:
    """Whether a name is among models by folder. The folder is not always known by its name."""
    if folder in models:
        return name in models[folder]
    return any(name in names for names in models.values())


def names_like(name: str, choices: Sequence[Any], budget: SearchBudget) -> list[str]:
    """Models that may be meant: of the same file name in another folder first."""
    known = [choice for choice in choices if isinstance(choice, str)]
    same = [choice for choice in known if file_name(choice) == file_name(name)]
    return list(dict.fromkeys([*same[:3], *nearest_names(name, known, budget=budget)]))[:3]


def file_name(model: str) -> str:
    return model.replace("\\", "/").rpartition("/")[2].casefold()


def _missing(
    node: Node,
    port: InputPort,
    folder: str,
    name: str,
    context: ValidationContext,
    suggestions: Suggestions,
) -> Finding:
    near = suggestions.search(lambda budget: names_like(name, port.choices or (), budget))
    return Finding(
        "semantic",
        "error",
        "MODEL_NOT_FOUND",
        f"Node '{node.id}' ({node.class_type}), input '{port.name}': no worker has the model "
        f"{shown(name)} in its folder '{folder}'.{did_you_mean(near)}",
        node_id=node.id,
        path=f"{node.id}.inputs.{port.name}",
        details={
            "model": printable(name),
            "folder": folder,
            "nearest": near,
            "workers": [worker.id for worker in context.workers[:MOST_WORKERS_NAMED]],
        },
    )
