"""Each module of the codemod below the rules has a test, in the folder here that is named like its own."""

from __future__ import annotations

from pathlib import Path

from tests.test_architecture import imported

CODEMOD = "accelify.codemod"
TESTS = Path(__file__).parent
PACKAGE = TESTS.parents[1] / "accelify" / "codemod"
FOLDERS = (
    *("libraries", "files", "semantics", "edits", "training", "preparing"),
    *("metrics", "devices", "precision", "files_written", "distributed", "checks"),
)
# None may be added.
NOT_YET_TESTED: set[str] = set()


def modules(folder: str) -> set[str]:
    paths = (path.relative_to(PACKAGE) for path in (PACKAGE / folder).rglob("*.py") if path.stem != "__init__")
    return {".".join(path.with_suffix("").parts) for path in paths}


def covered(folder: str) -> set[str]:
    """The modules that a folder's tests import."""
    found: set[str] = set()
    for path in (TESTS / folder).rglob("test_*.py"):
        name = ".".join(path.relative_to(TESTS).with_suffix("").parts)
        for target in imported(path, f"tests.codemod.{name}"):
            parts = target.removeprefix(f"{CODEMOD}.").split(".")
            found |= {".".join(parts[:count]) for count in range(2, len(parts) + 1)}
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
