"""Point out calls that look like torch's but are the project's own.

    net.cuda()          class Net defines `cuda`: the call stays, and moves what that method moves
    net = cuda(net)     a function of the script's own: as above
    criterion.backward() class Loss defines `backward`: the backward pass inside it is what changes
    dx = layer.backward(dy)    gives something back, as no tensor's backward pass does
    scaler.cuda()       nothing tells the class of this parameter: it may be its own

Why: by their names alone these lines look like ones that a migration has forgotten.
Left alone: everything; the rule only reports. Where the method or function is known, what it moves is decided inside
it, and the call is only on record: in JSON as a note of tier `info`, in the text with `-v`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Remark, When
from accelify.codemod.libraries import methods
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope, method_of_call

NAME = "own_methods"


def find(script: Script) -> Iterator[Remark]:
    """A note or a record for each such call of the changed files."""
    for call in script.program.calls:
        path = script.path(call)
        own = (f for f in script.program.flow.callees.get(call, ()) if _inside(f) and not _is_by_super(call))
        if (called := next(own, None)) is not None:
            message = f"stays: `{called.qualified_name}` is the script's own; {_inside(called)}"
            yield Remark(NAME, path, call, message, Tier.INFO, When.LEFT)
        elif _gives_a_gradient(script, call):
            message = "not changed: it returns a value, which a tensor's `backward` does not"
            when = When.ALWAYS if path in script.files else When.CHANGED
            yield Remark(NAME, path, call, message, Tier.REVIEW, when)
    known = script.devices.known
    for move in script.devices.moves:
        is_reached = script.accelerator(move.call) is not None
        if is_reached and known.is_of_any_class(move) and known.moves_itself(move):
            receiver = ast.unparse(move.receiver)
            message = (
                f"not changed: nothing here tells the class of `{receiver}`, which may have no `to`; its own `cuda` "
                "moves it to this process's own GPU"
            )
            yield Remark(NAME, script.path(move.call), move.call, message, Tier.REVIEW, When.CHANGED)


def _inside(called: Scope) -> str | None:
    """What is decided inside a method or function of the script's own that has the name of one of torch's."""
    if methods.moves_to_device(called.name):
        return "the moves inside it are looked at there"
    return "the backward pass inside it is looked at there" if called.name == "backward" else None


def _gives_a_gradient(script: Script, call: ast.Call) -> bool:
    is_by_name = method_of_call(call) == "backward"
    return is_by_name and isinstance(script.program.parent(call), ast.Assign) and not _is_by_super(call)


def _is_by_super(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith("super(")
