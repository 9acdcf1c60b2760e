"""Where does an option of the script name the device of a call? `x.to(args.device)`, `device=config["gpu"]`"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from accelify.codemod.devices.moves import Move, last_name
from accelify.codemod.libraries import vocabulary
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Made

_OPTIONS = re.compile(r"(self\.)?(args|opts?|config|cfg|hparams|params|flags)[.\[]", re.IGNORECASE)


class NamedDevices:
    """Find the arguments that are such options, in some files; `moves` are the moves there that stay."""

    def __init__(self, program: Program, tracer: Tracer, files: set[str], moves: list[Move]) -> None:
        self.program = program
        self.tracer = tracer
        self.files = files
        self.moved = {m.device for m in moves if m.device is not None and _is_to(m.call)}

    def find(self) -> Iterator[ast.expr]:
        """The arguments, in no order."""
        for call in self.program.calls:
            if self.program.path(call) in self.files:
                for argument in [*call.args, *(k.value for k in call.keywords)]:
                    if self._is_a_place_for_devices(call, argument) and self.is_option(argument):
                        yield argument

    def is_option(self, node: ast.expr) -> bool:
        """Whether an expression is a device that the script's user names, and that the script never sets itself."""
        is_setting = isinstance(node, (ast.Attribute, ast.Subscript)) and _OPTIONS.match(ast.unparse(node))
        if not is_setting or not vocabulary.is_device_name(last_name(node)):
            return False
        values = self.program.values(node)
        return not any(isinstance(v, (Made, Instance)) for v in values) and last_name(node) not in self._set

    @cached_property
    def _set(self) -> set[str]:
        """The last names of what the script gives a value, but for its objects' own attributes."""
        stores = (
            n
            for parsed in self.program.files
            for n in parsed.parents
            if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store)
        )
        return {last_name(s) for s in stores if not ast.unparse(s).startswith("self.")}

    def _is_a_place_for_devices(self, call: ast.Call, argument: ast.expr) -> bool:
        if argument in self.moved:
            return True
        keyword = next((k.arg for k in call.keywords if k.value is argument), None)
        if "torch.device" in self.program.called(call):
            return False
        if keyword is not None:
            return keyword in ("device", "map_location")
        callees = self.program.flow.callees.get(call, set())
        return bool(callees) and all(self._only_moves_to_it(call, argument, c) for c in callees)

    def _only_moves_to_it(self, call: ast.Call, argument: ast.expr, function: Scope) -> bool:
        """Whether a function of the project's own does nothing with an argument but move things there."""
        taken = [p.arg for p in function.parameters if self.tracer.argument(call, function, p.arg) is argument]
        reads = [r for name in taken for r in self.program.reads_of(function, name)]
        return bool(reads) and all(self._is_where_something_goes(r) for r in reads)

    def _is_where_something_goes(self, read: ast.AST) -> bool:
        parent = self.program.parent(read)
        if isinstance(parent, ast.keyword):
            return parent.arg == "device"
        return isinstance(parent, ast.Call) and _is_to(parent) and read in parent.args


def _is_to(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "to"
