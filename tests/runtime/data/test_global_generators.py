"""Exchanging the global generators' states is the same as reading and setting them, whatever was drawn meanwhile."""

from __future__ import annotations

import random

import numpy
import pytest
import torch

from accelify.runtime.data.global_generators import GlobalGenerators
from accelify.runtime.data.random_state import global_state, is_same, set_global_state

DRAWS = {
    "nothing": lambda: None,
    "python": lambda: random.random(),
    "one Gaussian": lambda: random.gauss(0, 1),  # of two, the second of which is kept
    "numpy": lambda: numpy.random.rand(),
    "one of numpy's Gaussians": lambda: numpy.random.randn(),
    "a permutation": lambda: numpy.random.permutation(700).sum(),
    "torch": lambda: torch.rand(1).item(),
    "python's seed": lambda: random.seed(5),
    "numpy's seed": lambda: numpy.random.seed(5),
    "another's state": lambda: numpy.random.set_state(("MT19937", numpy.arange(624), 3, 1, 0.5)),
}


def read_and_set(states):
    before = global_state(states)
    set_global_state(states)
    return before


def drawn(exchange):
    """What two streams draw in turns, and where they end."""
    for library in (random.seed, numpy.random.seed, torch.manual_seed):
        library(1)
    other, numbers, chance = global_state(), [], random.Random(3)
    for _ in range(400):
        numbers.append(DRAWS[chance.choice([*DRAWS])]())
        if chance.random() < 0.7:
            other = exchange(other)
    return numbers, other, global_state()


@pytest.mark.parametrize("is_seen", [True, False])
def test_streams_in_turns(is_seen, monkeypatch):
    generators = GlobalGenerators(torch.device("cpu"))
    if not is_seen:  # as on another interpreter, and with an older NumPy
        generators._python = None
        monkeypatch.setattr("accelify.runtime.data.global_generators._memory_of_numpy", lambda: None)
    before = global_state()
    numbers, other, now = drawn(generators.exchange)
    expected, wanted_other, wanted_now = drawn(read_and_set)
    set_global_state(before)
    assert numbers == expected
    for name in now:
        assert is_same(now[name], wanted_now[name]), name
        assert is_same(other[name], wanted_other[name]), name


def test_a_generator_of_another_kind_is_read_and_set(monkeypatch):
    if not hasattr(numpy.random, "set_bit_generator"):
        pytest.skip("needs NumPy 1.24")
    usual = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(numpy.random.PCG64(1))
    try:
        generators = GlobalGenerators(torch.device("cpu"))
        before = {"numpy": numpy.random.get_state(legacy=False)}
        first = numpy.random.rand()
        there = generators.exchange(before)
        assert numpy.random.rand() == first
        assert numpy.random.rand() != first
        generators.exchange(there)
    finally:
        numpy.random.set_bit_generator(usual)
