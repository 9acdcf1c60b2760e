"""Which networks run where they are not prepared: a frozen one, a target network, one that is tried out before?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import names
from accelify.codemod.preparing.grouping import Group
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.provenance import Binding, Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Made

_LEARN_NOTHING = (
    *("Loss", "Softmax", "Softmax2d", "LU", "Tanh", "Sigmoid", "Softplus", "Hardtanh", "Mish", "Identity"),
    *("Flatten", "Unflatten", "Upsample", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "PixelShuffle"),
    *("Pool1d", "Pool2d", "Pool3d", "Pad1d", "Pad2d", "Pad3d", "Similarity", "Distance"),
)


class Cold:
    """Such a network is on the CPU while it runs."""

    def __init__(self, tensors: Tensors, tracer: Tracer) -> None:
        self.tensors = tensors
        self.tracer = tracer
        self.program = tensors.program
        self.roles = tensors.roles
        self.preparation = tensors.prepared.preparation

    def made_at(self, call: ast.Call) -> list[ast.Call] | None:
        """Where the networks are made that a call runs cold; None where that cannot be told."""
        network = self._network(call)
        held = self.program.values(network)
        if network is None or not any(map(self.learns, held)):
            return []
        if self.tensors.is_in_model(self.program.frame(call)):
            return None if isinstance(network, ast.Call) else []
        if held <= self.preparation.models and self._trains_itself(network):
            return []
        found: list[ast.Call] = []
        for chain in self.tracer.chains(network):
            items = [b for b in chain if self._is_prepared(b)]
            if items and not any(self._runs_before(call, g) for b in items for g in self._groups(b)):
                continue
            made = chain[-1].value
            if not isinstance(made, ast.Call) or not any(map(self.roles.is_module, self.program.values(made))):
                return None
            found.append(made)
        return found if found or self.tracer.chains(network) or held <= self.preparation.models else None

    def _network(self, call: ast.Call) -> ast.expr | None:
        """`net` of `net(x)`, `net.forward(x)` and `net.head(x)`."""
        node = call.func
        if isinstance(node, ast.Attribute) and any(map(self._is_network, self.program.values(node.value))):
            return node.value if self.program.flow.callees.get(call) or self._is_any_network(node) else None
        return node if self._is_any_network(node) else None

    def _is_any_network(self, node: ast.expr) -> bool:
        return any(map(self._is_network, self.program.values(node)))

    def _is_network(self, value: object) -> bool:
        return isinstance(value, (Made, Instance)) and self.roles.is_module(value)

    def _trains_itself(self, network: ast.expr) -> bool:
        """Whether a network's class prepares itself."""
        own = [i.frame.parent for i in self.preparation.bare_models if i.text == "self"]
        return any(isinstance(v, Instance) and v.cls in own for v in self.program.values(network))

    def _is_prepared(self, binding: Binding) -> bool:
        if any(binding.node is node for kind, node in self.preparation.wrapped if kind == "model"):
            return True
        items = [i for i in [*self.preparation.items, *self.preparation.bare_models] if i.kind == "model"]
        return any(i.frame is binding.scope and i.text == binding.text for i in items)

    def _groups(self, binding: Binding) -> Iterator[Group]:
        for group in self.preparation.groups:
            if group.frame is binding.scope and any(i.text == binding.text for i in group.items):
                yield group

    def _runs_before(self, call: ast.Call, group: Group) -> bool:
        """Whether a call runs, or may run, above the line at which a group is prepared."""
        if group.anchor is None:
            return False
        frame, last = self.program.frame(call), group.anchor.end_lineno or group.anchor.lineno
        if frame is group.frame:
            return call.lineno <= last
        earlier = [c for c in self.program.calls_in(group.frame) if c.lineno <= last]
        started = {s for c in earlier for s in self.program.flow.callees.get(c, ()) if s.name != "__init__"}
        return frame in self._run_from(started)

    def _run_from(self, scopes: set[Scope]) -> set[Scope]:
        return self.program.run_from(scopes) if scopes else set()

    def learns(self, value: object) -> bool:
        """Whether a module has weights, as far as can be seen."""
        if isinstance(value, Made):
            name = value.name or ""
            return names.is_module(name) and not (name.startswith("torch.nn.") and name.endswith(_LEARN_NOTHING))
        if not isinstance(value, Instance) or not self.roles.is_module(value):
            return False
        calls = [c for s in value.cls.walk() for c in self.program.calls_in(s)]
        made = {n for c in calls for n in self.program.called(c)}
        inside = {v for c in calls for v in self.program.values(c) if isinstance(v, Instance) and v != value}
        if any(n.endswith("Parameter") or (names.is_module(n) and not n.endswith(_LEARN_NOTHING)) for n in made):
            return True
        return any(map(self.learns, inside - {value}))
