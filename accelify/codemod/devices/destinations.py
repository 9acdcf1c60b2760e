"""Whose device does a move go to: this process's, another value's, or one and the same GPU in every process?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from accelify.codemod.devices.moves import Move, last_name
from accelify.codemod.devices.options import options_in
from accelify.codemod.libraries.vocabulary import is_device_name
from accelify.codemod.semantics.values import Constant

if TYPE_CHECKING:
    from accelify.codemod.script import Script


def is_number_of_a_gpu(script: Script, move: Move) -> bool:
    """Whether a move goes to one GPU by its number, which is another one for each process."""
    if script.distribution is not None and move.device in script.distribution.devices:
        return True
    if isinstance(move.device, ast.Subscript) and _is_one_of_several(move.device):
        return True
    held = script.program.values(move.device) if move.device is not None else frozenset()
    is_whole = bool(held) and all(isinstance(v, Constant) and type(v.value) is int for v in held)
    return is_whole and not _is_only_parameter(script, move)


def gpu_texts(node: ast.AST) -> Iterator[ast.expr]:
    """The parts of some code that are a GPU by its number: `"cuda:0"`, `f"cuda:{gpu}"`, `"cuda:" + str(gpu)`."""
    if isinstance(node, ast.expr) and re.fullmatch(r"cuda:(\d+|\{\})", _template(node)):
        yield node
    else:
        for part in ast.iter_child_nodes(node):
            yield from gpu_texts(part)


def _template(node: ast.AST) -> str:
    """A text with `{}` for what the script fills in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return re.sub(r"\{[^{}]*\}", "{}", _template(node.func.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%\w", "{}", _template(node.left))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Constant):
        return _template(node.left) + "{}"
    return ""


def _is_one_of_several(device: ast.Subscript) -> bool:
    """`gpu_ids[0]`"""
    is_place = isinstance(device.slice, ast.Constant) and type(device.slice.value) is int
    return is_place and is_device_name(last_name(device)) and last_name(device).endswith("s")


def _is_only_parameter(script: Script, move: Move) -> bool:
    """Whether a move's device is a parameter that only moves read, which would be left over."""
    frame = script.program.frame(move.call)
    if not isinstance(move.device, ast.Name) or move.device.id not in {p.arg for p in frame.parameters}:
        return False
    devices = {m.device for m in script.devices.moves}
    return all(r in devices for r in script.program.reads_of(frame, move.device.id))


def is_of_process(script: Script, device: ast.expr) -> bool:
    """Whether all that a device's variable may hold are devices that the script chose, and the accelerator does now."""
    held = script.program.values(device)
    return bool(held) and all(map(script.roles.is_device, held))


def is_where_another_is(device: ast.expr | None) -> bool:
    """Whether a move brings a value to where another one is, `x.to(y.device)`, which is right in any process."""
    if not isinstance(device, ast.Attribute) or device.attr != "device":
        return False
    owner = device.value
    is_holder = isinstance(owner, ast.Name) and owner.id == "self"  # or an option
    return not is_holder and not options_in(device)


def is_worker_code(script: Script, node: ast.AST) -> bool:
    """Whether code is a data set's, which runs in the loader's worker processes."""
    frame = script.program.frame(node)
    while frame.parent is not None:
        if frame.kind == "class" and any("Dataset" in b for b in script.program.flow.external_bases(frame)):
            return True
        frame = frame.parent
    return False
