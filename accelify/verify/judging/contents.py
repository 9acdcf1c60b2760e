"""Do the files that were written hold the same: text, CSV and JSON by number, arrays by value, images by pixel?"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar  # numpy is imported where an array is read

from accelify.verify import compare
from accelify.verify.judging.evidence import Evidence, note_on_file, why_by_nature
from accelify.verify.judging.rounding import MARGIN, of_texts
from accelify.verify.judging.words import DIFFERS, HOLDS, NATURE, NOTHING, counted, make_row, masked, share
from accelify.verify.trace import Run
from accelify.verify.verdict import Row

ARRAYS = (".npy", ".npz")
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")  # their tensors are compared elsewhere
# By how many of 255 levels a pixel may be off that shows a number within the tolerance; JPEG spreads it over others.
LEVELS = {".png": 1, ".bmp": 1, ".gif": 1, ".tif": 1, ".tiff": 1, ".jpg": 8, ".jpeg": 8}
Arrays = dict[str, Any]
Read = TypeVar("Read")
_ZIP = b"PK\x03\x04"


def contents_of_one(evidence: Evidence) -> Row:
    """The contents of each file, the same in one process except for times."""
    return _row(evidence.original, evidence.one, evidence, 0.0)


def contents(evidence: Evidence) -> Row:
    """The contents of each file, equal within the tolerance."""
    row = _row(evidence.baseline, evidence.many, evidence, compare.tolerance(evidence.dtype), evidence.perturbed)
    if row.status is not DIFFERS:
        return row
    nature = why_by_nature(evidence)
    if nature:
        return make_row("contents", evidence.many, NATURE, f"{nature}; {row.words}", row.at)
    if note := note_on_file(evidence, row.at):
        return make_row("contents", evidence.many, NATURE, f"{row.words}, as the rewrite says: {note}", row.at)
    return row


@dataclass(frozen=True, slots=True)
class Known:
    """What a file of the original holds, holds in a second run, and in runs that are perturbed by rounding."""

    content: bytes
    again: bytes
    perturbed: tuple[bytes, ...] = ()

    def read(self, read: Callable[[bytes], Read]) -> tuple[Read, Read, list[Read]]:
        """Each as a reader gives it."""
        return read(self.content), read(self.again), [read(each) for each in self.perturbed]


def _row(theirs: Run, ours: Run, evidence: Evidence, relative: float, perturbed: Sequence[Run] = ()) -> Row:
    wanted, found = _by_name(theirs), _by_name(ours)
    again = _by_name(evidence.again) if evidence.again is not None else {}
    moved = [_by_name(run) for run in perturbed]
    compared, left = 0, []
    for key, (name, content) in wanted.items():
        if key not in found or name.endswith(CHECKPOINTS):
            continue  # that a file is missing is said elsewhere
        others = tuple(names[key][1] for names in moved if key in names)
        known = Known(content, again.get(key, (name, content))[1], others)
        problem = _differ(name, found[key][1], known, relative)
        if problem:
            at = next((write.at for write in ours.ranks[0].writes if write.path == found[key][0]), None)
            return make_row("contents", ours, DIFFERS, f"{name}: {problem}", at)
        left += [name] if problem is None else []
        compared += problem is not None
    rest = f"; not compared: {', '.join(left)}" if left else ""
    if not compared:
        return make_row("contents", ours, NOTHING, f"no file to compare was written{rest}")
    how = "numbers within the tolerance" if relative else "the same but for times"
    return make_row("contents", ours, HOLDS, f"{counted(compared, 'file')}, {how}{rest}")


def _by_name(run: Run) -> dict[tuple[str, int], tuple[str, bytes]]:
    """Contents by name, digits masked (dates, steps), and which of that name they are."""
    found: dict[tuple[str, int], tuple[str, bytes]] = {}
    counts: dict[str, int] = {}
    for name, content in sorted(run.contents.items()):
        number = counts.setdefault(masked(name), 0)
        counts[masked(name)] += 1
        found[masked(name), number] = name, content
    return found


def _differ(name: str, ours: bytes, known: Known, relative: float) -> str | None:
    """How the contents of two files differ, nothing where they do not; None where that is not known."""
    if ours == known.content:
        return ""
    levels = LEVELS.get(Path(name).suffix.lower())
    if name.endswith(ARRAYS) or levels is not None:
        read = _arrays if levels is None else _pixels
        try:
            mine, (other, repeated, moved) = dict(read(ours)), known.read(lambda content: dict(read(content)))
        except (ImportError, OSError, ValueError):  # no Pillow, an array of Python objects, or half a file
            return None
        allowed = levels if relative and levels else 0
        return _arrays_differ(mine, other, repeated, moved, relative, allowed)
    if any(_as_text(content) is None for content in (ours, known.content, known.again, *known.perturbed)):
        return None
    spread = name.endswith(".json")
    return _texts_differ(_lines(ours, spread), *known.read(lambda content: _lines(content, spread)), relative)


def _lines(content: bytes, spread: bool) -> list[str]:
    text = _as_text(content) or ""
    return (_spread(text) if spread else text).splitlines()


def _texts_differ(
    ours: list[str], theirs: list[str], again: list[str], perturbed: Sequence[list[str]], relative: float
) -> str:
    is_repeated = len(again) == len(theirs)
    others = [lines for lines in perturbed if len(lines) == len(theirs)]
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        unstable = compare.unstable_numbers(other, again[number]) if is_repeated else None
        moved = of_texts([other, *(lines[number] for lines in others)])
        found = compare.numbers_differ(mine, other, relative, unstable, moved)
        if found is not None:
            return f"line {number + 1} has {found[0][:80]} for {found[1][:80]}{compare.in_numbers(found)}"
    if len(ours) != len(theirs) and is_repeated:
        return f"{counted(len(ours), 'line')} for {len(theirs)}"
    return ""


def _as_text(content: bytes) -> str | None:
    try:
        return content.decode("utf-8") if b"\0" not in content else None
    except UnicodeDecodeError:
        return None


def _spread(text: str) -> str:
    """JSON with a line for each value, each after its key; other text as it is."""
    try:
        return json.dumps(json.loads(text), indent=0)
    except ValueError:
        return text


def _arrays_differ(
    mine: Arrays, other: Arrays, repeated: Arrays, perturbed: Sequence[Arrays], relative: float, levels: int
) -> str:
    """How arrays differ; `levels`: by how much whole numbers may."""
    if mine.keys() != other.keys():
        return f"has {', '.join(mine)} for {', '.join(other)}"
    for key, theirs_array in other.items():
        front = f"{key}: " if key else ""
        a, b = mine[key], theirs_array
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            return f"{front}{a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
        if (a == b).all() or (b != repeated[key]).any():
            continue
        rounding = MARGIN * max((_furthest(arrays[key], b) for arrays in perturbed if key in arrays), default=0.0)
        if levels and _furthest(a, b) <= levels + rounding:
            continue
        if b.dtype.kind not in "fc" or not relative:
            return f"{front}{int((a != b).sum())} of {b.size} values are not the original's"
        apart, size = float(abs(a - b).max()), float(abs(b).max())
        if not apart <= relative * size + rounding:
            return f"{front}values differ by {share(apart, size)} of their size"
    return ""


def _furthest(one: Any, other: Any) -> float:
    """By how much two arrays of numbers are apart at most; 0 for what is not of one shape."""
    if one.shape != other.shape or one.dtype.kind not in "iufc" or not one.size:
        return 0.0
    apart = float(abs(one.astype(complex) - other).max())
    return apart if math.isfinite(apart) else 0.0


def _pixels(content: bytes) -> Iterator[tuple[str, Any]]:
    import numpy
    from PIL import Image  # not a dependency: where it is absent, images are not compared

    with Image.open(io.BytesIO(content)) as image:
        yield "", numpy.asarray(image.convert("RGBA"))


def _arrays(content: bytes) -> Iterator[tuple[str, Any]]:
    import numpy

    if not content.startswith(_ZIP):
        yield "", numpy.load(io.BytesIO(content), allow_pickle=False)
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(archive.namelist()):
            yield name.removesuffix(".npy"), numpy.load(io.BytesIO(archive.read(name)), allow_pickle=False)
