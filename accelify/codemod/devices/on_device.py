"""Is a tensor on the process's device, where one process without a GPU had it in the CPU's memory?"""

from __future__ import annotations

import ast

from accelify.codemod.preparing.prepared import Prepared, brings_to_cpu
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.purity import TELLS, tells_about
from accelify.codemod.training.roles import Roles

_CPU_TENSORS = tuple(f"torch.{kind}Tensor" for kind in ("", "Float", "Double", "Half", "Long", "Int", "Short", "Byte"))
_MADE = {"numpy.array", "numpy.asarray", *_CPU_TENSORS}
_READERS = ("matplotlib.", "sklearn.", "scipy.", "pandas.", "seaborn.", "skimage.", "plotly.")
_DEPTH = 4


class OnDevice:
    """Follow expressions back to the batches of prepared loaders and to what prepared models make of them."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, prepared: Prepared) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.prepared = prepared

    def holds(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression is certainly there; one that was brought to the CPU on its way is not."""
        if not depth or brings_to_cpu(node) or self._is_made_on_cpu(node) or tells_about(node):
            return False
        if self.prepared.is_batch(node):
            return True
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return self.holds(node.value, depth)
        if isinstance(node, ast.BinOp):
            return self.holds(node.left, depth) or self.holds(node.right, depth)
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        return isinstance(node, ast.Call) and self._made(node, depth)

    def _name(self, node: ast.Name, depth: int) -> bool:
        owner = self.program.scope(node).owner(node.id)
        writes = [] if owner is None else self.program.reaching(node, self.tracer.writes(owner, node.id))
        values = [self._assigned(w) for w in writes]
        return bool(values) and all(v is not None and self.holds(v, depth - 1) for v in values)

    def _assigned(self, write: ast.AST) -> ast.expr | None:
        if not isinstance(write, ast.Name):
            return None
        statement = self.program.statement(write)
        return self.tracer.assigned(write) or (statement.value if isinstance(statement, ast.Assign) else None)

    def _made(self, call: ast.Call, depth: int) -> bool:
        """What a prepared model, a method of a tensor or a function of torch's makes of what is there."""
        held = self.program.values(call.func)
        if self.prepared.is_model(call.func) or (held and held <= self.prepared.preparation.models):
            return True
        if isinstance(call.func, ast.Attribute) and self.holds(call.func.value, depth):
            return call.func.attr not in TELLS
        is_torch = any(name.startswith("torch.") for name in self.program.called(call))
        return (is_torch or any(self.roles.is_module(v) for v in held)) and any(self.holds(a, depth) for a in call.args)

    def _is_made_on_cpu(self, node: ast.expr) -> bool:
        """`torch.FloatTensor(x)`."""
        return isinstance(node, ast.Call) and any(n in _CPU_TENSORS for n in self.program.called(node))


def read_on_cpu(program: Program, call: ast.Call) -> list[ast.expr]:
    """What a call reads in the CPU's memory only: `x` of `x.numpy()`, `np.array(x)` and `plt.plot(x)`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
        return [call.func.value]
    called = program.called(call)
    given = call.args[:1] if called & _MADE else []
    if any(name.startswith(_READERS) for name in called):
        given = [*call.args, *(k.value for k in call.keywords)]
    return [a for a in given if not isinstance(a, ast.Starred)]
