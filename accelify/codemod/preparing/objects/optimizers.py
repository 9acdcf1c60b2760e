"""The optimizers that are prepared: those that take a step in the training, where they are made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from accelify.codemod.libraries import methods
from accelify.codemod.preparing.grouping import any_trains
from accelify.codemod.preparing.handed_back import is_handed_through
from accelify.codemod.preparing.objects.bindings import Bindings, within
from accelify.codemod.preparing.objects.found import Finder, Found
from accelify.codemod.preparing.objects.models import Models
from accelify.codemod.preparing.objects.optimizer_models import is_plain
from accelify.codemod.preparing.reach import method_of
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Made
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles, stepped


class Optimizers(Finder):
    """Find optimizers by the steps that they take."""

    def __init__(
        self,
        program: Program,
        roles: Roles,
        tracer: Tracer,
        training: Training,
        bindings: Bindings,
        models: Models,
        found: Found,
    ) -> None:
        super().__init__(program, roles, tracer, training, bindings, found)
        self.models = models

    def find(self) -> None:
        """Prepare each optimizer that takes a step, and its models."""
        done: set[ast.AST] = set()
        for step in self._outer_steps():
            receiver = stepped(step)
            found = self.tracer.chains(receiver)
            chains = [c for c in found if not self._is_for_other_calls(c)] or found
            if not chains and self._inside_something(receiver):
                continue
            if not chains or any(_is_taken_out(c) for c in chains):
                self._without_name(receiver, step)
                continue
            for chain in map(within, chains):
                binding = self.bindings.outermost(chain)
                if binding.node in done or binding.is_none or self.bindings.is_refused(binding.value):
                    continue
                if isinstance(binding.statement, (ast.With, ast.AsyncWith)):
                    continue  # it is there for that block alone: `with higher.innerloop_ctx(net, opt) as (net_, opt_):`
                if len(chains) > 1 and is_handed_through(self.program, self.tracer, binding):
                    continue
                done.add(binding.node)
                self._optimizer(binding, chain, step)

    def _outer_steps(self) -> Iterator[ast.Call]:
        """The steps; of an optimizer of the project's own that steps another in its `step`, only its own."""
        held = {v for step in self.training.steps for v in self.program.values(stepped(step))}
        own = {v.cls for v in held if isinstance(v, Instance) and self.roles.is_optimizer(v)}
        family = {each for cls in own for each in (cls, *self.program.flow.ancestors(cls))}
        for step in self.training.steps:
            if self._stepping_class(step) not in family:
                yield step
                for chain in self._wrapping(step):
                    self.models.add(self.bindings.outermost(chain), chain)

    def _stepping_class(self, step: ast.AST) -> Scope | None:
        method = method_of(self.program.frame(step))
        return method.parent if method is not None else None

    def _wrapping(self, step: ast.AST) -> Iterator[Chain]:
        """The ways back from the optimizers of the project's own that take a step with one that they wrap."""
        cls, method = self._stepping_class(step), method_of(self.program.frame(step))
        if cls is None or method is None or not self.roles.is_optimizer(Instance(cls)):
            return
        for call in self.program.flow.callers.get(method, ()):
            if isinstance(call.func, ast.Attribute) and self._stepping_class(call) is not cls:
                yield from self.tracer.chains(call.func.value)

    def _is_for_other_calls(self, chain: Chain) -> bool:
        """Whether an object is given to a function that trains by a call of it that does not come to its training."""
        frames = self.training.frames
        for inner, outer in pairwise(chain):
            if inner.kind == "parameter" and inner.scope in frames and outer.scope not in frames:
                callers = map(self.program.frame, self.program.flow.callers.get(inner.scope, ()))
                return outer.scope in callers
        return False

    def _inside_something(self, receiver: ast.expr) -> bool:
        """An optimizer that an object of unknown class holds is prepared in place where the object gets its name."""
        if not isinstance(receiver, ast.Attribute) or not is_plain(receiver):
            return False
        for chain in self.tracer.chains(receiver.value):
            binding = self.bindings.outermost(chain)
            if binding.kind != "assign" or binding.text != ast.unparse(receiver.value):
                return False
            item = self.bindings.item("optimizer", binding)
            item = replace(item, text=ast.unparse(receiver), assigned=False)
            if not any(i.text == item.text and i.statement is item.statement for i in self.found.items):
                self.found.items.append(item)
                self.models.add_where_made(receiver)
                self._holding_network(binding)
            return True
        return False

    def _holding_network(self, binding: Binding) -> None:
        """A network of unknown class that holds its optimizer, and is asked for its parameters."""
        asked = (c.func for c in self.program.calls if isinstance(c.func, ast.Attribute))
        owners = (f.value for f in asked if methods.gives_parameters(f.attr) and is_plain(f.value))
        is_asked = any(chain[-1].node is binding.node for owner in owners for chain in self.tracer.chains(owner))
        item = self.bindings.item("model", binding)
        if is_asked and not any((i.text, i.statement) == (item.text, item.statement) for i in self.found.items):
            self.found.models |= self.program.values(binding.value)
            self.found.items.append(item)

    def _optimizer(self, binding: Binding, chain: Chain, step: ast.AST) -> None:
        if binding.kind == "inline":
            assert isinstance(binding.node, ast.expr)
            self.found.wrapped.append(("optimizer", binding.node))
            self.models.add(binding, chain)
            return
        self.found.items.append(self.bindings.item("optimizer", binding))
        self.models.add(binding, chain, is_optional=self._is_optional(binding, step))

    def _is_optional(self, binding: Binding, step: ast.AST) -> bool:
        """Whether an optimizer is made and stepped under one condition, and the script steps by itself otherwise."""
        made = [a for a in self.program.ancestors(binding.node) if isinstance(a, ast.If)]
        tests = {ast.unparse(a.test) for a in made}
        asked = [a for a in self.program.ancestors(step) if isinstance(a, ast.If) and ast.unparse(a.test) in tests]
        return any(a.orelse and (a not in made or any_trains(self.program, self.training, a.orelse)) for a in asked)

    def _named_at_once(self, made: ast.expr) -> Binding | None:
        """The variable that is given what a call makes, before a container gets it: `opts = [first, second]`."""
        statement = self.program.statement(made)
        if not isinstance(statement, ast.Assign) or statement.value is not made or len(statement.targets) > 1:
            return None
        target = statement.targets[0]
        is_name = isinstance(target, ast.Name)
        return Binding("assign", self.program.frame(made), target, statement, made) if is_name else None

    def _without_name(self, receiver: ast.expr, step: ast.AST) -> None:
        """Prepare optimizers that have no name of their own where they are made."""
        made = [v.node for v in self.program.values(receiver) if isinstance(v, Made) and self.roles.is_optimizer(v)]
        if not made:
            self.found.obstacles.append((step, f"cannot tell where `{ast.unparse(receiver)}` is built"))
        for node in sorted(made, key=self.program.position):
            assert isinstance(node, ast.expr)
            named = self._named_at_once(node)
            if named is None:
                self.found.wrap_all(self.program, "optimizer", [node])
                self.models.add_at(node)
            elif named not in self.found.stepped:
                self._optimizer(named, (named,), step)


def _is_taken_out(chain: Chain) -> bool:
    """Whether an optimizer has no name but its place in a container, which may have none: `self.optimizers()[0]`."""
    is_place = isinstance(chain[0].node, ast.Subscript) or chain[0].kind == "item"
    return is_place and (len(chain) > 1 or chain[0].kind == "inline")
