"""Facts about what the other processes may open instead of a file that only the main process is to write."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.guards.guarding import Guarding
from accelify.codemod.files_written.guards.substitutes import Substitutes
from tests.codemod.training_scripts import training

FILE = "h = logging.FileHandler('a.log')\n"
ALL = "with open('a.log', 'w') as f:\n    for x, y in loader:\n        "


def substitutes(found: Guarding) -> Substitutes:
    return Substitutes(found.alone, found.stored, found.uses, found.asking)


@pytest.mark.parametrize(
    ("lines", "handlers"),
    [
        (f"{FILE}log.addHandler(h)\nuse(h)", {"logging.FileHandler('a.log')": "logging.NullHandler()"}),
        (
            "for h in (None, logs.handlers.RotatingFileHandler('a.log')):\n    log.addHandler(h)\nuse(h)",
            {"logs.handlers.RotatingFileHandler('a.log')": "logs.NullHandler()"},
        ),
        ("log.addHandler(logging.FileHandler('a.log'))", {}),  # which is guarded whole
        ("h = FileHandler('a.log')\nlog.addHandler(h)\nuse(h)", {}),  # where nothing tells how the other is called
        (f"{FILE}log.addHandler(h)\nuse(h)\nprint(open('a.log').read())", {}),
        ("h = logging.StreamHandler()\nlog.addHandler(h)\nuse(h)", {}),
    ],
)
def test_log_files_that_the_other_processes_do_without(lines: str, handlers: dict[str, str]) -> None:
    begin = "import logging\nimport logging.handlers\nimport logging as logs\nfrom logging import FileHandler\n"
    guarding = training(
        set_up=f"{begin}from names import use\nlog = logging.getLogger('a')\n{lines}"
    ).script.written.guarding
    found = substitutes(guarding).handlers(guarding.unguarded)
    assert {ast.unparse(call): other for call, other in found} == handlers


@pytest.mark.parametrize(
    ("lines", "paths"),
    [
        (f"{ALL}f.write(str(torch.rand(1)))", ["'a.log'"]),
        (f"{ALL}print(torch.rand(1), file=f, flush=True)", ["'a.log'"]),
        ("import io\nf = io.open(p, mode='at')\nf.write(draw())\nf.flush()\nuse(f)", ["p"]),
        ("seen = os.path.exists('a.log')\n" + f"{ALL}f.write(str(torch.rand(1)))", ["'a.log'"]),  # from a run before
        (f"{ALL}f.write('x')\nprint(open('a.log').read())", []),
        (f"{ALL}f.write(str(torch.rand(1)))\n        use(f.fileno())", []),
        ("f = open('a.log', 'w+')\nf.write(draw())\nuse(f)", []),
        ("f = open('a.npz', 'wb')\nnp.savez(f, a=draw())\nuse(f)", []),  # which asks the file for its place
        ("f = open('a.log', mode)\nf.write(draw())\nuse(f)", []),
        ("with open('a.log', 'w') as f:\n    f.write('x')", []),  # which is guarded whole
    ],
)
def test_files_that_are_nowhere_in_the_other_processes(lines: str, paths: list[str]) -> None:
    begin = "import os\nfrom names import draw, mode, np, p, use\n"
    guarding = training(set_up=begin, end=lines).script.written.guarding
    assert [ast.unparse(path) for _, path in substitutes(guarding).files(guarding.unguarded)] == paths


@pytest.mark.parametrize(
    ("writes", "is_left"),
    [
        ("csv.writer(f).writerow([torch.rand(1)])", False),
        ("w = csv.DictWriter(f, ['a'])\n        w.writerow({'a': torch.rand(1)})", False),
        ("open('b.log', 'r+').write(str(torch.rand(1)))", True),
        ("(f if x.sum() else sys.stderr).write(str(torch.rand(1)))", False),
    ],
)
def test_what_is_written_to_such_a_file(writes: str, is_left: bool) -> None:
    found = training(set_up="import csv, sys\n", end=f"{ALL}{writes}").script.written.guarding
    left = [ast.unparse(c) for c in found.unguarded if not found.is_of_main(c)]
    assert bool(left) is is_left, left


@pytest.mark.parametrize("used", ["log.write('x')", "print('x', file=log)"])
def test_a_file_that_only_the_main_process_has_needs_no_other(used: str) -> None:
    function = "def make():\n    log = open('a.log', 'w')\n    return log\n"
    guarding = training(before=function, end=f"log = make()\n{used}\n").script.written.guarding
    assert [ast.unparse(call) for call in guarding.handed_on] == ["open('a.log', 'w')"]
    assert not guarding.files_of_main


def test_what_may_be_written_to_another_file_is_left() -> None:
    writes = "g = f if x.sum() else open('b.log', 'r+')\n        g.write(str(torch.rand(1)))"
    found = training(set_up="import csv, sys\n", end=f"{ALL}{writes}").script.written.guarding
    left = [ast.unparse(c) for c in found.unguarded if not found.is_of_main(c)]
    assert left == ["open('b.log', 'r+')", "g.write(str(torch.rand(1)))"]
