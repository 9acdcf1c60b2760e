"""Where does a script set weights, buffers or options of optimizers by hand, from what is one rank's own?

    with torch.no_grad():
        gate.weight.fill_(loss.item())
    for p in model.parameters():
        p.data.add_(0.01 * torch.randn_like(p))
    optimizer.param_groups[0]["weight_decay"] = 0.01 * loss.item()

Gradients are averaged across the ranks, so that steps of optimizers leave all models alike. What is written into their
tensors is each rank's own. What a forward pass changes itself is asked of `forward_state`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.forward_state import buffer_names, passes_of
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.module_tensors import ModuleTensors
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics.values import Member


class OwnWeights:
    """Find the changes that no report names, and tell whether all ranks get those of rank 0."""

    def __init__(self, metrics: Metrics) -> None:
        self.ranks = metrics.ranks
        self.program = metrics.measured.program
        self.tensors = ModuleTensors(self.ranks.chains, metrics.measured.roles)
        self.prepared = metrics.measured.prepared.preparation.models
        self.modules, self.run = passes_of(self.program)
        self.reported = {self.program.statement(report.node) for report in metrics.reports}

    def find(self) -> Iterator[tuple[ast.AST, ast.expr]]:
        """The targets and calls by which tensors and settings are set, each with the tensor or the setting."""
        for node in (n for parsed in self.program.files for n in parsed.nodes if self._is_asked(n)):
            for changed, given in self._changes(node):
                tensor = changed if self._loads(node, changed) else self.tensors.find(changed)
                tensor = tensor or self.tensors.settings.find(changed)
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
        owners = set(self.tensors.owners(tensor))
        name = tensor.attr if isinstance(tensor, ast.Attribute) else ""
        is_buffer = any(name in buffer_names(self.program, cls) for cls in self.modules)
        are_theirs = all(v in known or (isinstance(v, Member) and v.root in known) for v in owners)
        return bool(owners) and are_theirs and (weights or is_buffer)

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
        return any(row.has(Trait.REPLACES) for row in rows) and self.tensors.is_module(changed)

    def _is_own(self, node: ast.AST, given: list[ast.expr]) -> bool:
        """Whether a rank's own values are written, or decide whether anything is."""
        tests = (branching.test for branching, _ in self.program.branches_round(node))
        return any(map(self.ranks.is_own, given)) or any(map(self.ranks.is_own, tests))


def _keys(node: ast.expr) -> list[ast.expr]:
    """`i` and `j` of `x[i].data[j]`"""
    found: list[ast.expr] = []
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        found += [node.slice] if isinstance(node, ast.Subscript) else []
        node = node.value
    return found
