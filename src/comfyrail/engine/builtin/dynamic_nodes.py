"""Define node types whose inputs depend on other inputs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from comfyrail.engine.definition import NodeDefinition, Specs, define_node
from comfyrail.workflow.dynamic_inputs import expand_ports, nest


def define_dynamic_node(
    name: str, function: Callable[..., Any], *, required: Specs, **about: Any
) -> NodeDefinition:
    """A definition whose function gets parts with dotted names as mappings.

    The arguments are those of `define_node`; the function takes no context.
    """
    sections = {"required": required}

    def run(**inputs: Any) -> Any:
        return function(**nest(inputs, sections))

    definition = define_node(name, run, required=required, **about)
    return replace(
        definition,
        ports=expand_ports(sections, {}),
        dynamic_ports=partial(expand_ports, sections),
    )
