import pickle
import sys
import threading
from collections import OrderedDict
from enum import IntEnum
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from comfyrail.clock import Instant
from comfyrail.engine.caching import CachedResult
from comfyrail.engine.caching.codec import created_at, decode_result, encode_result
from comfyrail.engine.caching.faults import CorruptEntry, NotStorable, UnreadableHere
from tests.engine.caching.cache_parts import entry, forge, header_of, image_result, key_of, same

KEY = key_of("codec")

texts = st.text(st.characters(exclude_categories=()), max_size=20)  # with lone surrogates
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=True)
    | texts
    | st.binary(max_size=20)
)
dtypes = (
    np_st.scalar_dtypes()
    | np_st.byte_string_dtypes(max_len=9, min_len=1)
    | np_st.unicode_string_dtypes(max_len=9, min_len=1)
)
arrays = dtypes.flatmap(
    lambda dtype: np_st.arrays(
        dtype, np_st.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    )
)
scalars = np_st.scalar_dtypes().flatmap(lambda dtype: np_st.arrays(dtype, ()).map(lambda a: a[()]))
keys = plain | st.tuples(st.integers(), texts)
trees = st.recursive(
    plain | arrays | scalars,
    lambda part: (
        st.lists(part, max_size=4)
        | st.lists(part, max_size=4).map(tuple)
        | st.dictionaries(keys, part, max_size=4)
    ),
    max_leaves=12,
)
results = st.builds(
    CachedResult,
    st.lists(st.lists(trees, max_size=3).map(tuple), max_size=3).map(tuple),
    st.none() | st.dictionaries(texts, st.lists(trees, max_size=2), max_size=2),
    st.floats(0, 1e6),
)


def one(value: Any) -> CachedResult:
    return CachedResult(((value,),))


def round_trip(value: Any) -> Any:
    return decode_result(entry(one(value), KEY), KEY).slots[0][0]


@settings(max_examples=150, deadline=None)
@given(results)
def test_what_goes_in_comes_out(result: CachedResult) -> None:
    assert same(decode_result(entry(result, KEY), KEY), result)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 100_000])
@pytest.mark.parametrize("letter", ["a", "€", "\ud800", "\x00"])
def test_texts_of_any_length_and_kind_come_back(letter: str, size: int) -> None:
    assert round_trip(letter * size) == letter * size


def test_numbers_that_json_does_not_know_come_back() -> None:
    big = [2**64, -(2**63) - 1, 10**5000, -(10**5000), 2**63, 2**64 - 1]
    assert round_trip(big) == big
    odd = [float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 1.7976931348623157e308]
    assert same(round_trip(odd), odd)


def test_an_array_in_any_layout_comes_back_in_plain_order() -> None:
    base = np.arange(60, dtype=">i2").reshape(3, 4, 5)
    for view in (
        base.T,
        base[::2, ::-1],
        np.asfortranarray(base),
        np.broadcast_to(base[0], (2, 4, 5)),
    ):
        found = round_trip(view)
        assert np.array_equal(found, view)
        assert found.dtype == view.dtype


def test_arrays_are_read_only_views_on_the_data() -> None:
    data = entry(image_result(), KEY)
    image = decode_result(data, KEY).slots[0][0]
    assert not image.flags.owndata
    assert np.shares_memory(image, np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        image[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        image.setflags(write=True)


def test_data_may_be_a_mapped_file_or_lie_anywhere(tmp_path: Path) -> None:
    data = entry(image_result(0.75), KEY)
    (tmp_path / "entry").write_bytes(data)
    with (tmp_path / "entry").open("r+b") as file:
        mapped = mmap(file.fileno(), 0)
    assert same(decode_result(mapped, KEY), image_result(0.75))
    for shift in (1, 2, 3):
        moved = memoryview(bytes(shift) + data)[shift:]
        found = decode_result(moved, KEY)
        assert found.slots[0][0].flags.aligned
        assert same(found, image_result(0.75))


def test_an_array_that_is_there_twice_is_stored_once_and_comes_back_shared() -> None:
    image = np.random.default_rng(1).random((64, 64, 3), np.float32)
    result = CachedResult(((image, image), ({"again": image[:]},)))
    data = entry(result, KEY)
    assert len(data) < 1.2 * image.nbytes
    found = decode_result(data, KEY)
    assert found.slots[0][0] is found.slots[0][1]
    assert found.slots[0][0] is found.slots[1][0]["again"]


def test_encoding_does_not_copy_arrays() -> None:
    image = image_result(size=64).slots[0][0]
    parts = encode_result(one(image), KEY)
    views = [part for part in parts if isinstance(part, memoryview)]
    assert len(views) == 1
    assert np.shares_memory(np.frombuffer(views[0], np.uint8), image)


def test_the_time_of_making_travels_along() -> None:
    assert created_at(entry(image_result(), KEY, Instant(1_234_567_890_123))) == 1_234_567_890_123


class Colour(IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Picture(np.ndarray):
    pass


def ring() -> list[Any]:
    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)
    return round_and_round


def many_from_few() -> list[Any]:
    few: list[Any] = []
    for _ in range(40):
        few = [few, few]
    return few


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        print,
        lambda: None,
        (number for number in range(3)),
        threading.Lock(),
        sys,
        {1, 2},
        1j,
        bytearray(b"a"),
        Colour.RED,
        Text("a"),
        OrderedDict(a=1),
        {Colour.RED: 1},
        {(1, Colour.RED): 1},
        np.array([object()]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
        np.zeros(3, "V5"),
        np.zeros(3).view(Picture),
        np.ma.masked_array([1, 2], [True, False]),
        np.str_("ends in a zero\0"),
        ring(),
        many_from_few(),
        deep(70),
        deep(100_000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_safe_form_is_not_storable(value: Any) -> None:
    with pytest.raises(NotStorable):
        encode_result(one(value), KEY)


def test_more_than_the_limit_is_not_storable_and_is_not_copied_first() -> None:
    huge = np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))
    with pytest.raises(NotStorable, match="more than"):
        encode_result(one(huge), KEY, max_bytes=1 << 20)


def test_every_flipped_bit_is_found() -> None:
    data = bytearray(entry(CachedResult(((np.arange(6), "text", b"raw", 3),), None, 0.5), KEY))
    for position in range(len(data)):
        for bit in (1, 128):
            data[position] ^= bit
            with pytest.raises(CorruptEntry):
                decode_result(bytes(data), KEY)
            data[position] ^= bit
    decode_result(bytes(data), KEY)


def test_every_truncation_and_any_tail_is_found() -> None:
    data = entry(CachedResult(((np.arange(6), "text"),)), KEY)
    for length in range(len(data)):
        with pytest.raises(CorruptEntry):
            decode_result(data[:length], KEY)
    for tail in (b"\0", data):
        with pytest.raises(CorruptEntry):
            decode_result(data + tail, KEY)


def test_an_entry_under_another_key_is_refused() -> None:
    with pytest.raises(CorruptEntry, match="another key"):
        decode_result(entry(image_result(), KEY), key_of("another"))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_quietly(data: bytes) -> None:
    with pytest.raises(CorruptEntry):
        decode_result(data, KEY)


@given(st.binary(max_size=200))
def test_any_header_with_a_good_checksum_is_refused_quietly(header: bytes) -> None:
    with pytest.raises(CorruptEntry):
        decode_result(forge(header), KEY)


BLOB = ["blob", 0]


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"a": 1}),
        b"\x93NUMPY\x01\x00",
        b"PK\x03\x04",
        forge(header_of(1), total=1 << 60),
        forge(b"[" * 100_000),
        forge(header_of(BLOB, ["numpy", "<f4", [1 << 58], 0, 1 << 60])),
        forge(header_of(BLOB, ["numpy", "<f4", [1 << 58], 0, 4]), b"abcd"),
        forge(header_of(BLOB, ["numpy", "<f4", [-1], 0, 4]), b"abcd"),
        forge(header_of(BLOB, ["numpy", "<f4", [-1, -1], 0, 4]), b"abcd"),
        forge(header_of(BLOB, ["numpy", "<f4", [0, 1 << 70], 0, 0])),
        forge(header_of(BLOB, ["numpy", "<f4", [1] * 100, 0, 4]), b"abcd"),
        forge(header_of(BLOB, ["numpy", "|O", [1], 0, 8]), bytes(8)),
        forge(header_of(BLOB, ["numpy", "object", [1], 0, 8]), bytes(8)),
        forge(header_of(BLOB, ["numpy", "<f3", [1], 0, 3]), bytes(3)),
        forge(header_of(BLOB, ["numpy", "i4,O", [1], 0, 12]), bytes(12)),
        forge(header_of(BLOB, ["numpy", "|S999999999", [1], 0, 12]), bytes(12)),
        forge(header_of(BLOB, ["numpy", "<f4", [1], -64, 4]), bytes(128)),
        forge(header_of(BLOB, ["numpy", "<f4", [1], 4, 4]), bytes(128)),
        forge(header_of(BLOB, ["numpy", "<f4", [1], 128, 4]), bytes(128)),
        forge(header_of(BLOB, ["numpy", "<f4", [], 128, -128]), bytes(128)),
        forge(header_of(BLOB, ["numpy", "<f4", [True], 0, 4]), bytes(4)),
        forge(header_of(BLOB, ["pickle", "", [], 0, 4]), b"abcd"),
        forge(header_of(BLOB, ["text", "", [], 0, 2]), b"\xff\xff"),
        forge(header_of(BLOB, ["torch", "load", [1], 0, 4]), b"abcd"),
        forge(header_of(BLOB)),
        forge(header_of(["blob", -1], ["bytes", "", [], 0, 0])),
        forge(header_of(["blob", True], ["bytes", "", [], 0, 0])),
        forge(header_of(["blob", 0, 0], ["bytes", "", [], 0, 0])),
        forge(header_of({"a": 1})),
        forge(header_of([])),
        forge(header_of([["list"]])),
        forge(header_of(["set", 1])),
        forge(header_of(["map", 1])),
        forge(header_of(["map", ["list"], 1])),
        forge(header_of(["map", 1, 2, 1, 3])),
        forge(header_of(["int", "__import__('os')"])),
        forge(header_of(["float", "00"])),
        forge(header_of(["float", "no hex"])),
        forge({**header_of(1), "more": 1}),
        forge({"key": "", "values": [["list"], None, 0.0, ["map"]], "blobs": []}),
        forge({"key": "", "values": [["tuple", 1], None, 0.0, ["map"]], "blobs": []}),
        forge({"key": "", "values": [["tuple"], "ui", 0.0, ["map"]], "blobs": []}),
        forge({"key": "", "values": [["tuple"], None, "long", ["map"]], "blobs": []}),
        forge({"key": "", "values": [["tuple"], None, 0.0, ["list"]], "blobs": []}),
        forge({"key": "", "values": [["tuple"], None, 0.0], "blobs": []}),
    ],
)
def test_poison_is_refused_though_its_checksum_is_right(data: bytes) -> None:
    with pytest.raises(CorruptEntry):
        decode_result(data)


def test_a_forged_entry_that_keeps_to_the_rules_can_be_read() -> None:
    data = forge(header_of(BLOB, ["numpy", "<f4", [1], 0, 4]), bytes(4))
    assert decode_result(data).slots[0][0] == np.zeros(1, np.float32)


def test_a_tensor_cannot_be_read_where_torch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    data = forge(header_of(BLOB, ["torch", "float32", [1], 0, 4]), bytes(4))
    with pytest.raises(UnreadableHere):
        decode_result(data)
