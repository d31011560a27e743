"""What workflows may do and what devices cost, as the settings and the policy file say.

The file gives settings of policy other values, for everybody or for single tenants:

    default: {max_nodes: 200}
    tenants:
      acme: {custom_nodes: deny, allowed_domains: [cdn.acme.com]}
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from comfyrail.bootstrap.settings import PolicySettings, Settings, describe_faults
from comfyrail.errors import ConfigurationError
from comfyrail.ids import TenantId
from comfyrail.planning.cost import CostRates
from comfyrail.usecases.policies import Policies
from comfyrail.validation.policy import (
    DENIED_NODE_TYPES,
    CustomNodePolicy,
    SecurityPolicy,
    WorkflowLimits,
)

SECTIONS = ("default", "tenants")


def read_policies(settings: Settings) -> Policies:
    """Raises ConfigurationError naming what is wrong in the file."""
    own = {name: getattr(settings, name) for name in PolicySettings.model_fields}
    if settings.policy is None:
        return Policies(security_policy(settings))
    content = _read_file(settings.policy)
    default = own | _section(content.get("default"), settings.policy, "default")
    tenants = _section(content.get("tenants"), settings.policy, "tenants")
    return Policies(
        _policy_of(default, settings.policy, "default"),
        {
            TenantId(str(tenant)): _policy_of(
                default | _section(values, settings.policy, f"tenants.{tenant}"),
                settings.policy,
                f"tenants.{tenant}",
            )
            for tenant, values in tenants.items()
        },
    )


def security_policy(settings: PolicySettings) -> SecurityPolicy:
    return SecurityPolicy(
        allowed_domains=settings.allowed_domains,
        allow_computed_urls=settings.allow_computed_urls,
        allowed_content_types=settings.allowed_content_types,
        allowed_folders=settings.allowed_folders,
        denied_node_types=_denied(settings.denied_node_types),
        allowed_node_types=frozenset(settings.allowed_node_types) or None,
        custom_node_policy=_custom_nodes(settings.custom_nodes),
        limits=WorkflowLimits(
            max_nodes=settings.max_nodes or None,
            max_image_side=settings.max_image_side or None,
            max_image_pixels=settings.max_image_pixels or None,
            max_batch_size=settings.max_batch_size or None,
            max_frames=settings.max_frames or None,
            max_steps=settings.max_steps or None,
            max_string_length=settings.max_string_length or None,
            max_workflow_bytes=settings.max_workflow_bytes or None,
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


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigurationError(f"The policy file {path} cannot be read: {error}") from error
    found = _section(content, path, "the file")
    unknown = sorted(str(key) for key in found if key not in SECTIONS)
    if unknown:
        raise ConfigurationError(
            f"The policy file {path} has {', '.join(unknown)}; it may have "
            f"{' and '.join(SECTIONS)}."
        )
    return found


def _section(value: object, path: Path, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigurationError(f"The policy file {path}: {where} is no table of names.")
    return value


def _policy_of(values: Mapping[str, Any], path: Path, where: str) -> SecurityPolicy:
    try:
        return security_policy(PolicySettings.model_validate(values))
    except ValidationError as error:
        raise ConfigurationError(
            f"The policy file {path}, {where}: {describe_faults(error)}."
        ) from error


def _denied(names: Iterable[str]) -> frozenset[str]:
    """Those of the settings and the built-in ones, but for names with a minus."""
    freed = {name[1:] for name in names if name.startswith("-")}
    denied = {name for name in names if not name.startswith("-")}
    return (DENIED_NODE_TYPES | denied) - freed


def _custom_nodes(names: tuple[str, ...]) -> CustomNodePolicy:
    if names == ("allow",):
        return "allow"
    return "deny" if names == ("deny",) else frozenset(names)
