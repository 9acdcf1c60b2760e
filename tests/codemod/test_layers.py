"""The layers of the codemod: each imports only what stands before it, and nothing imports in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.test_architecture import imported, modules, within

CODEMOD = "accelify.codemod"
# From the bottom up; what shares a line shares a layer, and parts of one layer do not import each other.
LAYERS = (
    ("result",),
    ("libraries", "patterns"),
    ("options",),
    ("files",),
    ("semantics",),
    ("edits", "training"),
    ("preparing",),
    ("metrics", "devices", "precision", "distributed"),
    ("files_written",),
    ("script", "accelerate"),
    ("leftovers",),
    ("rules", "checks"),
    ("obstacles",),
    ("understand",),
    ("planning",),
    ("why",),
    ("rewrite",),
    ("check",),
    ("cache",),
    ("batch",),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
MODULES_IN_A_FOLDER = 15


def part_of(name: str) -> str:
    return name.removeprefix(f"{CODEMOD}.").split(".")[0]


def imports() -> Iterator[tuple[str, str]]:
    """Each import of one module of the codemod by another, lazy ones and those for types alone included."""
    known = modules()
    for name, path in known.items():
        if within(name, CODEMOD) and name != CODEMOD:
            for target in imported(path, name):
                while target and target not in known:
                    target = target.rpartition(".")[0]
                if within(target, CODEMOD) and target not in (CODEMOD, name):
                    yield name, target


def test_every_part_has_a_layer() -> None:
    found = {part_of(name) for name in modules() if within(name, CODEMOD)} - {CODEMOD, "accelify"}
    assert found == set(LEVEL)


def test_a_layer_imports_only_what_stands_before_it() -> None:
    wrong = {
        (name.removeprefix(f"{CODEMOD}."), target.removeprefix(f"{CODEMOD}."))
        for name, target in imports()
        if part_of(name) != part_of(target) and LEVEL[part_of(target)] >= LEVEL[part_of(name)]
    }
    assert not wrong, sorted(wrong)


def test_no_module_imports_itself_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for name, target in imports():
        edges.setdefault(name, set()).add(target)
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join([*way[way.index(name) :], name])
        if name not in done:
            for target in sorted(edges.get(name, ())):
                visit(target, (*way, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())


def test_a_folder_holds_few_modules() -> None:
    found: dict[str, int] = {}
    for name, path in modules().items():
        folder = name.removeprefix(f"{CODEMOD}.").rpartition(".")[0]
        if within(name, CODEMOD) and Path(path).stem != "__init__" and folder not in ("rules", "checks"):
            found[folder] = found.get(folder, 0) + 1
    larger = {folder: count for folder, count in found.items() if count > MODULES_IN_A_FOLDER}
    assert not larger, larger
