"""What the files of a version say, hostile or not [1.3, 1.4]."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.errors import InvalidLibraryEntry, LibraryEntryNotFound, MalformedWorkflow
from comfyrail.ids import TenantId
from comfyrail.library.content import declared_in, encode_declared, workflow_in
from comfyrail.library.library import WorkflowLibrary
from comfyrail.usecases.library import Draft, Library
from comfyrail.workflow.catalog import NodeCatalog
from tests.graphs import picture


def test_inputs_are_read_from_yaml_and_from_json() -> None:
    written = "# for people\nwidth:\n  target: 1.width\n  type: integer\n  default: 64\n"
    as_yaml = declared_in({"inputs.yaml": written.encode()})
    assert as_yaml is not None
    assert (as_yaml[0].name, as_yaml[0].targets, as_yaml[0].default) == ("width", ("1.width",), 64)
    assert declared_in({"inputs.json": encode_declared(as_yaml)}) == as_yaml
    assert declared_in({"workflow.json": b"{}"}) is None
    assert declared_in({"inputs.yaml": b""}) == ()


def test_byte_order_mark_is_passed_over() -> None:
    assert workflow_in({"workflow.json": b'\xef\xbb\xbf{"a": 1}'}) == {"a": 1}
    assert declared_in({"inputs.yaml": b"\xef\xbb\xbfa: 1.x"}) is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: &x [1.x]\nb: *x", "alias"),
        (b"a: &a [lol]\n" + b"b: &b [*a, *a]\n" * 20, "alias"),
        (b"[" * 50 + b"]" * 50, "nested too deeply"),
        (b"[" * 60_000, "nested too deeply|not YAML"),
        (b"a: [", "not YAML"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"!!python/object/apply:os.system [ls]", "not YAML"),
        (b"a: {target: 1.x, default: 2020-01-01}", "its default must be"),
        (b"a: {target: 1.x, default: .nan}", "its default must be"),
        (b"1: {target: 1.x}", "its name must be"),
        (b"? [a]\n: b", "not YAML"),
        (b"just text", "a list or an object"),
    ],
)
def test_yaml_that_is_not_plain_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(MalformedWorkflow, match=said):
        declared_in({"inputs.yaml": content})


@given(st.binary(max_size=200))
def test_any_bytes_are_inputs_or_a_refusal(content: bytes) -> None:
    for name in ("inputs.yaml", "inputs.json"):
        with contextlib.suppress(MalformedWorkflow):
            declared_in({name: content})


@pytest.mark.parametrize("content", [b"", b"{nope", b"[1]", b"\xff", b'{"a": NaN}', b"[" * 9999])
def test_workflow_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedWorkflow, match=r"not JSON|a JSON object"):
        workflow_in({"workflow.json": content})
    with pytest.raises(InvalidLibraryEntry, match=r"no workflow\.json"):
        workflow_in({})


async def test_workflow_of_another_tenant_is_not_found(tmp_path: Path) -> None:
    folder = WorkflowLibrary(tmp_path, LOCAL_USER.tenant)
    library = Library(folder, NodeCatalog)
    other = Principal(TenantId("someone"))
    try:
        await library.save(LOCAL_USER, "mine", Draft(json.dumps(picture()).encode()))
        found = await library.find(LOCAL_USER, "mine@1")
        assert (found.workflow, found.declared) == (picture(), None)
        with pytest.raises(LibraryEntryNotFound):
            await library.find(other, "mine")
        with pytest.raises(LibraryEntryNotFound):
            await library.show(other, "mine", None)
        with pytest.raises(LibraryEntryNotFound):
            await library.export_bundle(other, "mine", None)
        with pytest.raises(LibraryEntryNotFound):
            await library.delete(other, "mine")
    finally:
        folder.close()
