"""What two runs wrote into files of one name."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy
import pytest

from accelify.verify.judging import contents
from accelify.verify.trace import Backward, Run, Write
from accelify.verify.verdict import Status
from tests.verify.test_judge import evidence, own_value, traced


def array(*values: float) -> bytes:
    file = io.BytesIO()
    numpy.save(file, numpy.array(values))
    return file.getvalue()


def image(*values: int) -> bytes:
    pillow = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    pillow.fromarray(numpy.array([values], "uint8")).save(file, "PNG")
    return file.getvalue()


def compared(
    name: str, theirs: bytes, ours: bytes, again: bytes | None = None, write: Write | None = None, **more: object
) -> tuple[Status, str]:
    original = traced(backwards=[Backward(1.0, "float64")])
    found = evidence(original, traced(writes=[write] if write else []), traced(1), **more)
    runs = [Run("run", found.many.ranks, contents={name: content}) for content in (theirs, ours)]
    repeated = None if again is None else replace(runs[0], contents={name: again})
    row = contents.contents(replace(found, baseline=runs[0], original=runs[0], many=runs[1], again=repeated))
    return row.status, row.words


DIFFERENCES = {
    "a.csv": (b"epoch,loss\n0,0.5\n", b"epoch,loss\n0,0.25\n", "line 2 has 0.25 for 0.5 (half the original's)"),
    "a.json": (b'{"a": 1, "b": [2]}', b'{"a": 1, "b": [3]}', "line 4 has 3 for 2"),
    "a.txt": (b"one\n", b"one\ntwo\n", "2 lines for 1"),
    "a.npy": (array(1.0, 2.0), array(1.0, 3.0), "values differ by 0.5 of their size"),
    "b.npy": (array(1.0, 2.0), array(1.0), "float64[1] for float64[2]"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_files_that_differ(name: str) -> None:
    theirs, ours, words = DIFFERENCES[name]
    found = compared(name, theirs, ours, theirs)
    assert found[0] is Status.DIFFERS
    assert words in found[1]
    assert compared(name, theirs, theirs)[0] is Status.HOLDS


def test_numbers_within_the_tolerance_and_what_differs_from_run_to_run_are_the_same() -> None:
    assert compared("a.npy", array(1.0, 2.0), array(1.0, 2.0 + 1e-12))[0] is Status.HOLDS
    assert compared("a.txt", b"0.123456 at 12:30:01\n", b"0.123457 at 12:31:00\n")[0] is Status.HOLDS
    assert compared("a.txt", b"at 173 0.5\n", b"at 175 0.5\n", b"at 174 0.5\n")[0] is Status.HOLDS
    assert compared("a.txt", b"at 173 0.5\n", b"at 175 0.2\n", b"at 174 0.5\n")[0] is Status.DIFFERS


def test_images_are_compared_by_their_pixels() -> None:
    assert compared("a.png", image(7, 100), image(7, 101))[0] is Status.HOLDS
    assert compared("a.png", image(7, 100), image(7, 103))[1] == "a.png: 3 of 8 values are not the original's"
    assert "not compared" in compared("a.png", image(7, 100), b"\x89PNG\0")[1]


def test_what_cannot_be_told_is_said() -> None:
    found = compared("a.pkl", b"\0a", b"\0b")
    assert found == (Status.NOTHING, "no file to compare was written; not compared: a.pkl")


def test_a_note_excuses_only_the_files_of_its_function() -> None:
    for line, status in ((4, Status.NATURE), (40, Status.DIFFERS)):
        write = Write("a.txt", at=f"train.py:{line}")
        own = (own_value("train.py:3"),)
        assert compared("a.txt", b"0.5", b"0.2", b"0.5", write=write, own_values=own)[0] is status
