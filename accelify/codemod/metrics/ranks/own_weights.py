"""Where does a script set weights or buffers of a module by hand, from what is one rank's own?

    with torch.no_grad():
        gate.weight.fill_(loss.item())
    for p in model.parameters():
        p.data.add_(0.01 * torch.randn_like(p))

Gradients are averaged across the ranks, so that steps of optimizers leave all models alike. What is written into their
tensors is each rank's own. What a forward pass changes itself is asked of `forward_state`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.forward_state import buffer_names, kept_names, passes_of
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant, Instance, Member, Parameters, Value


class OwnWeights:
    """Find the changes that no report names, and tell whether all ranks get those of rank 0."""

    def __init__(self, metrics: Metrics) -> None:
        self.ranks = metrics.ranks
        self.program = metrics.measured.program
        self.roles = metrics.measured.roles
        self.prepared = metrics.measured.prepared.preparation.models
        self.modules, self.run = passes_of(self.program)
        self.reported = {self.program.statement(report.node) for report in metrics.reports}
        self._kept: dict[Scope, set[str]] = {}

    def find(self) -> Iterator[tuple[ast.AST, ast.expr]]:
        """The targets and calls by which tensors of modules are set, each with the tensor."""
        for node in (n for parsed in self.program.files for n in parsed.nodes if self._is_asked(n)):
            for changed, given in self._changes(node):
                tensor = changed if self._loads(node, changed) else self._tensor(changed)
                if tensor is not None and self._is_own(node, given):
                    yield node, tensor
                    break

    def is_drawn(self, node: ast.AST) -> bool:
        """Whether a change writes no more than random numbers, of which one rank's are as good as another's."""
        given = [value for _, values in self._changes(node) for value in values]
        tests = [branching.test for branching, _ in self.program.branches_round(node)]
        origins = [o for value in (*given, *tests) for o in self.ranks.of(value).origins if o.differs]
        return all(origin.mark is Mark.DRAW for origin in origins)

    def is_broadcast(self, tensor: ast.expr, *, weights: bool) -> bool:
        """Whether a tensor is one of prepared models alone, of which all ranks get that of rank 0.

        weights: whether weights that no optimizer makes agree do so, too, and not buffers alone.
        """
        known = {*self.prepared, *(part for v in self.prepared for part in self.program.flow.modules_inside(v))}
        owners = set(self._owners(tensor))
        name = tensor.attr if isinstance(tensor, ast.Attribute) else ""
        is_buffer = any(name in buffer_names(self.program, cls) for cls in self.modules)
        are_theirs = all(v in known or (isinstance(v, Member) and v.root in known) for v in owners)
        return bool(owners) and are_theirs and (weights or is_buffer)

    def _owners(self, tensor: ast.expr) -> Iterator[Value]:
        """The modules that a tensor may be one of."""
        if self._is_module(tensor):
            yield from (v for v in self.program.values(tensor) if v != Constant(None))
        elif isinstance(tensor, ast.Attribute):
            yield from (v for v in self.program.values(tensor.value) if not isinstance(v, Constant))
        else:
            held = self._held(tensor) if isinstance(tensor, ast.Name) else ()
            yield from (v.owner for v in held if isinstance(v, (Parameters, Member)))

    def _is_asked(self, node: ast.AST) -> bool:
        """Whether a node may be such a change, outside of forward passes and of what makes a module."""
        is_change = isinstance(node, ast.Call) or isinstance(getattr(node, "ctx", None), ast.Store)
        frame = self.program.frame(node) if is_change else None
        if frame is None or not self.program.is_run(node) or frame in self.run or frame.name == "__init__":
            return False
        return self.program.statement(node) not in self.reported

    def _changes(self, node: ast.AST) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
        """What a target or a call of a library changes, each with what it is made from."""
        if isinstance(node, ast.Call):
            if not self.program.flow.callees.get(node):
                arguments = [*node.args, *(k.value for k in node.keywords)]
                for changed in self.ranks.chains.changes(node):
                    yield changed, [a for a in arguments if a is not changed]
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            parent = self.program.parent(node)
            is_name = isinstance(node, ast.Name)  # `p -= x` changes its tensor, `p = x` does not
            value = assigned_to(self.program, node) if not is_name else None
            value = parent.value if isinstance(parent, ast.AugAssign) else value
            if value is not None:
                yield node, [value, *_keys(node)]

    def _loads(self, node: ast.AST, changed: ast.expr) -> bool:
        """Whether a call gives all tensors of a module other values: `net.load_state_dict(best)`."""
        rows = self.ranks.chains.kinds.called(node) or () if isinstance(node, ast.Call) else ()
        return any(row.has(Trait.REPLACES) for row in rows) and self._is_module(changed)

    def _is_module(self, node: ast.expr) -> bool:
        held = [v for v in self.program.values(node) if v != Constant(None)]
        return bool(held) and all(map(self.roles.is_module, held))

    def _is_own(self, node: ast.AST, given: list[ast.expr]) -> bool:
        """Whether a rank's own values are written, or decide whether anything is."""
        tests = (branching.test for branching, _ in self.program.branches_round(node))
        return any(map(self.ranks.is_own, given)) or any(map(self.ranks.is_own, tests))

    def _tensor(self, changed: ast.expr) -> ast.expr | None:
        """The weight or buffer of a module of which an expression is a part, or a view: `net.bias` of `net.bias[0]`."""
        while isinstance(changed, (ast.Subscript, ast.Attribute, ast.Call)) and not self._is_tensor(changed):
            if isinstance(changed, ast.Call):
                if not isinstance(changed.func, ast.Attribute) or not methods.changes_in_place(changed.func.attr):
                    return None
                changed = changed.func.value
            elif isinstance(changed, ast.Attribute) and not methods.is_view(changed.attr):
                return None
            else:
                changed = changed.value
        return changed if self._is_tensor(changed) else None

    def _is_tensor(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute) and not methods.is_view(node.attr):
            held = self.program.values(node.value)
            return any(self._has(v, node.attr) for v in held)
        is_named = isinstance(node, ast.Call) and "getattr" in self.program.called(node)
        values = self._held(node) if isinstance(node, ast.Name) else self.program.values(node) if is_named else ()
        return any(isinstance(v, Parameters) or (isinstance(v, Member) and self._has(v.owner, v.name)) for v in values)

    def _held(self, name: ast.Name) -> Collection[Value]:
        """The values of a name, which `p -= x` reads, too."""
        owner = self.program.scope(name).owner(name.id)
        is_read = isinstance(name.ctx, ast.Load) or owner is None
        return self.program.values(name) if is_read or owner is None else self.program.flow.variable(owner, name.id)

    def _has(self, owner: Value, name: str) -> bool:
        """Whether a module has a weight or a buffer of a name."""
        if not self.roles.is_module(owner) or not isinstance(owner, Instance):
            return self.roles.is_module(owner) and methods.is_module_tensor(name)
        family = (owner.cls, *self.program.flow.ancestors(owner.cls))
        return any(name in self._names_kept(cls) for cls in family)

    def _names_kept(self, cls: Scope) -> set[str]:
        if cls not in self._kept:
            self._kept[cls] = kept_names(self.program, cls)
        return self._kept[cls]


def _keys(node: ast.expr) -> list[ast.expr]:
    """`i` and `j` of `x[i].data[j]`"""
    found: list[ast.expr] = []
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        found += [node.slice] if isinstance(node, ast.Subscript) else []
        node = node.value
    return found
