"""Run Accelerate's own tests on accelify's runtime.

    git clone https://github.com/huggingface/accelerate build/accelerate
    python benchmarks/accelerate_tests/run.py build/accelerate              # all; without a folder, only the scripts
    python benchmarks/accelerate_tests/run.py build/accelerate test_ops     # one script or file

The scripts, run in one process and in two, are those that the installed `accelerate` has in `test_utils/scripts`; the
files, run by pytest, those of the repository in the folder given. None of their text is here. In the processes that run
them `accelerate` is a stand-in (`stand_in.py`). `expected.py` says which tests are left out and which do not pass.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from benchmarks.accelerate_tests.expected import DIFFERENT, FILES, LEFT_OUT, SCRIPTS, Test  # noqa: E402  # the path comes first

LIMIT = 300  # seconds; only a deadlock ever takes so long
PASSES = "passes"


@dataclass(frozen=True)
class Outcome:
    """What became of a test: `passes`, that it was skipped, or the error in one line."""

    where: str
    name: str
    processes: int
    said: str

    @property
    def left_out(self) -> str | None:
        """Why it does not count."""
        reasons = LEFT_OUT.get(self.where, {})
        found = next((why for why, names in reasons.items() if any(map(self._begins_with, names))), None)
        return found or (self.said if self.said.startswith("skipped") else None)

    @property
    def different(self) -> str | None:
        """Why it does not pass."""
        reasons = DIFFERENT.get(self.where, {}).get(self.processes, {})
        return next((why for name, why in reasons.items() if self._begins_with(name)), None)

    def _begins_with(self, name: str) -> bool:
        return self.name.startswith(name) or self.name.rpartition(".")[2].startswith(name)

    @property
    def is_as_expected(self) -> bool:
        """Whether it passes unless a reason is known why it does not."""
        return (self.said == PASSES) is (self.different is None)


# Scripts, in processes of their own.


def outcomes_of_script(name: str, processes: int) -> Iterator[Outcome]:
    """What became of each test of a script; after a failure the rest goes on in other processes."""
    cases = [case for case in SCRIPTS[name] if processes in case.processes]
    first = 0
    while first < len(cases):
        with tempfile.TemporaryDirectory() as folder:
            ended = _launched(name, processes, first, Path(folder))
            told = [_read(Path(folder, str(rank))) for rank in range(processes)]
        for number in range(first, len(cases)):
            said = [each.get(number) for each in told]
            bad = next((each for each in said if each not in (None, PASSES)), None)
            if bad is None and None in said:
                bad = ended[said.index(None)] if ended else "hangs"
            yield Outcome(name, cases[number].name, processes, bad or PASSES)
            first = number + 1
            if bad is not None:
                break


def _launched(name: str, processes: int, first: int, folder: Path) -> list[str]:
    """Run a script's tests from the first one on; the last line that each process printed, or nothing if they hang."""
    from tests.runtime.processes import launch

    try:
        ended = launch([__file__, "--script", name, processes, first, folder], processes, cwd=folder, limit=LIMIT)
    except subprocess.TimeoutExpired:
        return []
    return [(output.strip().splitlines() or ["no output"])[-1] for _, output in ended]


def _read(path: Path) -> dict[int, str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(map(json.loads, lines))


def run_script(name: str, processes: int, first: int, folder: str) -> None:
    """In one of the processes: run a script's tests, and write down each outcome."""
    from benchmarks.accelerate_tests.stand_in import install

    install(skips=False)
    module = importlib.import_module(f"accelerate.test_utils.scripts.{name}")
    cases = [case for case in SCRIPTS[name] if processes in case.processes]
    with Path(folder, os.environ["RANK"]).open("a") as report:
        for number, case in enumerate(cases[first:], first):
            said = next((bad for call in case.calls if (bad := _run(call, module)) != PASSES), PASSES)
            report.write(json.dumps([number, said]) + "\n")
            report.flush()
            if said != PASSES:
                os._exit(1)  # the processes are out of step, and nobody may wait for this one


def _run(call: Test, module: Any) -> str:
    try:
        call(module)
    except BaseException as error:  # `pytest.fail` and `SystemExit` among them
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]} [{last.name}:{last.lineno}]"
    return PASSES


# Files, by pytest.


def outcomes_of_file(name: str, repository: Path) -> Iterator[Outcome]:
    """What became of each test of a file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report, path = Path(folder, "report"), (repository / "tests" / f"{name}.py").resolve()
        command = [sys.executable, __file__, "--file", str(path), str(report)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not report.exists():
            raise SystemExit(f"{path} did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        yield from _by_function(name, path, map(json.loads, report.read_text().splitlines()))


def _by_function(where: str, path: Path, outcomes: Iterable[tuple[str, str]]) -> Iterator[Outcome]:
    """One outcome for each function: where it was run with several parameters, all of them have to pass."""
    tree = ast.parse(path.read_text())
    functions = {f"{c.name}.{f.name}" for c in tree.body if isinstance(c, ast.ClassDef) for f in c.body if _is_test(f)}
    found: dict[str, list[str]] = {}
    for test, said in outcomes:
        cls, _, own = test.partition(".")
        of = [f for f in functions if cls.startswith(f.partition(".")[0]) and own.startswith(f.partition(".")[2])]
        found.setdefault(max(of, key=len, default=test), []).append(said)
    for name, said_of_all in found.items():
        bad = sorted((said for said in said_of_all if said != PASSES), reverse=True)
        yield Outcome(where, name, 1, bad[0] if bad else PASSES)


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


class Report:
    """A plugin of pytest's that writes down what became of each test."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """The outcome of its call, or of what failed or skipped it before."""
        if report.when != "call" and report.outcome == "passed":
            return
        name = report.nodeid.partition("::")[2].replace("::", ".")
        said = PASSES if report.outcome == "passed" else f"{report.outcome}: {_reason(report)}"
        with self._path.open("a") as file:
            file.write(json.dumps([name, said]) + "\n")


def _reason(report: Any) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{crash.message.partition(chr(10))[0]} [:{crash.lineno}]" if crash is not None else str(report.longrepr)


def run_file(path: str, report: str) -> None:
    """Run the tests of a file on the stand-in."""
    import pytest

    from benchmarks.accelerate_tests.stand_in import install

    install(skips=True)
    options = ["-q", "-c", os.devnull, "--rootdir", str(Path(path).parent), "-p", "no:cacheprovider"]
    pytest.main([*options, "--import-mode=importlib", "--timeout", str(LIMIT), path], plugins=[Report(report)])


# All of them.


def outcomes(repository: Path | None, chosen: list[str]) -> Iterator[Outcome]:
    """Those of all scripts and files, or of the chosen ones."""
    for name in SCRIPTS:
        if not chosen or name in chosen:
            for processes in (1, 2):
                yield from outcomes_of_script(name, processes)
    for name in FILES if repository is not None else ():
        if not chosen or name in chosen:
            yield from outcomes_of_file(name, repository)


def main(repository: Path | None, chosen: list[str]) -> int:
    """Print what passes; 1 where that is not what is expected."""
    counted, surprises = [], []
    for each in outcomes(repository, chosen):
        said = each.left_out and f"left out: {each.left_out}"
        if said is None:
            counted.append(each)
            said = each.said if each.different is None else f"different: {each.different} ({each.said})"
            surprises += [] if each.is_as_expected else [each]
        print(f"{each.where:28} {each.name:80} {each.processes} {said}", flush=True)
    passed = sum(each.said == PASSES for each in counted)
    print(f"{passed} of {len(counted)} pass ({passed / max(len(counted), 1):.1%})")
    for each in surprises:
        print(f"not as expected: {each.where} {each.name} in {each.processes}: {each.said}")
    return bool(surprises)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--script"]:
        run_script(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["--file"]:
        run_file(*sys.argv[2:])
    else:
        folder = next((Path(each) for each in sys.argv[1:] if Path(each).is_dir()), None)
        sys.exit(main(folder, [each for each in sys.argv[1:] if not Path(each).is_dir()]))
