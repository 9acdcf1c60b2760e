"""The option that rewrites the expected files of `fixtures/`, and what keeps a run of all tests short."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from tests.interpreters import FAST_START, ROOT

# Before torch is imported: threads that compute tiny batches together wait for each other, and where the processes of
# other tests want the same cores, one such batch took a tenth of a second.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The collector looks rarely for what it seldom finds: thousands of tests, once collected, stay to the end; and what a
# rewrite leaves, its trees, need not go at once.
gc.set_threshold(100_000, 50, 100)

# Every interpreter that a test starts, wherever its environment comes from.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(FAST_START)]))

# A shell that starts the tests in the background has them and all their processes ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The files that take longest: several workers begin with them, so that what is left for the end is short.
LONGEST = (
    *("test_two_processes", "verify/test_prove", "launch/test_endings", "test_cli", "runtime/data/test_resume"),
    *("runtime/world/test_process_group", "launch/test_elastic", "runtime/checkpoint/test_killed"),
    *("launch/test_config", "test_notebooks", "launch/test_notebook", "launch/test_many_processes"),
    *("launch/test_docs", "verify/test_faults", "test_demo", "test_by_hand", "test_pre_commit"),
    *("runtime/test_ranks", "launch/test_many_machines"),
    *("codemod/test_running_values", "codemod/rules/test_writes", "codemod/test_importers", "codemod/test_devices"),
    *("codemod/rules/test_order", "codemod/test_checkpoints", "codemod/test_known_mistakes"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-fixtures",
        action="store_true",
        help="write what comes out now as the expected files of fixtures/; read that diff like code",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Rewrite the assertions of all files once, for all workers: each imports its part of the files before the others.

    The workers read what the others have written, also where Python is to write no bytecode.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return (yield)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        for path in sorted(ROOT.glob("tests/**/test_*.py"))[number::count]:
            with suppress(Exception, pytest.skip.Exception):  # which collecting the file reports
                import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        return (yield)
    finally:
        sys.dont_write_bytecode = before


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, as a worker whose test waits for other processes needs none."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Keep the collector off thousands of tests."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.freeze)


@pytest.fixture
def update_fixtures(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be written instead of compared."""
    return bool(request.config.getoption("--update-fixtures"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, the codemod's others last."""
    items.sort(key=lambda item: _place(item.path))


def _place(path: Path) -> int:
    name = path.relative_to(Path(__file__).parent).with_suffix("").as_posix()
    if name in LONGEST:
        return LONGEST.index(name)
    return len(LONGEST) + name.startswith(("codemod/", "report/"))
