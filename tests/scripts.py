"""The whole scripts of `fixtures/`: `before` and `after` as a file, or as a folder whose `train.py` imports the rest.

A script in `KNOWN_WRONG` comes out wrong today, for the reason that stands there; its expected files say what is right.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_together
from accelify.report.json import render

FIXTURES = Path(__file__).parents[1] / "fixtures"
MAIN = "train.py"
Files = dict[str, bytes]

KNOWN_WRONG: dict[str, str] = {
    "two_devices": "a model that is split over two devices is put onto one",
}


def names(kind: str) -> list[str]:
    """The scripts of `fixtures/<kind>`."""
    return sorted(p.name for p in (FIXTURES / kind).iterdir() if (p / "before.py").exists() or (p / "before").is_dir())


def read(folder: Path, which: str) -> Files:
    """The files of one side of a script."""
    single = folder / f"{which}.py"
    if single.exists():
        return {MAIN: single.read_bytes()}
    root = folder / which
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*.py"))}


def write(root: Path, files: Files) -> None:
    """Lay files out in a folder."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def write_after(folder: Path, files: Files) -> None:
    """Keep what came out as the expected files."""
    if list(files) == [MAIN]:
        (folder / "after.py").write_bytes(files[MAIN])
    else:
        write(folder / "after", files)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Stand in a folder, as a user would."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def rewrite(root: Path, files: Files, options: Options | None = None) -> tuple[tuple[FileResult, ...], Files]:
    """Rewrite `train.py` among its files, in a folder: what was reported, and the files as they are then."""
    write(root, files)
    with inside(root):
        results = rewrite_together((MAIN,), options or Options())
    after = {**files, **{r.path: r.after for r in results if r.status is Status.MIGRATED}}
    return results, after


def report(results: tuple[FileResult, ...]) -> str:
    """The JSON report, and nothing but; without the evidence, which a test of its own looks at."""
    document = json.loads(render(results, written=True))
    document = {"version": document["version"], "files": document["files"]}
    for file in document["files"]:
        del file["because"]
    for told in (told for file in document["files"] for told in [*file["changes"], *file["notes"]]):
        del told["evidence"]
    return json.dumps(document, indent=2) + "\n"
