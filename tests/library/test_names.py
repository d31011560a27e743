"""Names are never trusted as paths [1.4, 11.1]."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.errors import InvalidLibraryEntry, MalformedRequest
from comfyrail.ids import TenantId
from comfyrail.library.names import RESERVED, check_name, is_name, split_reference, tenant_folder

# fmt: off
BAD = ("", ".", "..", "A", "a/b", "a\\b", "../a", ".a", "-a", "_a", "a b", "a@1", "a\n", "ä", "a\0")
# fmt: on
SURROGATES = st.text(st.characters(), max_size=80)


@pytest.mark.parametrize("name", ["a", "0", "v1.5-base_2", "a" * 64, "a..b", "com1"])
def test_good_name(name: str) -> None:
    check_name(name)
    assert is_name(name)


@pytest.mark.parametrize("name", [*BAD, "a" * 65, *sorted(RESERVED)])
def test_bad_name_is_refused_with_a_rule(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidLibraryEntry, match=r"choose another name|cannot be a workflow's"):
        check_name(name)


@given(SURROGATES)
def test_name_is_one_plain_segment_of_a_path(text: str) -> None:
    if is_name(text):
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", text)
        assert text == text.casefold()


@given(SURROGATES)
def test_folder_of_a_tenant_is_one_plain_segment_of_a_path(text: str) -> None:
    folder = tenant_folder(TenantId(text))
    assert re.fullmatch(r"[a-z0-9_%-]{1,200}", folder)


@given(SURROGATES, SURROGATES)
def test_tenants_never_share_a_folder(one: str, other: str) -> None:
    folders = tenant_folder(TenantId(one)), tenant_folder(TenantId(other))
    assert (folders[0].casefold() == folders[1].casefold()) == (one == other)


def test_long_tenants_are_apart() -> None:
    assert tenant_folder(TenantId("A" * 500)) != tenant_folder(TenantId("A" * 501))
    assert len(tenant_folder(TenantId("A" * 500))) <= 200


@pytest.mark.parametrize(
    ("reference", "meant"), [("a", ("a", None)), ("a@1", ("a", 1)), ("a.b@12", ("a.b", 12))]
)
def test_reference_is_a_name_with_or_without_a_version(
    reference: str, meant: tuple[str, int | None]
) -> None:
    assert split_reference(reference) == meant


@pytest.mark.parametrize(
    "reference", ["a@", "a@0", "a@-1", "a@1.0", "a@x", "a@1@2", "a@9999999999"]
)
def test_version_that_is_no_number_is_refused(reference: str) -> None:
    with pytest.raises(MalformedRequest, match="like poster@3"):
        split_reference(reference)
