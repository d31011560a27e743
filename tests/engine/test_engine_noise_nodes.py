"""Random numbers, kernels and the arithmetic under them, bit for bit as torch 2.13 gives them."""

import hashlib
from typing import Any

import numpy as np
import pytest

from comfyrail.engine.blurring import _square_kernel
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.context import NodeContext
from comfyrail.engine.normal_noise import normal_noise
from comfyrail.engine.torch_arithmetic import (
    exponentials,
    steps_from_minus_one_to_one,
    sum_of_all,
)


class Interruptible:
    def __init__(self) -> None:
        self.checks = 0

    def check_interrupt(self) -> None:
        self.checks += 1


def digest(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("seed", "count", "expected"),
    [
        # Fewer than sixteen are made one by one.
        (0, 3, "1f113a802685b952"),
        (5, 16, "f7a0c6f8193b0c2e"),
        # The last sixteen are made anew where the number is no multiple of it.
        (5, 20, "3b7059477101d10c"),
        (123, 100_003, "e23d6da9556861b4"),
        (2**64 - 1, 1 << 21, "4eafcca2d53157c6"),
    ],
)
def test_a_seed_gives_the_numbers_of_torch(seed: int, count: int, expected: str) -> None:
    assert digest(normal_noise((count,), seed)) == expected


def test_noise_has_the_shape_that_is_asked_for() -> None:
    noise = normal_noise((2, 3, 4, 3), 5)
    assert np.array_equal(noise.ravel(), normal_noise((72,), 5))
    assert noise.dtype == np.float32
    assert normal_noise((0, 4), 5).shape == (0, 4)


def add_noise(image: Any, seed: int, strength: float) -> Any:
    context: NodeContext = Interruptible()  # type: ignore[assignment]
    function = builtin_registry()["ImageAddNoise"].function
    return function(image=image, seed=seed, strength=strength, context=context)


def test_noise_is_added_and_kept_within_range() -> None:
    grey = np.full((2, 8, 8, 3), 0.5, np.float32)
    noisy = add_noise(grey, 7, 0.1)
    assert np.array_equal(
        noisy, np.clip(grey + normal_noise(grey.shape, 7) * np.float32(0.1), 0, 1)
    )
    assert not np.array_equal(noisy[0], noisy[1])
    loud = add_noise(grey, 7, 1.0)
    assert (loud.min(), loud.max()) == (0, 1)
    assert np.array_equal(add_noise(grey, 7, 0.0), grey)


def test_noise_of_no_strength_at_all_is_not_hidden() -> None:
    assert np.isnan(add_noise(np.zeros((1, 4, 4, 3), np.float32), 0, float("nan"))).all()


def test_long_noise_can_be_interrupted() -> None:
    context = Interruptible()
    normal_noise((1 << 22,), 1, context.check_interrupt)
    assert context.checks == 4


def test_steps_are_counted_from_both_ends() -> None:
    steps = [steps_from_minus_one_to_one(count) for count in range(3, 64, 2)]
    assert digest(np.concatenate(steps)) == "423bde585eb259e7"
    # Not quite zero: three steps of a third, rounded up, go past the middle.
    assert steps[2][3] == np.float32(-2.9802322e-08)


def test_exponentials_and_sums_are_torchs() -> None:
    values = -(np.arange(100_000, dtype=np.float32) / np.float32(1153))
    assert digest(exponentials(values)) == "990b4faee1927c91"
    thirds = np.arange(1, 4000, dtype=np.float32) / np.float32(3)
    sums = [float(sum_of_all(thirds[:count])) for count in (1, 9, 49, 529, 625, 3969)]
    assert sums == [
        0.3333333432674408,
        15.0,
        408.3333435058594,
        46728.3359375,
        65208.33203125,
        2626155.0,
    ]


@pytest.mark.parametrize(
    ("radius", "expected"),
    [(1, "f7b99df6154ebed1"), (2, "fddea75963c60487"), (4, "00f8355e728c501b")],
)
def test_kernels_are_torchs(radius: int, expected: str) -> None:
    kernels = [_square_kernel(radius, tenths / 10).ravel() for tenths in range(1, 101)]
    assert digest(np.concatenate(kernels)) == expected


@pytest.mark.parametrize("radius", [1, 3, 6, 10, 11, 31])
def test_a_kernel_adds_up_to_one(radius: int) -> None:
    assert abs(float(_square_kernel(radius, 1.0).sum(dtype=np.float64)) - 1) < 1e-6
