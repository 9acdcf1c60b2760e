"""Numbers of two runs side by side."""

from __future__ import annotations

import math

import pytest

from accelify.verify import compare

PRODUCTS = (3.0, -1.0, 2.0, 5.0)


def sketch(factor: float) -> compare.Sketch:
    return (abs(factor) * 4.0, *(factor * product for product in PRODUCTS))


def test_the_tolerance_follows_from_the_dtype() -> None:
    assert compare.tolerance("float32") == pytest.approx(3.45e-4, rel=0.01)
    assert compare.tolerance("float64") == pytest.approx(1.49e-8, rel=0.01)
    assert compare.tolerance("bfloat16") > compare.tolerance("float16") > compare.tolerance("float32")


def test_a_tensor_that_is_a_multiple_of_another_is_known_as_such() -> None:
    assert compare.ratio(sketch(0.5), sketch(1)) == pytest.approx(0.5)
    assert compare.in_words(0.5) == "half"
    assert compare.in_words(2.004) == "twice"
    assert compare.in_words(0.31) == "0.31 of"
    assert compare.ratio((4.0, 3.0, 1.0, 2.0, 5.0), sketch(1)) is None
    assert compare.ratio(sketch(1), sketch(0)) is None


def test_equal_tensors_are_at_no_distance() -> None:
    assert compare.distance(sketch(1), sketch(1)) == 0.0
    assert compare.distance(sketch(2), sketch(1)) == pytest.approx(math.sqrt(39 / 4))


def test_numbers_that_are_none_are_equal_only_to_themselves() -> None:
    nan = float("nan")
    assert compare.same_bits(nan, nan)
    assert compare.is_close(nan, nan, 0.0)
    assert not compare.is_close(nan, 1.0, 10.0)
    assert not compare.is_close(float("inf"), -float("inf"), 10.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("epoch 1: 12 of 20 (3.2 s)", "epoch 1: 12 of 20 (4.8 s)"),
        ("accuracy 0.9501", "accuracy 0.9502"),
        ("100%| 20/20 [00:03<00:00]", "100%| 20/20 [00:12<00:01]"),
        ("loss nan", "loss nan"),
        ("elapsed: 12.5", "elapsed: 14.1"),
        ("Step: 2s345ms | Tot: 1m2s", "Step: 3s12ms | Tot: 59s"),
    ],
)
def test_lines_that_say_the_same(one: str, other: str) -> None:
    assert compare.numbers_differ(one, other, 0.0) is None


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("12 of 20 are right", "11 of 20 are right", ("12", "11")),
        ("accuracy 0.9501", "accuracy 0.9523", ("0.9501", "0.9523")),
        ("accuracy nan", "accuracy 0.5", ("nan", "0.5")),
        ("test loss 1", "train loss 1", ("test loss 1", "train loss 1")),
    ],
)
def test_lines_that_do_not(one: str, other: str, found: tuple[str, str]) -> None:
    assert compare.numbers_differ(one, other, 0.0) == found
