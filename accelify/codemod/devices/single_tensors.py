"""Is something certainly one tensor, and not a list of them, a text or a number?"""

from __future__ import annotations

import ast

from accelify.codemod.devices.lattice import Lattice
from accelify.codemod.libraries import names, table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Made

_DEPTH = 6
_TENSORS_OWN = frozenset(
    "size shape view reshape float long double int unsqueeze squeeze numpy dim permute flatten item data resize_ "
    "view_as type_as ndim transpose requires_grad_ requires_grad detach clone contiguous argmax numel expand T".split()
)
_DATA_SETS = ("torchvision.datasets.", "torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
_PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset", "torch.utils.data.dataset.Subset")


class Shapes:
    """Tell by how a thing is made, and by how it is used."""

    def __init__(self, whereabouts: Lattice) -> None:
        self.whereabouts = whereabouts
        self.program = whereabouts.program
        self.tracer = whereabouts.tracer
        self.tensors = whereabouts.tensors

    def is_tensor(self, node: ast.expr | None, depth: int = _DEPTH) -> bool:
        """Whether an expression is one tensor."""
        if node is None or not depth:
            return False
        if isinstance(node, ast.BinOp):
            return self.is_tensor(node.left, depth - 1) or self.is_tensor(node.right, depth - 1)
        if isinstance(node, ast.Subscript):
            return self.is_tensor(node.value, depth - 1) or self._is_used_as_one(node)
        if isinstance(node, ast.Attribute):
            if node.attr in ("data", "T", "grad"):
                return self.is_tensor(node.value, depth - 1)
            written = self.program.attribute_writes.get(node.attr, ())
            return bool(written) and all(self.is_tensor(self.tracer.assigned(w), depth - 1) for w in written)
        if isinstance(node, ast.Call):
            return self._is_made_one(node, depth)
        if not isinstance(node, ast.Name):
            return False
        owner = self.program.scope(node).owner(node.id)
        writes = [] if owner is None else self.program.reaching(node, self.tracer.writes(owner, node.id))
        return bool(writes) and owner is not None and all(self.holds_one(owner, w, depth) for w in writes)

    def _is_made_one(self, call: ast.Call, depth: int) -> bool:
        if self.tensors.is_creator(call):
            return True
        callees = self.program.flow.callees.get(call)
        if callees:
            return all(self.is_tensor(r, depth - 1) for r in returned(callees))
        called = self.program.called(call)
        rows = [table.function(n) for n in called]
        is_joined = any(r is not None and r.returns == "tensor" and r.has(Trait.ONE_DEVICE) for r in rows)
        if is_joined or any(n.startswith("torch.autograd.Variable") for n in called):
            return True
        if any(n.startswith("torch.") and n.rpartition(".")[2].islower() for n in called):
            return any(self.is_tensor(a, depth - 1) for a in call.args)
        is_method = isinstance(call.func, ast.Attribute) and not called
        return is_method and self.is_tensor(call.func.value, depth - 1)  # type: ignore[attr-defined]  # a method's

    def holds_one(self, owner: Scope, write: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a binding gives its name a tensor."""
        if isinstance(write, ast.arg):
            if self._is_name_used_as_one(owner, write.arg):
                return True
            calls = self.program.flow.callers.get(owner, ())
            return bool(calls) and all(
                self.is_tensor(self.tracer.argument(c, owner, write.arg), depth - 1) for c in calls
            )
        if not isinstance(write, ast.Name):
            return False
        value = self.tracer.assigned(write)
        if value is not None and self.is_tensor(value, depth - 1):
            return True
        return self._is_of_tensors(write) or self._is_name_used_as_one(owner, write.id)

    def _is_of_tensors(self, write: ast.Name) -> bool:
        """Whether a name gets a part of a batch of a data set that is known to yield tensors."""
        if self.whereabouts.is_batch(write):
            return False
        source = self._source(write)
        chains = self.tracer.chains(source) if source is not None else []
        return bool(chains) and all(self._has_tensors(chain[-1].value) for chain in chains)

    def _source(self, write: ast.Name) -> ast.expr | None:
        """The loader, or the iterator over it, of whose batch a name gets a part."""
        statement = self.program.statement(write)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            return statement.iter
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Call):
            return self.whereabouts.following(value)
        whole = [p.origin for p in self.whereabouts.of(value) if self.whereabouts.is_batch(p.origin)]
        return self._source(whole[0]) if len(whole) == 1 and isinstance(whole[0], ast.Name) else None

    def _has_tensors(self, loader: ast.expr | None) -> bool:
        """Whether a loader collates known data as torch does."""
        is_plain = isinstance(loader, ast.Call) and all(k.arg not in ("collate_fn", None) for k in loader.keywords)
        if not is_plain or not any(map(names.is_torch_loader, self.program.called(loader))):  # type: ignore[arg-type]  # a call
            return False
        assert isinstance(loader, ast.Call)
        given = loader.args[0] if loader.args else next((k.value for k in loader.keywords if k.arg == "dataset"), None)
        return self._yields_tensors(given, _DEPTH)

    def _yields_tensors(self, data: ast.expr | None, depth: int) -> bool:
        made = [v for v in self.program.values(data) if isinstance(v, Made)]
        if not made or not depth:
            return False
        for value in made:
            name = value.name or ""
            of_parts = name.startswith(_PARTS) and isinstance(value.node, ast.Call) and bool(value.node.args)
            if of_parts and self._yields_tensors(value.node.args[0], depth - 1):  # type: ignore[attr-defined]  # a call
                continue
            if not name.startswith(_DATA_SETS):
                return False
        return True

    # By use.

    def _is_name_used_as_one(self, owner: Scope, name: str, depth: int = 2) -> bool:
        return any(self._is_used_as_one(read, depth) for read in owner.reads.get(name, ()))

    def _is_used_as_one(self, read: ast.expr, depth: int = 2) -> bool:
        parent = self.program.parent(read)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _TENSORS_OWN
        if not isinstance(parent, ast.Call) or parent.func is read:
            return False
        if self.tensors.is_loss(parent):
            return True
        values = self.program.values(parent.func)
        if any(isinstance(v, Made) and (v.name or "").startswith("torch.nn.") for v in values):
            return True
        given = [(c, p.arg) for c in self.program.flow.callees.get(parent, ()) if depth for p in c.parameters]
        taken = [(c, name) for c, name in given if self.tracer.argument(parent, c, name) is read]
        return bool(taken) and all(self._is_name_used_as_one(c, name, depth - 1) for c, name in taken)
