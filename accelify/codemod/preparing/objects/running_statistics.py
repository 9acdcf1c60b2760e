"""The models that are prepared for their running statistics alone: no optimizer has them, yet training changes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from functools import cached_property

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.preparing.objects.bindings import within
from accelify.codemod.preparing.objects.found import Finder
from accelify.codemod.preparing.objects.optimizer_models import is_plain
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.provenance import Binding, Chain
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.semantics.values import Value


class RunningStatistics(Finder):
    """Find the models that run in training mode, or are given new statistics, beside those that learn."""

    def add_switching(self) -> None:
        """Models that no optimizer has, but whose statistics the training updates, for what evaluates or saves them."""
        asked = [
            (call.func.attr, call.func.value)
            for call in self.program.calls
            if isinstance(call.func, ast.Attribute)
            if methods.switches_mode(call.func.attr) or methods.gives_state(call.func.attr)
            if self.program.frame(call) in self.program.reachable and is_plain(call.func.value)
        ]
        trained = [model for method, model in asked if methods.switches_mode(method) and method != "eval"]
        trained += [run.func for run in self._runs_in_steps() if not self._is_evaluating(run, run.func)]
        used = {v for _, model in asked if model not in trained for v in self.program.values(model)}
        for model in trained:
            values = {v for v in self.program.values(model) if self.roles.is_model(v)}
            keeps_statistics = self._keeps_statistics or not values.isdisjoint(self.roles.networks_by_use)
            if values and values <= used and keeps_statistics and self._run_in_steps(values):
                for chain in self.tracer.chains(model):
                    self._model_that_switches(chain, values)

    def _runs_in_steps(self) -> Iterator[ast.Call]:
        """The calls of models that take part in each training step."""
        for backward in self.training.backwards:
            flow = self.program.control_flow(backward)
            loops = set(flow.loops_round(backward))
            for call in self.program.calls_in(self.program.frame(backward)):
                is_in_step = is_plain(call.func) and loops.issubset(flow.loops_round(call))
                is_model = any(map(self.roles.is_model, self.program.values(call.func)))
                if is_in_step and is_model and not self._is_of_expression(call.func):
                    yield call

    def _is_of_expression(self, model: ast.expr) -> bool:
        """Whether a name is bound within an expression, where nothing can be prepared: `[f(x) for f in heads]`."""
        owners = (self.program.scope(n).owner(n.id) for n in ast.walk(model) if isinstance(n, ast.Name))
        return any(owner is not None and owner.kind in ("comprehension", "lambda") for owner in owners)

    def _is_evaluating(self, site: ast.Call, model: ast.expr, depth: int = 3) -> bool:
        """Whether a model has been set to evaluate whenever a place is reached: a new one is in training mode."""
        frame, values = self.program.frame(site), self.program.values(model)
        own = [c for c in self._evals if self.program.values(getattr(c.func, "value", None)) & values]
        frames = set(map(self.program.frame, own))
        before = [
            call
            for call in self.program.calls_in(frame)
            if call in own or not frames.isdisjoint(self.program.flow.callees.get(call, ()))
        ]
        if before and self.program.control_flow(site).is_covered([c for c in before if c is not site], site):
            return True
        calls = self.program.calls_of(frame)
        return bool(depth and calls) and all(self._is_evaluating(c, model, depth - 1) for c in calls)

    @cached_property
    def _evals(self) -> list[ast.Call]:
        calls = (c for c in self.program.calls if method_of_call(c) == "eval")
        return [call for call in calls if self.program.frame(call) in self.program.reachable]

    def _model_that_switches(self, chain: Chain, values: set[Value]) -> None:
        """Prepare a model that is none of those with an optimizer; one made as they are, only beside them."""
        binding = self.bindings.outermost(within(chain))
        is_bound = binding.kind in ("assign", "parameter")
        if not is_bound or self._is_part(binding) or chain[-1].node in self.found.model_names:
            return
        beside = {item.frame for item in self.found.items if item.kind == "model"}
        if values.isdisjoint(self.found.models) or (binding.kind == "assign" and binding.scope in beside):
            self.found.models |= values
            self.found.model_names.add(chain[-1].node)
            self.found.items.append(self.bindings.item("model", binding))

    def add_given_anew(self) -> None:
        """Models whose statistics a library sets anew from a loader that is sharded: `update_bn(loader, average)`."""
        kinds = self.program.once(Kinds)
        sources = [source for data in self.training.data for source in data.sources]
        loaders = {value for source in sources for value in self.program.values(source)}
        for call in self.program.calls:
            rows = kinds.called(call)
            if not rows or not all(row.has(Trait.GOES_OVER) for row in rows):
                continue
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            if any(loaders & self.program.values(argument) for argument in given):
                for model in given:
                    values = set(self.program.values(model))
                    is_one = any(map(self.roles.is_model, values)) or "module" in kinds.of(model)
                    for chain in self.tracer.chains(model) if is_one else ():
                        self._model_that_switches(chain, values)

    def _is_part(self, binding: Binding) -> bool:
        """Whether what is bound is a part of a model, or prepared already."""
        cls = binding.scope.parent if binding.scope.is_method else None
        is_inside = cls is not None and self.program.flow.is_module_class(cls)
        return is_inside or any(i.text == binding.text for i in self.found.items)

    @cached_property
    def _keeps_statistics(self) -> bool:
        """Whether a model of the program may have a layer that does, as models of libraries may."""
        named = {n for call in self.program.calls for n in self.program.called(call)}
        return any(table.kind_made_by(n) == "normalization" or names.may_differ_in_training(n) for n in named)

    def _run_in_steps(self, models: Set[Value]) -> bool:
        """Whether the code that trains runs a model."""
        calls = (c for frame in self.training.frames for c in self.program.calls_in(frame))
        return any(not models.isdisjoint(self.program.values(c.func)) for c in calls)
