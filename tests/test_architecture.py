"""Who may import whom, read from the source; and what a command really loads, seen in a fresh interpreter."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "accelify"

# For each part of the package, the longest matching name deciding: which other parts and libraries it may import,
# anywhere in its code. A part may always import itself; `accelify` alone, for the version, everyone may.
MAY_IMPORT = {
    "accelify": set(),
    "accelify.__main__": {"accelify.cli"},
    "accelify.atomic": set(),
    "accelify.errors": set(),
    "accelify.settings": {"accelify.codemod", "accelify.errors", "accelify.toml"},
    "accelify.toml": {"tomli"},
    "accelify.workers": set(),
    "accelify.cli": {"accelify.commands", "accelify.errors", "click"},
    "accelify.commands": {
        "accelify.atomic",
        "accelify.codemod",
        "accelify.errors",
        "accelify.report",
        "accelify.runtime",
        "accelify.settings",
        "accelify.verify",
        "accelify.workers",
        "click",
        "rich",
    },
    "accelify.codemod": {"accelify.errors", "libcst"},
    "accelify.codemod.batch": {"accelify.codemod", "accelify.errors", "accelify.workers"},
    "accelify.codemod.patterns": {"pathspec"},
    "accelify.codemod.files.discover": {
        "accelify.codemod.files.source",
        "accelify.codemod.patterns",
        "accelify.errors",
        "pathspec",
    },
    "accelify.codemod.files.source": {"accelify.atomic", "accelify.codemod.files.notebook", "accelify.errors"},
    "accelify.codemod.files.diff": {"accelify.codemod.files.source"},
    "accelify.codemod.result": {"accelify.errors"},
    "accelify.report": {"accelify.codemod.files", "accelify.codemod.result", "accelify.errors", "rich"},
    "accelify.verify": {
        "PIL",
        "accelify.codemod",
        "accelify.errors",
        "accelify.report",
        "accelify.runtime.world.environment",
        "numpy",
    },
    "accelify.verify.inside": {"PIL", "accelify.codemod.files.source", "accelify.runtime", "numpy", "torch"},
    "accelify.runtime": {
        "accelify.atomic",
        "accelify.errors",
        "numpy",
        "torch",
        "safetensors",
        "cloudpickle",
        "accelify.toml",
        "yaml",
    },
}
# Parts of the runtime that the command line uses before any process has torch.
TORCH_FREE_RUNTIME = ("world.environment", "launch.config", "launch.detection", "launch.plan", "launch.launch")


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def imported(path: Path, name: str) -> tuple[str, ...]:
    """What a module imports, wherever in its code, as dotted names; `from a import b` gives `a.b`."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: write the import in full"
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found)


def within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def rules_for(name: str) -> tuple[str, set[str]]:
    part = max((part for part in MAY_IMPORT if within(name, part)), key=len)
    return part, MAY_IMPORT[part]


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_what_its_part_may(name: str) -> None:
    part, allowed = rules_for(name)
    for target in imported(modules()[name], name):
        top = target.split(".")[0]
        if top in sys.stdlib_module_names | {"tomllib"} or target == "accelify.__version__":
            continue
        own = within(target, part) and part != "accelify"
        assert own or any(within(target, each) for each in allowed), f"{name} may not import {target}"


def test_the_table_speaks_of_parts_that_exist() -> None:
    names = modules()
    assert [part for part in MAY_IMPORT if part not in names] == []


def test_rules_do_not_import_each_other() -> None:
    rules = {name: path for name, path in modules().items() if name.startswith("accelify.codemod.rules.")}
    for name, path in rules.items():
        own = ".".join(name.split(".")[:4])
        targets = [target for target in imported(path, name) if within(target, "accelify.codemod.rules")]
        others = [target for target in targets if not within(target, own)]
        assert others == [], f"{name} imports {others}"


def test_only_the_runtime_and_the_inside_of_verify_name_torch() -> None:
    users = {name for name, path in modules().items() if any(within(i, "torch") for i in imported(path, name))}
    assert users
    assert all(within(name, "accelify.runtime") or within(name, "accelify.verify.inside") for name in users)


def loaded(*command: str, cwd: Path, **environment: str) -> set[str]:
    """The modules that a Python command and the processes it starts import."""
    environment = {**os.environ, **environment, "PYTHONVERBOSE": "1"}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return {match[1] for match in re.finditer(r"^import '([^']+)' # ", done.stderr, re.MULTILINE)}


def parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_version_and_help_load_little_more_than_click(tmp_path: Path) -> None:
    bare = loaded("-c", "import click", cwd=tmp_path)
    for arguments in (["--version"], ["--help"]):
        ours = loaded("-m", "accelify", *arguments, cwd=tmp_path)
        assert "accelify.cli" in ours
        extra = {name for name in ours - bare if not within(name, "accelify")}
        assert len(extra) < 30, sorted(extra)
        assert not parts(extra) & {"libcst", "rich", "torch", "numpy", "yaml", "pathspec", "multiprocessing"}


@pytest.mark.parametrize("command", ["rewrite", "launch", "verify"])
def test_help_of_a_command_loads_neither_parser_nor_torch(command: str, tmp_path: Path) -> None:
    names = loaded("-m", "accelify", command, "--help", cwd=tmp_path)
    assert f"accelify.commands.{command}" in names
    assert not parts(names) & {"libcst", "torch", "numpy"}


def test_rewrite_never_loads_torch(tmp_path: Path) -> None:
    script = "import torch\nfor x in y:\n    loss = f(x)\n    loss.backward()\n    optimizer.step()\n"
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(script)
    for arguments in (["a.py", "--diff"], [".", "--check", "--jobs=2"]):
        names = loaded("-m", "accelify", "rewrite", *arguments, cwd=tmp_path)
        assert "accelify.codemod.rewrite" in names
        assert not parts(names) & {"torch", "numpy", "accelerate", "transformers"}
        assert not {name for name in names if within(name, "accelify.runtime")}


def test_a_tree_without_torch_needs_no_libcst_and_starts_no_process(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.py").write_text("import os\n")
    names = loaded("-m", "accelify", "rewrite", ".", cwd=tmp_path)
    assert "accelify.codemod.batch" in names
    assert not parts(names) & {"libcst", "torch", "rich"}
    assert "multiprocessing.popen_spawn_posix" not in names


@pytest.mark.parametrize("name", TORCH_FREE_RUNTIME)
def test_what_launch_needs_of_the_runtime_is_free_of_torch(name: str, tmp_path: Path) -> None:
    names = loaded("-c", f"import accelify.runtime.{name}", cwd=tmp_path)
    assert f"accelify.runtime.{name}" in names
    assert not parts(names) & {"torch", "numpy", "libcst"}
