"""Arrays and tensors as raw bytes, and back.

Only dtypes whose bytes are the value are stored: no Python objects, no structures, no subclasses
of an array or a tensor.
"""

import importlib
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from comfyrail.engine.caching.faults import CorruptEntry, NotStorable, UnreadableHere

NUMPY_KINDS = "biufcSUmM"
NUMPY_DTYPE = re.compile(r"[<>|=][biufcSUmM][1-9][0-9]{0,8}(\[[0-9]{0,9}[a-zA-Z]{1,7}\])?")
TORCH_DTYPES = frozenset(
    {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
    | {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
    | {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
)


def numpy_dtype_name(dtype: np.dtype[Any]) -> str:
    """The name under which the dtype is stored; raises NotStorable where there is none."""
    if dtype.kind not in NUMPY_KINDS or not NUMPY_DTYPE.fullmatch(dtype.str):
        raise NotStorable(f"an array of dtype {dtype}")
    if np.dtype(dtype.str) != dtype:  # an extension type that borrows a plain name
        raise NotStorable(f"an array of dtype {dtype}")
    return dtype.str


def numpy_identity(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Equal for two arrays that show the same memory in the same way, while both are alive."""
    return ("numpy", array.ctypes.data, array.dtype.str, array.shape, array.strides)


def numpy_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """The elements in C order: a view where they lie so already, else a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def read_numpy(data: memoryview, dtype_name: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """A read-only array over the bytes, copied only where they lie badly for the processor."""
    if not NUMPY_DTYPE.fullmatch(dtype_name):
        raise CorruptEntry(f"no dtype is called {dtype_name!r}")
    dtype = np.dtype(dtype_name)
    _check_extent(data, shape, dtype.itemsize)
    array: np.ndarray[Any, Any] = np.ndarray(tuple(shape), dtype, data)
    if not array.flags.aligned:
        array = array.copy()
    array.setflags(write=False)
    return array


def torch_dtype_name(tensor: Any) -> str:
    """The name under which the dtype is stored.

    Raises NotStorable for tensors that are more than their elements: sparse, quantized, on the
    meta device, or with a gradient.
    """
    name = str(tensor.dtype).removeprefix("torch.")
    torch = sys.modules["torch"]
    plain = tensor.layout is torch.strided and tensor.device.type != "meta"
    if not plain or name not in TORCH_DTYPES or tensor.requires_grad or tensor.is_nested:
        raise NotStorable(f"a tensor of dtype {name}, {tensor.layout}, on {tensor.device}")
    return name


def torch_identity(tensor: Any) -> tuple[Any, ...]:
    flags = (tensor.is_conj(), tensor.is_neg(), tensor.device)
    layout = (tensor.dtype, tuple(tensor.shape), tensor.stride())
    return ("torch", tensor.data_ptr(), *layout, *flags)


def torch_bytes(tensor: Any) -> memoryview:
    """The elements in C order, fetched to the CPU where they are elsewhere."""
    torch = sys.modules["torch"]
    plain = tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    array: np.ndarray[Any, Any] = plain.reshape(-1).view(torch.uint8).numpy()
    return array.data


def read_torch(data: memoryview, dtype_name: str, shape: Sequence[int]) -> Any:
    """A tensor on the CPU with memory of its own: one over read-only memory could be written to.

    Raises UnreadableHere where torch, or the dtype in this torch, is missing.
    """
    if dtype_name not in TORCH_DTYPES:
        raise CorruptEntry(f"no dtype is called {dtype_name!r}")
    torch = _import_torch()
    dtype = getattr(torch, dtype_name, None)
    if dtype is None:
        raise UnreadableHere(f"this torch has no {dtype_name}")
    _check_extent(data, shape, dtype.itemsize)
    if not len(data):
        return torch.empty(tuple(shape), dtype=dtype)
    own = np.frombuffer(data, np.uint8).copy()
    return torch.from_numpy(own).view(dtype).reshape(tuple(shape))


def _import_torch() -> Any:
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError, RuntimeError) as error:
        raise UnreadableHere("it holds tensors, and torch cannot be imported") from error


def _check_extent(data: memoryview, shape: Sequence[int], item_size: int) -> None:
    if any(length < 0 for length in shape) or math.prod(shape) * item_size != len(data):
        raise CorruptEntry(f"{len(data)} bytes do not make the shape {list(shape)}")
