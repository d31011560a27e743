"""Policies of tenants in a file [2.3]."""

from pathlib import Path

import pytest

from comfyrail.bootstrap.policy import read_policies
from comfyrail.bootstrap.settings import load_settings
from comfyrail.errors import ConfigurationError
from comfyrail.ids import TenantId
from comfyrail.usecases.policies import Policies
from comfyrail.validation.policy import DENIED_NODE_TYPES


def policies(folder: Path, text: str) -> Policies:
    path = folder / "policy.yaml"
    path.write_text(text)
    return read_policies(load_settings(policy=path, max_steps=7))


def test_tenants_differ_from_the_default_in_what_the_file_says(tmp_path: Path) -> None:
    found = policies(
        tmp_path,
        "default: {max_nodes: 200, denied_node_types: [Bad, -Terminal]}\n"
        "tenants: {acme: {custom_nodes: deny, allowed_domains: [cdn.acme.com]}}\n",
    )
    acme = found.of(TenantId("acme"))
    assert acme.custom_node_policy == "deny"
    assert acme.allowed_domains == ("cdn.acme.com",)
    for policy in (acme, found.of(TenantId("other"))):
        assert (policy.limits.max_nodes, policy.limits.max_steps) == (200, 7)
        assert policy.denied_node_types == (DENIED_NODE_TYPES | {"Bad"}) - {"Terminal"}
    assert found.of(TenantId("other")).custom_node_policy == "allow"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tenants: {acme: {max_noodles: 3}}", "max_noodles"),
        ("tenants: {acme: {max_nodes: many}}", "tenants.acme"),
        ("defaults: {}", "defaults"),
        ("tenants: [acme]", "no table"),
        ("- 1", "no table"),
        ("{", "cannot be read"),
    ],
)
def test_file_that_is_not_right_says_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        policies(tmp_path, text)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml"):
        read_policies(load_settings(policy=tmp_path / "nowhere.yaml"))
