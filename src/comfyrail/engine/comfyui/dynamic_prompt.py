"""A running graph as ComfyUI's nodes see it: in place of comfy_execution.graph.DynamicPrompt."""

import importlib
from collections.abc import Mapping
from typing import Any

from comfyrail.engine.surroundings import RunView


class DynamicPromptView:
    """Reads only; the graph grows by what nodes return, not through here."""

    def __init__(self, run: RunView) -> None:
        self._run = run

    @property
    def original_prompt(self) -> Mapping[str, Any]:
        return self._run.prompt

    @property
    def ephemeral_prompt(self) -> dict[str, Any]:
        added = self._run.graph.all_ids().difference(self._run.prompt)
        return {node_id: self._run.graph.entry(node_id) for node_id in added}

    def get_original_prompt(self) -> Mapping[str, Any]:
        return self._run.prompt

    def get_node(self, node_id: str) -> Mapping[str, Any]:
        try:
            return self._run.graph.entry(node_id)
        except KeyError as error:
            graph: Any = importlib.import_module("comfy_execution.graph")
            raise graph.NodeNotFoundError(f"Node {node_id} not found") from error

    def has_node(self, node_id: str) -> bool:
        return node_id in self._run.graph.all_ids()

    def get_real_node_id(self, node_id: str) -> str:
        return self._run.graph.real_id(node_id)

    def get_parent_node_id(self, node_id: str) -> str | None:
        return self._run.graph.parent_of(node_id)

    def get_display_node_id(self, node_id: str) -> str:
        return self._run.graph.display_id(node_id)

    def all_node_ids(self) -> set[str]:
        return self._run.graph.all_ids()
