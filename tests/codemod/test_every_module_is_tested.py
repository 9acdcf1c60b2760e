"""Each module of the codemod below the rules has a test of its facts, in the folder of `tests/codemod` named like its own."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.test_architecture import imported

CODEMOD = "accelify.codemod"
TESTS = Path(__file__).parent
PACKAGE = TESTS.parents[1] / "accelify" / "codemod"
FOLDERS = (
    *("libraries", "files", "semantics", "edits", "training", "preparing"),
    *("metrics", "devices", "precision", "files_written", "distributed"),
)
# None may be added.
NOT_YET_TESTED: set[str] = set()


def modules(folder: str) -> set[str]:
    return {f"{folder}.{path.stem}" for path in (PACKAGE / folder).glob("*.py") if path.stem != "__init__"}


def tested(folder: str) -> set[str]:
    """The modules that a folder's tests import."""
    found: set[str] = set()
    for path in (TESTS / folder).glob("test_*.py"):
        for target in imported(str(path), f"tests.codemod.{folder}.{path.stem}"):
            parts = target.removeprefix(f"{CODEMOD}.").split(".")
            found.add(".".join(parts[:2]))
    return found


def test_every_module_is_imported_by_a_test_of_its_folder() -> None:
    missing = {module for folder in FOLDERS for module in modules(folder) - tested(folder)}
    assert missing <= NOT_YET_TESTED, f"write tests/codemod/<folder>/test_<module>.py: {sorted(missing - NOT_YET_TESTED)}"
    assert missing >= NOT_YET_TESTED, f"these have tests by now, take them off: {sorted(NOT_YET_TESTED - missing)}"


def test_tests_of_facts_start_no_process_and_do_not_import_torch() -> None:
    for folder in FOLDERS:
        for path in (TESTS / folder).glob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_bytes())))
            names = {a.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names}
            names |= {(n.module or "").split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
            assert path.name in RUN_TORCH or not names & {"torch", "subprocess", "multiprocessing"}, path
