"""Which iterable an object of the project's own hands on, item by item."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.batch_wrappers import iterated, taken
from accelify.codemod.semantics.values import ClassValue
from tests.codemod.facts import Facts

TEXT = """\
    class Moved:
        def __init__(self, loader, device):
            self.loader, self.device = {kept}, device
        def __iter__(self):
            {over}
    Moved(device=1, loader=[1])  # <- here
"""


@pytest.mark.parametrize(
    ("over", "kept", "handed_on"),
    [
        ("for b in self.loader: yield b", "loader", True),
        ("for k, b in enumerate(self.loader): yield b.to(self.device)", "loader", True),
        ("it = iter(self.loader)\n            for b in it: yield b", "loader", True),
        ("return map(str, self.loader)", "loader", True),
        ("return iter(self.loader)", "loader", True),
        ("return (b + 1 for b in self.loader)", "loader", True),
        ("return (b for b in self.loader if b)", "loader", False),
        ("for b in self.loader:\n                if b: yield b", "loader", False),
        ("for b in self.loader:\n                yield b\n                yield b", "loader", False),
        ("for b in self.loader:\n                yield b\n                if b: break", "loader", False),
        ("while True:\n                for b in self.loader: yield b", "loader", False),
        ("for b in self.loader: yield b", "list(loader)", False),
    ],
)
def test_an_object_that_yields_one_item_for_each_hands_on_what_it_is_given(
    over: str, kept: str, handed_on: bool
) -> None:
    facts = Facts(TEXT.format(over=over, kept=kept))
    program, call = facts.program, facts.call("Moved(device")
    found = [name for _, name in taken(program, call, facts.tracer.assigned)]
    assert found == (["loader"] if handed_on else [])
    (made,) = (v for v in program.values(call.func) if isinstance(v, ClassValue))
    source = iterated(program, made.scope)
    assert (source is not None and ast.unparse(source) == "self.loader") is (handed_on or kept != "loader")
