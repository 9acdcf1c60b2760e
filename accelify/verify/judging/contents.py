"""Do the files that were written hold the same: text, CSV and JSON by number, arrays by value, images by pixel?"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # numpy is imported where an array is read

from accelify.verify import compare
from accelify.verify.judging.evidence import Evidence, note_on_file, why_by_nature
from accelify.verify.judging.words import DIFFERS, HOLDS, NATURE, NOTHING, counted, make_row, masked, share
from accelify.verify.trace import Run
from accelify.verify.verdict import Row

ARRAYS = (".npy", ".npz")
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")  # their tensors are compared elsewhere
# By how many of 255 levels a pixel may be off that shows a number within the tolerance; JPEG spreads it over others.
LEVELS = {".png": 1, ".bmp": 1, ".gif": 1, ".tif": 1, ".tiff": 1, ".jpg": 8, ".jpeg": 8}
_ZIP = b"PK\x03\x04"


def contents_of_one(evidence: Evidence) -> Row:
    """The contents of each file, the same in one process except for times."""
    return _row(evidence.original, evidence.one, evidence, 0.0)


def contents(evidence: Evidence) -> Row:
    """The contents of each file, equal within the tolerance."""
    steps = len(evidence.baseline.ranks[0].steps)
    row = _row(evidence.baseline, evidence.many, evidence, compare.tolerance(evidence.dtype, steps))
    if row.status is not DIFFERS:
        return row
    nature = why_by_nature(evidence)
    if nature:
        return make_row("contents", evidence.many, NATURE, f"{nature}; {row.words}", row.at)
    if note := note_on_file(evidence, row.at):
        return make_row("contents", evidence.many, NATURE, f"{row.words}, as the rewrite says: {note}", row.at)
    return row


def _row(theirs: Run, ours: Run, evidence: Evidence, relative: float) -> Row:
    wanted, found = _by_name(theirs), _by_name(ours)
    again = _by_name(evidence.again) if evidence.again is not None else {}
    compared, left = 0, []
    for key, (name, content) in wanted.items():
        if key not in found or name.endswith(CHECKPOINTS):
            continue  # that a file is missing is said elsewhere
        problem = _differ(name, found[key][1], content, again.get(key, (name, content))[1], relative)
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


def _differ(name: str, ours: bytes, theirs: bytes, again: bytes, relative: float) -> str | None:
    """How the contents of two files differ, nothing where they do not; None where that is not known."""
    if ours == theirs:
        return ""
    levels = LEVELS.get(Path(name).suffix.lower())
    if name.endswith(ARRAYS) or levels is not None:
        try:
            read = _arrays if levels is None else _pixels
            ours_read, theirs_read, again_read = (dict(read(content)) for content in (ours, theirs, again))
        except (ImportError, OSError, ValueError):  # no Pillow, an array of Python objects, or half a file
            return None
        allowed = levels if relative and levels else 0
        return _arrays_differ(ours_read, theirs_read, again_read, relative, allowed)
    texts = [_as_text(content) for content in (ours, theirs, again)]
    if any(text is None for text in texts):
        return None
    mine, other, repeated = (text or "" for text in texts)
    if name.endswith(".json"):
        mine, other, repeated = (_spread(text) for text in (mine, other, repeated))
    return _texts_differ(mine.splitlines(), other.splitlines(), repeated.splitlines(), relative)


def _texts_differ(ours: list[str], theirs: list[str], again: list[str], relative: float) -> str:
    is_repeated = len(again) == len(theirs)
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        unstable = compare.unstable_numbers(other, again[number]) if is_repeated else None
        found = compare.numbers_differ(mine, other, relative, unstable)
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
    mine: dict[str, Any], other: dict[str, Any], repeated: dict[str, Any], relative: float, levels: int
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
        if levels and abs(a.astype(int) - b).max() <= levels:
            continue
        if b.dtype.kind not in "fc" or not relative:
            return f"{front}{int((a != b).sum())} of {b.size} values are not the original's"
        apart, size = float(abs(a - b).max()), float(abs(b).max())
        if not apart <= relative * size:
            return f"{front}values differ by {share(apart, size)} of their size"
    return ""


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
