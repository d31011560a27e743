"""Any workflow comes back from the editor's format as it was."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.front_end_nodes import FRONT_END_TYPES, RENAMED_TYPES
from comfyrail.workflow.editor.to_editor import workflow_to_editor
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.graph import parse_workflow
from tests.workflow_formats.editor_graphs import CATALOG
from tests.workflow_formats.test_widgets import DYNAMIC, GROWING

KNOWN = NodeCatalog({**CATALOG.types, **DYNAMIC.types, **GROWING.types})
INPUT_NAMES = sorted({name for each in KNOWN.types.values() for name in each.inputs})

texts = st.text(st.sampled_from("ab{}|\\/*%.: \r\n\u00e4"), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | texts
)
literals = st.recursive(
    scalars | st.sampled_from(["by", "to", "at", "no", "heun", "fixed"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=6,
)
ids = st.sampled_from(["1", "2", "3", "76:12", "a", "012", "-1", "9007199254740993"])
links = st.tuples(ids, st.integers(-1, 3)).map(list)
dotted = st.sampled_from(
    [
        *("size.factor", "size.width", "size.like", "size.crop", "size.crop.x"),
        *("texts.text0", "texts.text1", "texts.text3", "texts.text03", "texts.text99", "texts.x"),
    ]
)
input_names = st.sampled_from(INPUT_NAMES) | dotted | texts
editors_types = st.sampled_from(sorted(FRONT_END_TYPES | RENAMED_TYPES.keys()))
class_types = (
    st.sampled_from([*KNOWN.types, "Odd", "KSampler", "CustomCombo"])
    | editors_types
    | texts.filter(bool)
)
metas: st.SearchStrategy[dict[str, Any]] = st.just({}) | texts.map(
    lambda title: {"_meta": {"title": title}}
)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    inputs = draw(st.dictionaries(input_names, literals | links, max_size=5))
    return {"class_type": draw(class_types), "inputs": inputs, **draw(metas)}


workflows = st.dictionaries(ids, nodes(), min_size=1, max_size=5)


@given(prompt=workflows, is_known=st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_workflow_comes_back_from_the_editor_as_it_was(
    prompt: dict[str, Any], is_known: bool
) -> None:
    catalog = KNOWN if is_known else NodeCatalog()
    drawn = workflow_to_editor(parse_workflow(prompt), catalog)
    assert workflow_from(drawn, catalog)[0].to_prompt() == prompt


@given(prompt=workflows)
@settings(max_examples=100, deadline=None)
def test_a_second_trip_changes_nothing_more(prompt: dict[str, Any]) -> None:
    once = workflow_to_editor(parse_workflow(prompt), KNOWN)
    twice = workflow_to_editor(workflow_from(once, KNOWN)[0], KNOWN)
    assert twice == once
