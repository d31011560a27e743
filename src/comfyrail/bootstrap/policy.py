"""What workflows may do and what devices cost, as the settings say."""

from collections.abc import Iterable

from comfyrail.bootstrap.settings import Settings
from comfyrail.planning.cost import CostRates
from comfyrail.validation.policy import (
    DENIED_NODE_TYPES,
    CustomNodePolicy,
    SecurityPolicy,
    WorkflowLimits,
)


def security_policy(settings: Settings) -> SecurityPolicy:
    return SecurityPolicy(
        allowed_domains=settings.allowed_domains,
        allowed_folders=settings.allowed_folders,
        denied_node_types=_denied(settings.denied_node_types),
        allowed_node_types=frozenset(settings.allowed_node_types) or None,
        custom_node_policy=_custom_nodes(settings.custom_nodes),
        limits=WorkflowLimits(
            max_nodes=settings.max_nodes or None,
            max_image_side=settings.max_image_side or None,
            max_image_pixels=settings.max_image_pixels or None,
            max_batch_size=settings.max_batch_size or None,
            max_steps=settings.max_steps or None,
            max_string_length=settings.max_string_length or None,
            max_seconds=settings.max_seconds or None,
        ),
    )


def cost_rates(settings: Settings) -> CostRates:
    defaults = CostRates()
    given = dict(settings.gpu_rates)
    return CostRates(
        cpu=given.pop("cpu", defaults.cpu),
        unknown=given.pop("other", defaults.unknown),
        by_name={**defaults.by_name, **given},
    )


def _denied(names: Iterable[str]) -> frozenset[str]:
    """Those of the settings and the built-in ones, but for names with a minus."""
    freed = {name[1:] for name in names if name.startswith("-")}
    denied = {name for name in names if not name.startswith("-")}
    return (DENIED_NODE_TYPES | denied) - freed


def _custom_nodes(names: tuple[str, ...]) -> CustomNodePolicy:
    if names == ("allow",):
        return "allow"
    return "deny" if names == ("deny",) else frozenset(names)
