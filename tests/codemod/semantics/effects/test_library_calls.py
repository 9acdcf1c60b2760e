"""Facts about what a call of a library's function does, by its row in the table."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.effects.aliases import Aliases
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.effects.library_calls import LibraryCalls
from accelify.codemod.semantics.effects.summary import EMPTY, Summary
from tests.codemod.facts import Facts


def does(call: str, imports: str = "") -> Summary:
    facts = Facts(f"{imports}import torch, sys\nx, rows, g = torch.zeros(3), [], torch.Generator()\n{call}\n")
    kinds = Kinds(facts.program)
    node = facts.call(call)
    (row,) = kinds.called(node) or ()
    return LibraryCalls(facts.program, kinds, Aliases(facts.program, kinds)).does(row, node)


def test_what_only_gives_a_value() -> None:
    assert does("torch.zeros(3)") == EMPTY
    assert does("x.sum()") == EMPTY


def test_what_changes_in_place() -> None:
    assert {p.name for p in does("x.add_(1)").writes} == {"x"}
    assert {p.name for p in does("rows.append(1)").writes} == {"rows"}
    assert {p.name for p in does("torch.add(x, 1, out=x)").writes} == {"x"}


def test_random_numbers() -> None:
    assert does("torch.randn(3)").effects == {Effect.DRAWS_TORCH}
    assert does("torch.randn(3, generator=g)").effects == {Effect.DRAWS_GIVEN}
    assert does("torch.nn.functional.dropout(x)").effects == {Effect.DRAWS_TORCH}
    assert does("torch.nn.functional.dropout(x, training=False)").effects == {Effect.DRAWS_IN_TRAINING}
    assert does("torch.nn.Dropout()(x)").effects == {Effect.DRAWS_TORCH}


def test_files_and_the_screen() -> None:
    (use,) = does("torch.save(x, 'a.pt')").files_written
    assert [ast.unparse(p) for p in use.paths] == ["'a.pt'"]
    assert does("open('a.txt')").files_read
    assert not does("open('a.txt')").files_written
    assert does("open('a.txt', 'w')").files_written
    assert does("print(x)").effects == {Effect.PRINTS}
    assert does("print(x, file=sys.stderr)").effects == {Effect.PRINTS}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("with open(a) as f: pass", "with open(b, 'w') as f:"),
        ("f = open(a)", "f = open(b, 'w')\n    if True:"),
        ("with open(a, 'wb') as f: pass\n    with open(a) as f: pass", "with open(b) as f:"),
    ],
)
def test_the_file_of_a_name_is_the_one_that_it_holds_there(first: str, second: str) -> None:
    text = (
        f"import pickle\ndef main(a, b, x):\n    {first}\n    {second}\n        pickle.dump(x, f)\n        f.read()\n"
    )
    for call in ("pickle.dump(x, f)", "f.read()"):
        assert _paths(text, call) == {"b"}
    either = text.replace("    with", "    if x:\n        with", 1) if "with" in first else text
    assert _paths(either.replace("        f.read()", "    f.read()"), "f.read()") == {"b"}


def test_a_name_may_hold_one_of_two_files() -> None:
    text = "import json\ndef main(a, b, x):\n    f = open(a)\n    if x:\n        f = open(b)\n    json.load(f)\n"
    assert _paths(text, "json.load(f)") == {"a", "b"}


def _paths(text: str, call: str) -> set[str]:
    facts = Facts(text)
    kinds = Kinds(facts.program)
    node = facts.call(call)
    rows = kinds.called(node) or ()
    found = [LibraryCalls(facts.program, kinds, Aliases(facts.program, kinds)).does(row, node) for row in rows]
    uses = {use for summary in found for use in (*summary.files_read, *summary.files_written)}
    return {ast.unparse(path) for use in uses for path in use.paths}


@pytest.mark.parametrize("call", ["w.add_scalar('loss/train', 1.0, 0)", "w.add_text(tag='config', text_string='x')"])
def test_the_names_that_a_tracker_is_given_are_no_paths(call: str) -> None:
    text = f"from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter('runs')\n{call}\n"
    assert _paths(text, call) == {"w"}


@pytest.mark.parametrize(
    ("call", "read", "written", "gone"),
    [
        ("shutil.copyfile('a', 'b')", {"'a'"}, {"'b'"}, set()),
        ("shutil.copy(dst='b', src='a')", {"'a'"}, {"'b'"}, set()),
        ("os.rename('a', 'b')", set(), {"'b'"}, {"'a'"}),
        ("Path('a').rename('b')", set(), {"'b'"}, {"Path('a')"}),
        ("os.remove('a')", set(), set(), {"'a'"}),
        ("open('a').read()", {"'a'"}, set(), set()),
    ],
)
def test_the_source_of_a_copy_and_its_target(call: str, read: set[str], written: set[str], gone: set[str]) -> None:
    found = does(call, "import os, shutil\nfrom pathlib import Path\n")
    assert {ast.unparse(p) for use in found.files_read for p in use.paths} == read
    assert {ast.unparse(p) for use in found.files_written for p in use.paths if not use.is_gone} == written
    assert {ast.unparse(p) for use in found.files_written for p in use.paths if use.is_gone} == gone


@pytest.mark.parametrize(
    ("options", "is_written"),
    [
        ("map_size=10 ** 9", True),
        ("10 ** 9", True),
        ("**options", True),
        ("readonly=True, lock=False", False),
        ("map_size=10 ** 9, readonly=True", False),
        ("map_size=10 ** 9, create=False", False),
        ("lock=False", False),
    ],
)
def test_a_store_without_a_mode_is_written_if_it_gets_room(options: str, is_written: bool) -> None:
    found = does(f"lmdb.open('rows', {options})", "import lmdb\n")
    assert bool(found.files_written) is is_written
    assert found.files_read
