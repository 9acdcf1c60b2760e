"""Facts about a parsed file: its text, its nodes, what is wrong with it, and its bytes again."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files.parse import encoded, parse, parse_text
from accelify.errors import CannotParse, CannotRead


def test_text_has_one_kind_of_line_ends() -> None:
    parsed = parse("a.py", b"a\r\nb\rc\n\x0cd")
    assert parsed.text == "a\nb\nc\nd"
    assert parsed.lines == ["a", "b", "c", "d"]


def test_nodes_parents_and_statements() -> None:
    parsed = parse("a.py", b"x = f(y)\n")
    name = next(n for n in parsed.nodes if isinstance(n, ast.Name) and n.id == "y")
    assert isinstance(parsed.parents[name], ast.Call)
    assert parsed.statement(name) is parsed.tree.body[0]
    assert parsed.nodes[0] is parsed.tree
    assert parsed.source(parsed.parents[name]) == "f(y)"


def test_columns_are_counted_in_characters() -> None:
    parsed = parse("a.py", 'x = "ä", y\n'.encode())
    name = next(n for n in parsed.nodes if isinstance(n, ast.Name) and n.id == "y")
    assert parsed.column(1, name.col_offset) == 9
    assert parse("a.py", b'x = "a", y\n').column(1, 9) == 9


@pytest.mark.parametrize(
    ("text", "is_migrated"),
    [
        ("from accelerate import Accelerator", True),
        ("from accelerate.utils import set_seed", False),
        ("import pytorch_lightning as pl\npl.seed_everything(1)", False),
        ("import pytorch_lightning as pl\npl.Trainer().fit(m)", True),
        ("from lightning import pytorch as pl\nclass M(pl.LightningModule): pass", True),
        ("import lightning.fabric\nf = lightning.fabric.Fabric()", True),
        ("from ignite.metrics import Accuracy", False),
        ("from ignite.engine import create_supervised_trainer", True),
        ("from ray.train.torch import TorchTrainer", True),
        ("import ray", False),
        ("from fastai.vision.all import *", True),
        ("from fastai.data.core import DataLoaders", False),
        ("from accelify.runtime import Accelerator", True),
        ("from .accelerate import x", False),
        ("import torch", False),
        ("import accelerated", False),
        ("accelerate = 1", False),
    ],
)
def test_whether_a_library_runs_the_training_already(text: str, is_migrated: bool) -> None:
    assert parse("a.py", text.encode()).is_migrated is is_migrated


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("print 'x'", "Python 2"),
        ("exec 'x'", "Python 2"),
        ("try:\n    pass\nexcept E, e:\n    pass", "Python 2"),
        ("if a <> b:\n    pass", "Python 2"),
        ("x = 0777", "Python 2"),
        ("x.cuda(async=True)", "non_blocking"),
        ("x = (", "never closed"),
        ("(" * 500 + ")" * 500, "nested"),
        ("x.backward()\nx" + "()" * 5000, "nested too deeply"),
        ("x = [" + "1, " * 300_000 + "]", "too large"),
        ("x.backward()\n" * 301, "too large"),
    ],
)
def test_what_cannot_be_parsed(text: str, reason: str) -> None:
    with pytest.raises(CannotParse, match=reason):
        parse("a.py", text.encode())


def test_what_cannot_be_written_in_the_encoding_of_the_file() -> None:
    with pytest.raises(CannotParse, match="cannot be written as ascii"):
        encoded(parse("a.py", b"# coding: ascii\na = b\n"), "\xe4 = b\n")


def test_where_it_cannot_be_parsed() -> None:
    with pytest.raises(CannotParse) as error:
        parse_text("a = 1\nb = = 2\n", "a.py")
    assert (error.value.line, error.value.column) == (2, 4)


def test_what_is_no_text() -> None:
    with pytest.raises(CannotRead):
        parse("a.py", b"a = '\xff'")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "b", "c", b"a\r\nc\r\n"),
        (b"a\r\nb\nd\r\n", "d", "c", b"a\r\nb\nc\r\n"),
        (b"a\n\x0cb\n", "b", "c\nb", b"a\nc\n\x0cb\n"),
        (b"a\n  \x0cb\n", "a", "c", b"c\n  \x0cb\n"),
        (b"a\rb", "b", "c", b"a\rc"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"# coding: latin-1\n\xe4 = b\n", "b", "c", b"# coding: latin-1\n\xe4 = c\n"),
    ],
)
def test_lines_that_stay_keep_their_bytes(before: bytes, old: str, new: str, after: bytes) -> None:
    parsed = parse("a.py", before)
    assert encoded(parsed, parsed.text) == before
    assert encoded(parsed, parsed.text.replace(old, new)) == after


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("x.__len__()", "len(x)"),
        ("y /= self.x.__len__() * 2", "y /= len(self.x) * 2"),
        ("x.__len__().__len__()", "len(len(x))"),
        ("super().__len__()", "super().__len__()"),
        ("x.__len__", "x.__len__"),
        ("len = 3\nx.__len__()", "len = 3\nx.__len__()"),
    ],
)
def test_lengths_are_read_in_one_spelling(text: str, read: str) -> None:
    parsed = parse("a.py", text.encode())
    assert ast.unparse(parsed.tree) == read
    assert parsed.source(parsed.tree.body[-1]) == text.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("'lib.net'", "lib.net"),
        ("'lib.' + kind + '_net'", "lib.*_net"),
        ("f'lib.{kind}_net'", "lib.*_net"),
        ("'lib.{}_net'.format(kind)", "lib.*_net"),
        ("'lib.%s_net' % kind", "lib.*_net"),
        ("'.'.join(['lib', kind])", "lib.*"),
        ("f'{__package__}.{kind}'", ".*"),
        ("named", "lib.*"),
        ("kind", "*"),
        ("__name__", "*"),
    ],
)
def test_the_pattern_of_a_name_that_is_made_at_run_time(name: str, pattern: str) -> None:
    parsed = parse("main.py", f"import sys\nkind = sys.argv[1]\nnamed = 'lib.' + kind\n{name}\n".encode())
    last = parsed.tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert parsed.pattern(last.value) == pattern
