"""The global random generators of torch, Python and NumPy: exchanged for those of another stream, and back, quickly.

A loop over `accelerator.shard(generator)` draws its elements from one stream and what is drawn in it from another, so
the states change places twice in each round. To read Python's takes 20 us, to read or write NumPy's 60: one from
which nobody has drawn since it was set is not read again, as a look at its memory shows, and NumPy's is written there.
"""

from __future__ import annotations

import ctypes
import random
import struct
from dataclasses import dataclass
from typing import Any  # the states of three libraries, each of its own kind

import numpy
import torch

from accelify.runtime.data.random_state import LIBRARIES, device_state, set_device_state, set_global_state

_WORDS = 624  # of a Mersenne Twister


@dataclass(frozen=True, slots=True)
class _Put:
    """A state as it was set, and how its generator's memory looked then."""

    state: Any
    look: Any


class GlobalGenerators:
    """The generators of this process."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._python = _memory_of_python()
        self._put: dict[str, _Put] = {}

    def exchange(self, states: dict[str, Any]) -> dict[str, Any]:
        """Set these states, and return those that were there under the same names."""
        before = {name: self._read(name) for name in states}
        for name, state in states.items():
            self._write(name, state)
        return before

    def _read(self, name: str) -> Any:
        put = self._put.get(name)
        if put is not None and put.look is not None and put.look == self._look(name):
            return put.state
        return LIBRARIES[name]() if name in LIBRARIES else device_state(self._device)[name]

    def _write(self, name: str, state: Any) -> None:
        if name not in LIBRARIES:
            set_device_state({name: state}, self._device)
        elif name != "numpy" or not _write_numpy(state):
            set_global_state({name: state})
        self._put[name] = _Put(state, self._look(name) if name != "numpy" or _is_usual(state) else None)

    def _look(self, name: str) -> Any:
        """A value that changes with each draw; None where there is none."""
        if name == "python" and self._python is not None:
            return ctypes.string_at(*self._python), vars(random._inst).get("gauss_next")
        if name == "numpy" and (memory := _memory_of_numpy()) is not None:
            return ctypes.string_at(*memory)
        return None


def _memory_of_python() -> tuple[int, int] | None:
    """Where Python's generator has its state, and how many bytes; None where it does not lie as in CPython."""
    index_and_words = struct.Struct(f"i{_WORDS}I")
    generator = random._inst
    if type(generator) is not random.Random:
        return None
    start = id(generator) + object.__basicsize__
    if random.Random.__basicsize__ < object.__basicsize__ + index_and_words.size:
        return None
    index, *words = index_and_words.unpack(ctypes.string_at(start, index_and_words.size))
    return (start, index_and_words.size) if (*words, index) == generator.getstate()[1] else None


def _memory_of_numpy() -> tuple[int, int] | None:
    """Where NumPy's global generator has its words and, after them, its position."""
    generator = numpy.random.get_bit_generator() if hasattr(numpy.random, "get_bit_generator") else None
    if type(generator) is not numpy.random.MT19937:
        return None
    return generator.ctypes.state_address, 4 * (_WORDS + 1)


def _is_usual(state: Any) -> bool:
    """Whether a state of NumPy's is of the usual kind, and holds no second Gaussian, which cannot be seen from here."""
    return isinstance(state, tuple) and state[0] == "MT19937" and not state[3]


def _write_numpy(state: Any) -> bool:
    """Write the state into the generator's memory, where that can be."""
    memory = _memory_of_numpy()
    if memory is None or not _is_usual(state):
        return False
    words = numpy.ascontiguousarray(state[1], dtype=numpy.uint32).tobytes() + struct.pack("i", state[2])
    ctypes.memmove(memory[0], words, memory[1])
    # Which also forgets the second Gaussian of a pair that was drawn from the other stream.
    numpy.random.set_bit_generator(numpy.random.get_bit_generator())  # type: ignore[attr-defined]  # not exported
    return True
