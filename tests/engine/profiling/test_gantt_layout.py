"""Bars and labels of one lane, whatever the times are."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from comfyrail.engine.profiling.gantt_layout import (
    LABEL_ROWS,
    WIDEST_CLUSTER,
    Bar,
    lay_out_chips,
    lay_out_lane,
    text_width,
)
from tests.engine.profiling.test_forms import known, node

WIDTH = 1000.0

gaps = st.floats(0, 40, allow_nan=False)
lengths = st.one_of(st.floats(0, 3, allow_nan=False), st.floats(0, 300, allow_nan=False))


@st.composite
def lanes(draw: st.DrawFn) -> list[Bar]:
    """Bars that follow each other, as nodes of one thread do."""
    bars, now = [], 0.0
    for number, (gap, length) in enumerate(draw(st.lists(st.tuples(gaps, lengths), max_size=60))):
        began, ended = now + gap, now + gap + length
        bars.append(Bar(began, ended, [node(str(number), began, ended, node_type="SomeType")]))
        now = ended
    scale = WIDTH / now if now > WIDTH else 1.0
    return [Bar(bar.began * scale, bar.ended * scale, bar.nodes) for bar in bars]


@given(lanes())
def test_no_node_is_lost_and_no_bar_is_too_wide(bars: list[Bar]) -> None:
    before = [each.node_id for bar in bars for each in bar.nodes]
    lane = lay_out_lane("main", bars, WIDTH)
    assert sorted(each.node_id for bar in lane.bars for each in bar.nodes) == sorted(before)
    for bar in lane.bars:
        if len(bar.nodes) > 1:
            assert bar.ended - bar.began <= WIDEST_CLUSTER
    for first, second in pairwise(lane.bars):
        assert first.ended <= second.began + 1e-6


@given(lanes())
def test_labels_cover_neither_each_other_nor_their_lines(bars: list[Bar]) -> None:
    lane = lay_out_lane("main", bars, WIDTH)
    places = [(label.row, label.x, label.x + text_width(label.text)) for label in lane.labels]
    for number, (row, start, end) in enumerate(places):
        assert 0 <= row < LABEL_ROWS
        assert end <= WIDTH + 1e-6
        for other_row, other_start, other_end in places[number + 1 :]:
            assert row != other_row or end <= other_start or start >= other_end
        for label in lane.labels:
            if label.row > row:
                assert not start < label.anchor < end


@given(st.integers(0, 500), st.integers(1, 5))
def test_chips_stay_inside_and_count_the_rest(count: int, rows: int) -> None:
    chips = lay_out_chips([known(str(number), "Type") for number in range(count)], WIDTH, rows)
    for chip in chips:
        assert chip.x >= 0
        assert chip.x + chip.width <= WIDTH
        assert chip.row < rows
    shown = [chip for chip in chips if chip.node is not None]
    rest = [chip for chip in chips if chip.node is None]
    hidden = int(rest[0].text.split()[1]) if rest else 0
    assert len(shown) + hidden == count
