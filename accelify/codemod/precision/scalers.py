"""What does a script do with its gradient scaler?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.precision.switches import NotUnderstood, Switches, is_none, method_of_call
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops import Training
from accelify.codemod.training.roles import stepped

_USES = ("scale", "unscale_", "step", "update")


class Scaler:
    """The uses of the one scaler of a script.

    uses: its calls. bindings: the statements that give its name a value. parameters: what functions get it as. states:
    each place where a loss is scaled, with the settings on which that depends. Raises: NotUnderstood.
    """

    def __init__(
        self, program: Program, tracer: Tracer, training: Training, switches: Switches, scaler: ast.Call
    ) -> None:
        self.program = program
        self.tracer = tracer
        self.training = training
        self.switches = switches
        self.uses: list[ast.Call] = []
        self.parameters: set[tuple[Scope, str]] = set()
        self.states: list[tuple[ast.AST, frozenset[str]]] = []
        binding = self._binding(scaler)
        self.bindings = [binding, *self._empty(binding)]
        self._follow(scaler)

    def _follow(self, scaler: ast.Call) -> None:
        given = {k.arg for k in scaler.keywords} - {"enabled", "device"}
        if given or len(scaler.args) > 1:
            raise NotUnderstood(scaler, "the scaler has settings of its own")
        enabled = next((k.value for k in scaler.keywords if k.arg == "enabled"), None)
        conditions = self.switches.conditions(scaler, [enabled] if enabled is not None else [])
        for node in list(self.program.flow.values):
            if (
                node is not scaler
                and not isinstance(getattr(node, "ctx", None), ast.Store)
                and self.switches.is_scaler(node)
            ):
                self._use(node)
        scaled = [c for c in self.uses if method_of_call(c) == "scale"]
        if not scaled:
            raise NotUnderstood(scaler, "its losses are not scaled")
        for call in scaled:
            self.states.append((call, conditions | self.switches.conditions(call, [])))
        blocks = {id(self.program.block(self.program.statement(c))) for c in self.uses if method_of_call(c) == "step"}
        if len(blocks) > 1:
            raise NotUnderstood(scaler, "its optimizers step at different times")

    def _empty(self, binding: ast.stmt) -> Iterator[ast.stmt]:
        """Where the scaler's name is given None."""
        assert isinstance(binding, ast.Assign)
        text, frame = ast.unparse(binding.targets[0]), self.program.frame(binding)
        for node in self.program.parsed(binding).parents:
            if isinstance(node, ast.Assign) and node is not binding and ast.unparse(node.targets[0]) == text:
                if not is_none(node.value) or self.program.frame(node) is not frame:
                    raise NotUnderstood(node, "the scaler's name holds something else, too")
                yield node

    def _binding(self, scaler: ast.Call) -> ast.stmt:
        """The statement that gives the scaler its name."""
        statement = self.program.statement(scaler)
        value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(value, ast.IfExp):
            value = value.body if isinstance(value.orelse, ast.Constant) and value.orelse.value is None else None
        if value is not scaler:
            raise NotUnderstood(scaler, "cannot tell what the scaler is called")
        return statement

    def _use(self, node: ast.AST) -> None:
        parent = self.program.parent(node)
        statement = self.program.statement(node)
        if isinstance(parent, ast.Attribute):
            call = self.program.parent(parent)
            if parent.attr in _USES and isinstance(call, ast.Call) and call.func is parent:
                self._call(call)
                return
            raise NotUnderstood(node, f"`{ast.unparse(parent)}` is read")
        if isinstance(node, ast.IfExp) and isinstance(statement, ast.Assign) and statement.value is node:
            return
        if self._test(node) is not None:
            return
        if isinstance(parent, (ast.Call, ast.keyword)):
            call = parent if isinstance(parent, ast.Call) else self.program.parent(parent)
            assert isinstance(call, ast.Call)
            self._handed_on(node, call)
            return
        raise NotUnderstood(node, "the scaler is also used otherwise")

    def _handed_on(self, node: ast.AST, call: ast.Call) -> None:
        """A scaler that a function gets: the function loses the parameter."""
        callees = self.program.flow.callees.get(call, set())
        found = {
            (callee, parameter.arg)
            for callee in callees
            for parameter in callee.parameters
            if self.tracer.argument(call, callee, parameter.arg) is node
        }
        if len(found) != len(callees) or not found:
            raise NotUnderstood(node, "the scaler is handed to code that is not known")
        for callee, name in found:
            for caller in self.program.flow.callers.get(callee, ()):
                given = self.tracer.argument(caller, callee, name)
                if callee in self.program.flow.escaped or not (self.switches.is_scaler(given) or is_none(given)):
                    raise NotUnderstood(node, "the scaler is handed to code that is not known")
        self.parameters |= found

    def _call(self, call: ast.Call) -> None:
        method, statement = method_of_call(call), self.program.statement(call)
        is_alone = isinstance(statement, ast.Expr) and statement.value is call
        if method == "scale":
            outer = self.program.parent(call)
            backward = self.program.parent(outer) if isinstance(outer, ast.Attribute) else None
            if backward not in self.training.backwards or len(call.args) != 1 or call.keywords:
                raise NotUnderstood(call, "a scaled loss is used for more than its backward pass")
        elif not is_alone or call.keywords or len(call.args) != int(method != "update"):
            raise NotUnderstood(call, f"cannot tell what `{ast.unparse(call)}` is for")
        elif method == "step" and not (call in self.training.steps and stepped(call) is call.args[0]):
            raise NotUnderstood(call, "cannot tell which optimizer this steps")
        self.uses.append(call)

    def _test(self, node: ast.AST) -> bool | None:
        """Whether a scaler in a condition means that there is one; None where it is no condition."""
        parent = self.program.parent(node)
        is_there = True
        if isinstance(parent, ast.Compare) and parent.left is node and len(parent.ops) == 1:
            if not is_none(parent.comparators[0]) or not isinstance(parent.ops[0], (ast.Is, ast.IsNot)):
                return None
            is_there = isinstance(parent.ops[0], ast.IsNot)
            node, parent = parent, self.program.parent(parent)
        if not isinstance(parent, ast.If) or parent.test is not node:
            return None
        if not self.switches.is_choice(parent, is_there):
            raise NotUnderstood(node, "what is done with a scaler is not what is done without")
        return is_there
