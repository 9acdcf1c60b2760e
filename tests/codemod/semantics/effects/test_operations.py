"""Facts about what the script's own operations change."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.effects.operations import changed_arguments
from tests.codemod.facts import Facts, texts

SCRIPT = """\
import torch
class Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, memory):
        {saves}
        {forward}
        return x @ memory.t()
    @staticmethod
    def backward(ctx, gradient):
        {backward}
        return gradient @ m, None
bank = torch.rand(8, 2)
out = Lookup.apply(torch.rand(4, 2), bank)
"""
SAVES = "ctx.save_for_backward(memory, x)"
UNPACKS = "m, x = ctx.saved_tensors"


@pytest.mark.parametrize(
    ("saves", "forward", "backward", "changed"),
    [
        (SAVES, "pass", f"{UNPACKS}; m.index_copy_(0, rows, x)", ["bank"]),
        (SAVES, "pass", f"{UNPACKS}; m[0] = x[0]", ["bank"]),
        (SAVES, "pass", "[m, x] = ctx.saved_variables; m.data.mul_(0.9)", ["bank"]),
        ("pass", "memory[0] = x[0]", "m = 1", ["bank"]),
        ("pass", "old = memory.view(-1); old.mul_(0.9)", "m = 1", ["bank"]),
        (SAVES, "pass", f"{UNPACKS}; new = m + 1; new.mul_(2)", []),
        (SAVES, "pass", "m = x = gradient; m.mul_(2)", []),
        (SAVES, "pass", f"{UNPACKS}; gradient.mul_(2)", []),
        ("ctx.rows = memory", "memory = memory + 1", "m = ctx.rows", []),
    ],
)
def test_what_an_operation_changes_of_what_it_is_given(
    saves: str, forward: str, backward: str, changed: list[str]
) -> None:
    facts = Facts(SCRIPT.format(saves=saves, forward=forward, backward=backward))
    call = facts.call("Lookup.apply(torch.rand(4, 2), bank)")
    assert texts(changed_arguments(facts.program, call)) == changed


def test_a_context_comes_after_the_class() -> None:
    text = SCRIPT.format(saves="pass", forward="memory[0] = 1", backward="m = 1")
    text = text.replace("@staticmethod\n    def forward(ctx", "@classmethod\n    def forward(cls, ctx")
    facts = Facts(text)
    assert texts(changed_arguments(facts.program, facts.call("Lookup.apply(torch.rand(4, 2), bank)"))) == ["bank"]


def test_other_methods_of_that_name_are_no_operations() -> None:
    text = SCRIPT.format(saves="pass", forward="memory[0] = 1", backward="m = 1").replace(
        "torch.autograd.Function", "object"
    )
    facts = Facts(text)
    assert not list(changed_arguments(facts.program, facts.call("Lookup.apply(torch.rand(4, 2), bank)")))
