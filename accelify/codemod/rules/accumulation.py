"""Point out gradient accumulation by hand that `accelerator.accumulate` can replace.

    loss = loss / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()

Why: what the script does by hand stays right over many processes, but exchanges gradients for every batch.
`accelerator.accumulate(model)` means the same where an epoch has a multiple of so many batches, and exchanges them once
for each step.
Left alone: everything; the rule only reports. Nothing is said unless the loss is divided by the same number, and all
steps are conditional; nor where the backward pass is, too, of a loss of all batches since the last one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "accumulation"


def find(script: Script) -> Iterator[Remark]:
    """A note at each condition under which accumulated gradients are used."""
    told: set[ast.If] = set()
    for backward in script.training.backwards:
        loop = next(iter(script.program.loops_round(backward)), None)
        if not isinstance(loop, ast.For) or loop not in script.prepared.loops:
            continue
        for condition in (s for s in loop.body if isinstance(s, ast.If) and not s.orelse):
            count = _window(loop, condition)
            division = _division(script, loop, count) if count is not None else None
            if count is None or division is None or condition in told or not _all_inside(loop, condition):
                continue
            if script.program.inside(backward, condition):
                continue  # one pass for what earlier rounds have collected: no gradients are added up
            told.add(condition)
            message = (
                f"not changed: the script accumulates gradients over {count} batches by hand. If the number of "
                f"batches is a multiple of {count}, "
                f"`Accelerator(gradient_accumulation_steps={count})` with the loop's body under `with "
                "accelerator.accumulate(model):` does the same without this condition and the division "
                f"`{ast.unparse(division)}`, and averages gradients across processes only once per step"
            )
            yield Remark(NAME, script.path(condition), condition, message, Tier.ADVICE)


def _window(loop: ast.For, condition: ast.If) -> str | None:
    """`k` of `if (i + 1) % k == 0:` in a loop over `enumerate(loader)`."""
    counted = loop.iter
    target = loop.target
    if (
        not isinstance(counted, ast.Call)
        or ast.unparse(counted.func) != "enumerate"
        or not isinstance(target, ast.Tuple)
    ):
        return None
    start = [*counted.args[1:], *(k.value for k in counted.keywords)]
    first = ast.unparse(start[0]) if start else "0"
    rounds = {"0": f"{ast.unparse(target.elts[0])} + 1", "1": ast.unparse(target.elts[0])}.get(first)
    test = condition.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    rest = test.left
    is_zero = ast.unparse(test.comparators[0]) == "0"
    if not is_zero or not isinstance(rest, ast.BinOp) or not isinstance(rest.op, ast.Mod):
        return None
    return ast.unparse(rest.right) if ast.unparse(rest.left) == rounds else None


def _division(script: Script, loop: ast.For, count: str) -> ast.AST | None:
    """Where the loss is divided by the number of batches, and no number is, such as that of the rows."""
    for node in ast.walk(loop):
        if not isinstance(node, (ast.AugAssign, ast.BinOp)) or not isinstance(node.op, ast.Div):
            continue
        divided, by = (node.target, node.value) if isinstance(node, ast.AugAssign) else (node.left, node.right)
        if ast.unparse(by) == count and script.effects.kinds.of(divided) != {"number"}:
            return node
    return None


def _all_inside(loop: ast.For, condition: ast.If) -> bool:
    """Whether all that steps and clears in a loop is under a condition, and both are."""
    inside = set(ast.walk(condition))
    calls = [n for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    named = {
        n: n.func.attr for n in calls if isinstance(n.func, ast.Attribute) and n.func.attr in ("step", "zero_grad")
    }
    return set(named.values()) == {"step", "zero_grad"} and all(n in inside for n in named)
