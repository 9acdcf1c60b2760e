"""The models that are prepared: those of the optimizers that step, wherever these are made, and those without one."""

from __future__ import annotations

import ast
from dataclasses import replace

from accelify.codemod.libraries import methods
from accelify.codemod.preparing.grouping import Item, trains
from accelify.codemod.preparing.objects.bindings import Bindings, within
from accelify.codemod.preparing.objects.found import Finder, Found
from accelify.codemod.preparing.objects.optimizer_models import Owners, is_plain
from accelify.codemod.preparing.reach import node_of
from accelify.codemod.semantics.in_place import is_fixed
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles


class Models(Finder):
    """Find models by the optimizers that are given their parameters, and by what asks for parameters."""

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, training: Training, bindings: Bindings, found: Found
    ) -> None:
        super().__init__(program, roles, tracer, training, bindings, found)
        self._owners = Owners(program, roles, tracer, training)

    def add(self, binding: Binding, chain: Chain, is_optional: bool = False) -> None:
        """Prepare the models of an optimizer, which `binding` names; `is_optional`: it is not made in each run."""
        models: dict[str, Item] = {}
        self.found.stepped.append(binding)
        for expression in self._owners.of(binding):
            models.setdefault(ast.unparse(expression), self._model(expression, binding))
        if not models and (chain[-1].kind == "parameter" or self._is_made_elsewhere(binding)):
            for expression, given in self._owners.given_to(chain[-1].scope):
                item = self.bindings.item("model", self.bindings.outermost(within(given)))
                models.setdefault(item.text, item)
                self.found.models |= set(self.program.values(expression))
                self.found.model_names.add(given[-1].node)
        for model in _whole(models).values():
            model = replace(model, without_optimizer=is_optional)
            if not any(
                (i.text, i.frame, i.statement) == (model.text, model.frame, model.statement) for i in self.found.items
            ):
                self.found.items.append(model)

    def _is_made_elsewhere(self, binding: Binding) -> bool:
        """Whether it is unknown where an optimizer is made: it comes out of a checkpoint, or from unknown code."""
        held = self.program.values(binding.node) | self.program.values(binding.value)
        return not any(map(self.roles.is_built_optimizer, held))

    def add_where_made(self, optimizer: ast.expr) -> None:
        """The models of an optimizer are prepared where it is made, wherever it is prepared itself."""
        made = [
            v.node for v in self.program.values(optimizer) if self.roles.is_built_optimizer(v) and isinstance(v, Made)
        ]
        for node in sorted(made, key=self.program.position):
            self.add_at(node)

    def add_at(self, node: ast.AST) -> None:
        """Prepare the models of an optimizer where a call makes it."""
        assert isinstance(node, ast.expr)
        binding = Binding("assign", self.program.frame(node), node, self.program.statement(node), node)
        self.add(binding, (binding,))

    def add_without_name(self) -> None:
        """Models that have no name where their optimizer is made: prepared under the name that they get, if any."""
        made = [c for binding in self.found.stepped for c in self._owners.without_name(binding, self.found.models)]
        for call in dict.fromkeys(made):
            self.found.models |= {v for v in self.program.values(call) if self.roles.is_model(v)}
            named = self._owners.named(call)
            if named is not None and self._is_put_into_a_model(named):
                continue
            if named is not None:
                self.found.items.append(self.bindings.item("model", named))
            else:
                self.found.wrapped.append(("model", call))
            self.found.needed.add(node_of(self.program.frame(call)))

    def _is_put_into_a_model(self, binding: Binding) -> bool:
        """Whether a model becomes a part of one that is prepared: `net[1] = Linear(4, 2)`."""
        target: ast.AST = binding.node
        while isinstance(target, (ast.Attribute, ast.Subscript)):
            target = target.value
            if self.program.values(target) & self.found.models:
                return True
        return False

    def _model(self, expression: ast.expr, binding: Binding) -> Item:
        """A model to prepare where its optimizer is."""
        text = ast.unparse(expression)
        self.found.models |= {v for v in self.program.values(expression) if self.roles.is_model(v)}
        self.found.model_names |= {chain[-1].node for chain in self.tracer.chains(expression)}
        line = self._bound_line(expression)
        may_assign = text != "self" and self.bindings.may_assign(text, binding.scope)
        assigned = may_assign and not is_fixed(self.program, expression)
        return Item("model", text, binding.scope, self._before_training(binding), line, assigned, binding.text)

    def _before_training(self, binding: Binding) -> ast.stmt | None:
        """The statement that makes an optimizer; the one before it where that trains or returns: `train(SGD(...))`."""
        found: ast.AST | None = binding.statement
        while isinstance(found, ast.stmt) and self._is_too_late(found, binding):
            block = self.program.block(found)
            if found is not block[0]:
                return block[block.index(found) - 1]
            found = self.program.parent(found)
        return found if isinstance(found, ast.stmt) and found is not binding.scope.node else None

    def _is_too_late(self, statement: ast.stmt, binding: Binding) -> bool:
        """Whether the model of an optimizer cannot be prepared behind a statement that makes it."""
        is_inline = binding.kind == "inline"
        return isinstance(statement, ast.Return) or (is_inline and trains(self.program, self.training, statement))

    def _bound_line(self, expression: ast.expr) -> int:
        named = [self.program.position(c[0].node) for c in self.tracer.chains(expression) if c]
        return max(named, default=self.program.position(expression)).line

    def add_without_optimizer(self) -> None:
        """Models that the script updates by hand."""
        for call in self.program.calls:
            if not isinstance(call.func, ast.Attribute) or not methods.gives_parameters(call.func.attr):
                continue
            frame = self.program.frame(call)
            if frame not in self.training.frames or not is_plain(call.func.value):
                continue
            for chain in self.tracer.chains(call.func.value):
                binding = self.bindings.outermost(within(chain))
                is_bound = binding.kind in ("assign", "parameter") and not self.bindings.is_refused(binding.value)
                if is_bound and not any(i.text == binding.text for i in self.found.items):
                    self.found.models |= set(self.program.values(call.func.value))
                    self.found.items.append(self.bindings.item("model", binding))


def _whole(models: dict[str, Item]) -> dict[str, Item]:
    """The models without those that are parts of others, by their texts: `model` for `model.head` and `model`."""
    return {text: m for text, m in models.items() if not any(text.startswith((f"{o}.", f"{o}[")) for o in models)}
