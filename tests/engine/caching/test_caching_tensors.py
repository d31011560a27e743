"""Tensors in the cache; where torch is installed."""

import sys
from typing import Any

import pytest

from comfyrail.engine.caching import CachedResult, measure_bytes
from comfyrail.engine.caching.codec import decode_result, encode_result
from comfyrail.engine.caching.faults import CorruptEntry, NotStorable
from tests.engine.caching.cache_parts import entry, forge, header_of, key_of

torch = pytest.importorskip("torch", reason="torch is not installed")

KEY = key_of("tensors")
DTYPES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 \
complex64 complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"


def round_trip(value: Any) -> Any:
    return decode_result(entry(CachedResult(((value,),)), KEY), KEY).slots[0][0]


def raw(tensor: Any) -> bytes:
    if not tensor.numel():
        return b""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


@pytest.mark.parametrize("shape", [(), (3, 4), (0, 5), (1, 2, 3, 4)])
@pytest.mark.parametrize("name", DTYPES.split())
def test_tensors_of_every_dtype_come_back(name: str, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape).to(getattr(torch, name))
    found = round_trip(tensor)
    assert type(found) is torch.Tensor
    assert (found.dtype, found.shape, raw(found)) == (tensor.dtype, tensor.shape, raw(tensor))


def test_a_tensor_that_came_back_can_be_written_to() -> None:
    data = entry(CachedResult(((torch.zeros(4),),)), KEY)
    found = decode_result(data, KEY).slots[0][0]
    found += 1
    assert found.tolist() == [1, 1, 1, 1]
    assert decode_result(data, KEY).slots[0][0].tolist() == [0, 0, 0, 0]


def test_layouts_come_back_in_plain_order() -> None:
    base = torch.arange(24).reshape(2, 3, 4)
    conjugated = torch.complex(torch.ones(3), torch.ones(3)).conj()
    for view in (base.permute(2, 0, 1), base[:, ::2], base[0].expand(5, 3, 4)):
        assert torch.equal(round_trip(view), view)
    assert torch.equal(round_trip(conjugated), conjugated.resolve_conj())


def test_a_tensor_that_is_there_twice_is_stored_once_and_comes_back_shared() -> None:
    tensor = torch.rand(64, 64)
    result = CachedResult(((tensor, {"samples": tensor}),))
    data = entry(result, KEY)
    assert len(data) < 1.2 * tensor.nbytes
    found = decode_result(data, KEY)
    assert found.slots[0][0] is found.slots[0][1]["samples"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Parameter(torch.zeros(2)),
        lambda: torch.zeros(2, requires_grad=True),
        lambda: torch.zeros(2, 2).to_sparse(),
        lambda: torch.zeros(2, device="meta"),
        lambda: torch.nn.Linear(2, 2),
        lambda: torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
        lambda: torch.float32,
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_more_than_elements_are_not_storable(make: Any) -> None:
    with pytest.raises(NotStorable):
        encode_result(CachedResult(((make(),),)), KEY)


def test_false_extents_are_refused() -> None:
    for shape, size in (([5], 4), ([-1], 4), ([1 << 60], 4), ([0, 1 << 70], 0)):
        blob = ["torch", "float32", shape, 0, size]
        with pytest.raises(CorruptEntry):
            decode_result(forge(header_of(["blob", 0], blob), bytes(size)))


def test_tensors_count_and_count_once() -> None:
    tensor = torch.zeros(1000)
    assert 4000 < measure_bytes([tensor, (tensor,), {"a": tensor}]) < 5000


def test_torch_is_loaded_here() -> None:
    assert "torch" in sys.modules
