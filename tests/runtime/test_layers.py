"""The runtime's folders stand on each other in one order, and no module imports itself by way of others.

Every import counts, wherever in the code it is: one hidden in a function is an import all the same.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "accelify" / "runtime"
NAME = "accelify.runtime"
# The folder or module of the runtime -> what else of the runtime it may import. A folder may import itself.
MAY_IMPORT = {
    "world": set(),
    "options": set(),
    "choices": set(),
    "availability": {"choices"},
    "containers": set(),
    "wrappers": set(),
    "tracking": set(),
    "memory": set(),
    "held": set(),
    "logger": {"world"},
    "gradients": {"world", "held"},
    "data": {"world", "held"},
    "checkpoint": {"world", "data", "options"},
    "launch": {"world.environment", "world.places"},
    "launch.notebook_xla": {"launch", "world.environment", "world.xla"},
    "launch.selfcheck": {"accelerator", "world.environment"},  # a script that trains, started by `accelify test`
    "state": {
        *("world", "data", "checkpoint", "options", "choices"),
        "launch.config",  # the project's file counts without a launcher, too
    },
    "accelerator": {
        *("world", "gradients", "data", "checkpoint", "options", "choices", "tracking", "wrappers", "state"),
        "launch.config",  # as for `state`
    },
    "local_sgd": {"accelerator"},
    # The names of Accelerate's modules; nothing of ours imports them.
    "launchers": {"launch"},
    "logging": {"logger"},
    "utils": {
        *("world", "data", "checkpoint", "options", "choices", "availability", "containers", "wrappers", "memory"),
        *("state", "launch.config"),
    },
}


@cache
def modules() -> dict[str, Path]:
    """Every module below the runtime by its name there."""
    paths = (path for path in RUNTIME.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(RUNTIME).with_suffix("").parts): path for path in paths}


@cache
def imports(name: str) -> frozenset[str]:
    """The modules of the runtime that one imports, anywhere in its code."""
    found = set()
    for node in ast.walk(ast.parse(modules()[name].read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            targets = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {target if _is_module(target) else node.module for target in targets}
    ours = {target.removeprefix(f"{NAME}.") for target in found if target.startswith(f"{NAME}.")}
    return frozenset(ours)


def _is_module(dotted: str) -> bool:
    return dotted.removeprefix(f"{NAME}.") in modules()


def within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_stands_on_lower_folders_alone(name: str) -> None:
    part = max((part for part in MAY_IMPORT if within(name, part)), key=len)
    allowed = {part.partition(".")[0] if part not in modules() else part, *MAY_IMPORT[part]}
    strays = [target for target in imports(name) if not any(within(target, each) for each in allowed)]
    assert strays == []


def test_every_import_is_of_a_module() -> None:
    assert {target for name in modules() for target in imports(name)} <= set(modules())


def test_there_is_no_cycle() -> None:
    """Modules are taken away as long as some import nothing that is left."""
    left = set(modules())
    while leaves := {name for name in left if not imports(name) & left}:
        left -= leaves
    assert left == set()


@pytest.mark.parametrize("folder", sorted({name.partition(".")[0] for name in modules() if "." in name}))
def test_a_folder_holds_few_modules(folder: str) -> None:
    assert len([name for name in modules() if within(name, folder)]) <= 15
