"""Each module of the codemod below the rules has a test, in the folder here that is named like its own."""

from __future__ import annotations

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


def covered(folder: str) -> set[str]:
    """The modules that a folder's tests import."""
    found: set[str] = set()
    for path in (TESTS / folder).glob("test_*.py"):
        for target in imported(path, f"tests.codemod.{folder}.{path.stem}"):
            parts = target.removeprefix(f"{CODEMOD}.").split(".")
            found.add(".".join(parts[:2]))
    return found


def test_every_module_is_imported_by_a_test_of_its_folder() -> None:
    missing = {module for folder in FOLDERS for module in modules(folder) - covered(folder)}
    assert missing <= NOT_YET_TESTED, (
        f"write tests/codemod/<folder>/test_<module>.py: {sorted(missing - NOT_YET_TESTED)}"
    )


def test_tests_of_facts_are_fast_or_marked_as_slow() -> None:
    for folder in FOLDERS:
        for path in (TESTS / folder).glob("*.py"):
            slow = {name.split(".")[0] for name in imported(path, path.stem)} & {
                "torch",
                "subprocess",
                "multiprocessing",
            }
            is_marked = "pytestmark = pytest.mark.slow" in path.read_text()
            assert not slow or is_marked, (path, slow)
