"""Move the tensors that a script makes itself to the device, or let operations mix devices.

    x = torch.from_numpy(rows)                 ->    x = torch.from_numpy(rows).to(accelerator.device)
    h = torch.zeros(1, len(x), 8)              ->    h = torch.zeros(1, len(x), 8, device=x.device)
    for images, labels in test_loader:         ->    for images, labels in test_loader:
        outputs = model(images)                ->        images, labels = images.to(accelerator.device), labels.to(...)
                                                         outputs = model(images)

Why: `prepare` brings a model to the process's GPU, and a prepared loader brings its batches there. Tensors that the
script makes itself, and batches of loaders that are not prepared, stay in the CPU's memory, where the plain script
computed with them; the first step would stop on a machine with a GPU.
All of them are brought there, or none. Where one is not understood, or where it cannot be shown that all tensors that
meet are on one device, the accelerator is `Accelerator(mixed_devices=True)`: on a GPU, the runtime then moves what
PyTorch would refuse, which costs each call of torch's functions about a microsecond. To do without, bring all tensors
to `accelerator.device`, and take `mixed_devices=True` away. What would have to follow another tensor, as in
`mask.to(x.device)`, is left to the runtime there.
A script that trains no module, or that asks whether tensors are in the CPU's memory, keeps training on the CPU, with
`Accelerator(cpu=True)` and a note that says at which line. With `--runtime accelerate`, it is so wherever one tensor
is not understood.
A script that uses a GPU keeps its tensors where it has them: see `accelify explain device_moves`. It mixes devices only
where `nn.DataParallel`, which goes, brought batches there, or where nothing is known of a device.
Left alone: scripts whose models get batches of prepared loaders only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.devices.bringing import Bring
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Edit, Insert, Remark, Replace
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "own_tensors"
_LIMIT = 100  # columns


def find(script: Script) -> Iterator[Change | Remark]:
    """A change for each tensor that is brought to the device; a note at the first one that keeps the script from it."""
    for bring in script.devices.brought.bringing:
        if bring.kind == "moved" and bring.there and script.devices.together.mixed is not None:
            continue  # `mask.to(x.device)`: where it meets `x`, the runtime does that
        reason = "the models are on the device, so this tensor must be too"
        yield Change(NAME, script.path(bring.node), bring.node.lineno, reason, (_edit(bring),))
    yield from _unmatched(script)
    node = script.devices.together.homemade
    if node is not None and node not in script.devices.together.changed_by_arrays:
        message = (
            f"`{_short(node)}` is in CPU memory and the script names no device, so the script keeps training on "
            "the CPU; to use GPUs, move all tensors that no prepared loader yields to the accelerator's device, "
            "and remove `cpu=True`"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _unmatched(script: Script) -> Iterator[Remark]:
    """What only code that is not read can put on the device, where operations cannot mix devices."""
    node = script.devices.together.from_others
    if node is not None:
        message = (
            f"`{_short(node)}` and what it is computed with may now be on different devices: move one of them to "
            "the other's device"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _edit(bring: Bring) -> Edit:
    reads = tuple(n.id for n in ast.walk(ast.parse(bring.device)) if isinstance(n, ast.Name))
    if bring.kind == "made":
        return Replace(bring.node, partial(made_on, device=bring.device), keeps=(bring.node,), reads=reads)
    if bring.kind == "moved":
        return Replace(bring.node, partial(moved_to, device=bring.device), keeps=(bring.node,), reads=reads)
    code = _moves([n.id for n in bring.names], bring.device, bring.node.col_offset)
    if isinstance(bring.node, ast.For):
        return Insert(bring.node.body[0], "before", code)
    assert isinstance(bring.node, ast.stmt)
    return Insert(bring.node, "after", code)


def _moves(names: list[str], device: str, column: int) -> str:
    """`images, labels = images.to(device), labels.to(device)`; a line for each where one is too long."""
    moves = [f"{name}.to({device})" for name in names]
    line = f"{', '.join(names)} = {', '.join(moves)}"
    if column + len(line) <= _LIMIT:
        return line
    return "\n".join(f"{name} = {move}" for name, move in zip(names, moves, strict=True))


def made_on(call: cst.CSTNode, device: str) -> cst.BaseExpression:
    """`torch.zeros(3, device=device)`."""
    return snippets.with_keyword(call, "device", cst.parse_expression(device))


def moved_to(tensor: cst.CSTNode, device: str) -> cst.BaseExpression:
    """`tensor.to(device)`."""
    assert isinstance(tensor, cst.BaseExpression)
    if not tensor.lpar and not isinstance(tensor, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        tensor = tensor.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return snippets.expression(f"{{tensor}}.to({device})", tensor=tensor)


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."
