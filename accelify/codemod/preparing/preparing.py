"""The objects that are prepared, and where: models, optimizers and loaders, grouped into `prepare` statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from accelify.codemod.edits.inserted import Inserted
from accelify.codemod.edits.values import Insert
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.preparing.grouping import Group, Grouper, Item, trains
from accelify.codemod.preparing.handed_back import goes_over, handed_back, is_handed_through
from accelify.codemod.preparing.optimizer_models import Owners, is_plain
from accelify.codemod.preparing.reach import method_of, node_of
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.in_place import is_fixed
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Constant, Generated, Instance, Made, Value, View
from accelify.codemod.training.loops import Data, Loops, Training
from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from accelify.codemod.training.roles import Roles, stepped

_Place = tuple[Scope, ast.stmt | None]  # a statement that fills a place in a container, and its function
_GENERATED = "these batches come from a generator, and cannot tell from which loader it takes them"


@dataclass(frozen=True, slots=True)
class Preparation:
    """All that will be prepared: by statements, by wrapping an expression, by sharding a loop's own data."""

    groups: tuple[Group, ...]
    wrapped: tuple[tuple[str, ast.expr], ...]
    sharded: tuple[tuple[Data, ast.expr], ...]
    bare_models: tuple[Item, ...]
    loaders: frozenset[Value]
    models: frozenset[Value]
    obstacles: tuple[tuple[ast.AST, str], ...]

    @property
    def trains_something(self) -> bool:
        """Whether any model or optimizer is prepared, so that gradients agree on all processes."""
        return bool(self._kinds & {"model", "optimizer"})

    @property
    def has_model(self) -> bool:
        """Whether any model is prepared."""
        return "model" in self._kinds

    @property
    def _kinds(self) -> set[str]:
        return {i.kind for i in [*self.items, *self.bare_models]} | {kind for kind, _ in self.wrapped}

    @property
    def items(self) -> list[Item]:
        return [item for group in self.groups for item in group.items]


@dataclass
class _Found:
    """The findings so far."""

    wrapped: list[tuple[str, ast.expr]] = field(default_factory=list)
    sharded: list[tuple[Data, ast.expr]] = field(default_factory=list)
    loaders: set[Value] = field(default_factory=set)
    models: set[Value] = field(default_factory=set)
    obstacles: list[tuple[ast.AST, str]] = field(default_factory=list)


class Preparer:
    """Decide what to prepare for the training code of a program."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, training: Training) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.training = training
        self._owners = Owners(program, roles, tracer, training)
        self._evaluations = Evaluations(program, roles, training.frames)
        self.needed = {node_of(program.frame(b)) for b in training.backwards}
        self.found = _Found()
        self._items: list[Item] = []
        self._stepped: list[Binding] = []  # the optimizers
        self._model_names: set[ast.AST] = set()  # where the models first got a name

    def prepare(self, shared: Sequence[Data] = ()) -> Preparation:
        """Find the items and group them; `shared` are further loops that each process takes its shard of."""
        self._optimizers()
        self._models_without_name()
        self._models_that_switch()
        self._models_given_statistics()
        if not self.training.steps:
            self._models_without_optimizer()
        self.needed |= {node_of(i.frame) for i in self._items}
        for data in [*self.training.data, *shared]:
            self._data(data)
        self._idle_loaders()
        found = self.found
        bare = [i for i in self._items if not i.assigned]
        grouper = Grouper(self.program, self.training, bare)
        wrapped = tuple((kind, node) for kind, node in found.wrapped if not self._is_made_prepared(node))
        return Preparation(
            groups=tuple(grouper.group([i for i in self._items if i.assigned])),
            wrapped=wrapped,
            sharded=tuple(found.sharded),
            bare_models=tuple(grouper.initialised(i) for i in bare),
            loaders=frozenset(found.loaders),
            models=frozenset(found.models),
            obstacles=(*found.obstacles, *sharded_twice(self.tracer, [s for _, s in found.sharded], self._items)),
        )

    # Optimizers and their models.

    def _optimizers(self) -> None:
        done: set[ast.AST] = set()
        for step in self._outer_steps():
            receiver = stepped(step)
            found = self.tracer.chains(receiver)
            chains = [c for c in found if not self._is_for_other_calls(c)] or found
            if not chains and self._inside_something(receiver):
                continue
            if not chains or any(len(c) > 1 and c[0].kind == "item" for c in chains):
                self._wrap_values("optimizer", receiver, step)
                continue
            for chain in map(_within, chains):
                binding = self._outermost(chain)
                if binding.node in done or binding.is_none or self._is_refused(binding.value):
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
                    self._add_models(self._outermost(chain), chain)

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
            binding = self._outermost(chain)
            if binding.kind != "assign" or binding.text != ast.unparse(receiver.value):
                return False
            item = self._item("optimizer", binding)
            item = replace(item, text=ast.unparse(receiver), assigned=False)
            if not any(i.text == item.text and i.statement is item.statement for i in self._items):
                self._items.append(item)
                self._models_where_made(receiver)
                self._holding_network(binding)
            return True
        return False

    def _holding_network(self, binding: Binding) -> None:
        """A network of unknown class that holds its optimizer, and is asked for its parameters."""
        asked = (c.func for c in self.program.calls if isinstance(c.func, ast.Attribute))
        owners = (f.value for f in asked if methods.gives_parameters(f.attr) and is_plain(f.value))
        is_asked = any(chain[-1].node is binding.node for owner in owners for chain in self.tracer.chains(owner))
        item = self._item("model", binding)
        if is_asked and not any((i.text, i.statement) == (item.text, item.statement) for i in self._items):
            self.found.models |= self.program.values(binding.value)
            self._items.append(item)

    def _outermost(self, chain: Chain) -> Binding:
        """Where an object was first given a name; for a parameter that nobody fills, the attribute that keeps it."""
        last = chain[-1]
        if last.kind == "inline" and len(chain) > 1:
            return last if chain[-2].kind == "parameter" or self._goes_over(chain[-2].value) else chain[-2]
        if last.kind == "parameter":
            for kept in reversed(chain[:-1]):
                if (
                    kept.kind == "assign"
                    and isinstance(kept.node, ast.Attribute)
                    and (kept.scope is last.scope or self._is_handed_up(last.scope, kept.scope))
                ):
                    return kept
        return last

    def _goes_over(self, value: ast.expr | None) -> bool:
        """`iter(DataLoader(data))` or `endless(DataLoader(data))`, no loaders but over one that has no name."""
        return value is not None and goes_over(self.program, self.tracer, value)

    def _below_views(self, chain: Chain) -> Chain:
        """The names that a loader has, without those of an iterator or a generator over it."""
        views = [k for k, binding in enumerate(chain[:-1]) if self._goes_over(self._named(binding))]
        return chain[views[-1] + 1 :] if views else chain

    def _named(self, binding: Binding) -> ast.expr | None:
        """The expression that a binding gives its name."""
        if binding.call is None or not isinstance(binding.node, ast.arg):
            return binding.value
        return self.tracer.argument(binding.call, binding.scope, binding.node.arg)

    def _is_handed_up(self, constructor: Scope, base: Scope) -> bool:
        """Whether a constructor passes its argument to its base class's, which others may call too."""
        cls, ancestor = constructor.parent, base.parent
        if constructor.name != "__init__" or base.name != "__init__" or cls is None or ancestor is None:
            return False
        return cls in self.program.flow.descendants(ancestor)

    def _optimizer(self, binding: Binding, chain: Chain, step: ast.AST) -> None:
        if binding.kind == "inline":
            assert isinstance(binding.node, ast.expr)
            self.found.wrapped.append(("optimizer", binding.node))
            self._add_models(binding, chain)
            return
        self._items.append(self._item("optimizer", binding))
        self._add_models(binding, chain, is_optional=self._is_optional(binding, step))

    def _is_optional(self, binding: Binding, step: ast.AST) -> bool:
        """Whether an optimizer is made and stepped under one condition, and the script steps by itself otherwise."""
        made = [a for a in self.program.ancestors(binding.node) if isinstance(a, ast.If)]
        tests = {ast.unparse(a.test) for a in made}
        asked = [a for a in self.program.ancestors(step) if isinstance(a, ast.If) and ast.unparse(a.test) in tests]
        return any(a.orelse and (a not in made or self._any_trains(a.orelse)) for a in asked)

    def _any_trains(self, block: Sequence[ast.stmt]) -> bool:
        return any(trains(self.program, self.training, statement) for statement in block)

    def _add_models(self, binding: Binding, chain: Chain, is_optional: bool = False) -> None:
        models: dict[str, Item] = {}
        self._stepped.append(binding)
        for expression in self._owners.of(binding):
            models.setdefault(ast.unparse(expression), self._model(expression, binding))
        if not models and (chain[-1].kind == "parameter" or self._is_made_elsewhere(binding)):
            for expression, given in self._owners.given_to(chain[-1].scope):
                item = self._item("model", self._outermost(_within(given)))
                models.setdefault(item.text, item)
                self.found.models |= set(self.program.values(expression))
                self._model_names.add(given[-1].node)
        for model in _whole(models).values():
            model = replace(model, without_optimizer=is_optional)
            if not any(
                (i.text, i.frame, i.statement) == (model.text, model.frame, model.statement) for i in self._items
            ):
                self._items.append(model)

    def _is_made_elsewhere(self, binding: Binding) -> bool:
        """Whether it is unknown where an optimizer is made: it comes out of a checkpoint, or from unknown code."""
        held = self.program.values(binding.node) | self.program.values(binding.value)
        return not any(map(self.roles.is_built_optimizer, held))

    def _models_without_name(self) -> None:
        """Models that have no name where their optimizer is made: prepared under the name that they get, if any."""
        made = [c for binding in self._stepped for c in self._owners.without_name(binding, self.found.models)]
        for call in dict.fromkeys(made):
            self.found.models |= {v for v in self.program.values(call) if self.roles.is_model(v)}
            named = self._owners.named(call)
            if named is not None and self._is_put_into_a_model(named):
                continue
            if named is not None:
                self._items.append(self._item("model", named))
            else:
                self.found.wrapped.append(("model", call))
            self.needed.add(node_of(self.program.frame(call)))

    def _is_put_into_a_model(self, binding: Binding) -> bool:
        """Whether a model becomes a part of one that is prepared: `net[1] = Linear(4, 2)`."""
        target: ast.AST = binding.node
        while isinstance(target, (ast.Attribute, ast.Subscript)):
            target = target.value
            if self.program.values(target) & self.found.models:
                return True
        return False

    def _is_refused(self, node: ast.expr | None) -> bool:
        """Whether all that an expression may hold is nothing to prepare."""
        held = self.program.values(node)
        return bool(held) and all(map(self.roles.is_nothing_to_prepare, held))

    def _may_be_refused(self, node: ast.expr | None) -> bool:
        """Whether an expression gives one of several objects, not all of which can be prepared."""
        held = [v for v in self.program.values(node) if isinstance(v, Instance)]
        return any(map(self.roles.is_nothing_to_prepare, held)) and not self._is_refused(node)

    def _gives_refused(self, write: ast.AST) -> bool:
        return isinstance(write, ast.expr) and self._is_refused(self.tracer.assigned(write))

    def _item(self, kind: str, binding: Binding) -> Item:
        statement = binding.statement if binding.kind != "parameter" else None
        line = self.program.line(binding.node)
        assigned = self._may_assign(binding.text, binding.scope) and not is_fixed(self.program, binding.node)
        item = Item(kind, binding.text, binding.scope, statement, line, assigned)
        return replace(item, among_others=self._is_among_others(binding))

    def _is_among_others(self, binding: Binding) -> bool:
        """Whether a name is given nothing to prepare elsewhere."""
        others = self.tracer.writes(binding.scope, binding.text)
        return any(map(self._gives_refused, others))

    def _may_assign(self, text: str, frame: Scope) -> bool:
        first = text.split(".")[0].split("[")[0]
        if text != first:
            return first != "" and text != "self"
        return frame.kind == "module" or frame.binds(first) or first in frame.declared_global

    def _model(self, expression: ast.expr, binding: Binding) -> Item:
        """A model to prepare where its optimizer is."""
        text = ast.unparse(expression)
        self.found.models |= {v for v in self.program.values(expression) if self.roles.is_model(v)}
        self._model_names |= {chain[-1].node for chain in self.tracer.chains(expression)}
        line = self._bound_line(expression)
        assigned = text != "self" and self._may_assign(text, binding.scope) and not is_fixed(self.program, expression)
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

    def _models_that_switch(self) -> None:
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
                if is_in_step and any(map(self.roles.is_model, self.program.values(call.func))):
                    yield call

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
        calls = (c for c in self.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "eval")
        return [call for call in calls if self.program.frame(call) in self.program.reachable]

    def _model_that_switches(self, chain: Chain, values: set[Value]) -> None:
        """Prepare a model that is none of those with an optimizer; one made as they are, only beside them."""
        binding = self._outermost(_within(chain))
        if binding.kind not in ("assign", "parameter") or self._is_part(binding) or chain[-1].node in self._model_names:
            return
        beside = {item.frame for item in self._items if item.kind == "model"}
        if values.isdisjoint(self.found.models) or (binding.kind == "assign" and binding.scope in beside):
            self.found.models |= values
            self._model_names.add(chain[-1].node)
            self._items.append(self._item("model", binding))

    def _models_given_statistics(self) -> None:
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
        return is_inside or any(i.text == binding.text for i in self._items)

    @cached_property
    def _keeps_statistics(self) -> bool:
        """Whether a model of the program may have a layer that does, as models of libraries may."""
        named = {n for call in self.program.calls for n in self.program.called(call)}
        return any(table.kind_made_by(n) == "normalization" or names.may_differ_in_training(n) for n in named)

    def _run_in_steps(self, models: Set[Value]) -> bool:
        """Whether the code that trains runs a model."""
        calls = (c for frame in self.training.frames for c in self.program.calls_in(frame))
        return any(not models.isdisjoint(self.program.values(c.func)) for c in calls)

    def _models_without_optimizer(self) -> None:
        """Models that the script updates by hand."""
        for call in self.program.calls:
            if not isinstance(call.func, ast.Attribute) or not methods.gives_parameters(call.func.attr):
                continue
            frame = self.program.frame(call)
            if frame not in self.training.frames or not is_plain(call.func.value):
                continue
            for chain in self.tracer.chains(call.func.value):
                binding = self._outermost(_within(chain))
                is_new = not self._is_refused(binding.value) and not any(i.text == binding.text for i in self._items)
                if binding.kind in ("assign", "parameter") and is_new:
                    self.found.models |= set(self.program.values(call.func.value))
                    self._items.append(self._item("model", binding))

    def _wrap_values(self, kind: str, expression: ast.expr, site: ast.AST) -> None:
        """Prepare objects that have no name of their own where they are made."""
        held = set(self.program.values(expression))
        if kind == "loader":
            held |= Loops(self.program, self.roles, self.tracer).owners(expression)  # through `iter(loader)`
        made = [v.node for v in held if isinstance(v, Made) and self._has_role(kind, v)]
        if not made:
            self.found.obstacles.append((site, f"cannot tell where `{ast.unparse(expression)}` is built"))
        for node in sorted(made, key=self.program.position):
            assert isinstance(node, ast.expr)
            named = self._named_at_once(node) if kind == "optimizer" else None
            if named is not None:
                if named not in self._stepped:
                    self._optimizer(named, (named,), site)
                continue
            if (kind, node) not in self.found.wrapped:
                self.found.wrapped.append((kind, node))
                self.needed.add(node_of(self.program.frame(node)))
            if kind == "optimizer":
                self._add_models_at(node)

    def _named_at_once(self, made: ast.expr) -> Binding | None:
        """The variable that is given what a call makes, before a container gets it: `opts = [first, second]`."""
        statement = self.program.statement(made)
        if not isinstance(statement, ast.Assign) or statement.value is not made or len(statement.targets) > 1:
            return None
        target = statement.targets[0]
        is_name = isinstance(target, ast.Name)
        return Binding("assign", self.program.frame(made), target, statement, made) if is_name else None

    def _models_where_made(self, optimizer: ast.expr) -> None:
        """The models of an optimizer are prepared where it is made, wherever it is prepared itself."""
        made = [
            v.node for v in self.program.values(optimizer) if self.roles.is_built_optimizer(v) and isinstance(v, Made)
        ]
        for node in sorted(made, key=self.program.position):
            self._add_models_at(node)

    def _add_models_at(self, node: ast.AST) -> None:
        assert isinstance(node, ast.expr)
        binding = Binding("assign", self.program.frame(node), node, self.program.statement(node), node)
        self._add_models(binding, (binding,))

    def _has_role(self, kind: str, value: Value) -> bool:
        return self.roles.is_optimizer(value) if kind == "optimizer" else self.roles.is_loader(value)

    def _is_made_prepared(self, node: ast.expr) -> bool:
        """Whether all that a call of the project's own gives is prepared where it is made."""
        made = {v.node for v in self.program.values(node) if isinstance(v, Made)} - {node}
        return bool(made) and made <= {other for _, other in self.found.wrapped}

    # Data.

    def _data(self, data: Data) -> None:
        if data.kind == "sequence":
            if (self._items or self.found.wrapped) and not self._trains_tensors(data.loop):
                self.found.sharded.append((data, data.sources[0]))
        elif data.kind == "loaders":
            for source in data.sources:
                self._loader(source, data)

    def _trains_tensors(self, loop: ast.AST | None) -> bool:
        """Whether a loop reads a model's name while that still holds what was not to be prepared, as tensors do."""
        models = {i.text: i.frame for i in self._items if i.kind == "model" and i.among_others}
        names = (n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id in models) if loop and models else ()
        held = [self.program.reaching(n, self.tracer.writes(models[n.id], n.id)) for n in names]
        return any(held) and all(self._gives_refused(write) for writes in held for write in writes)

    def _loader(self, source: ast.expr, data: Data) -> None:
        inner = self._inside_generators(source)
        ways = self.tracer.chains(source)
        if inner:
            for loader in inner:
                self._loader(loader, replace(data, sources=(loader,)))
            ways = [w for w in ways if is_plain(source) and self._is_of_a_loader(w)]
            if not ways:
                return
        ways = [w for w in ways if not self._is_asked_to_evaluate(w)] or ways
        chains = [self._below_views(c) for w in ways for c in handed_back(self.program, self.tracer, w)]
        chains = [c for c in chains if not self._is_refused(self._loader_binding(c).value)] or chains
        if not chains and self._is_of_unknown_make(source, data):
            self.found.sharded.append((data, source))
            return
        if not chains:
            self._wrap_values("loader", source, data.loop or source)
            self._note_loaders(source)
            return
        for chain in chains:
            for given in chain:
                if given.kind == "parameter" and self._is_called_by_overriders(given.scope):
                    self._add_loader(self._item("loader", given))
            binding = self._loader_binding(chain)
            within = chain[: chain.index(binding)]  # what got its name from a container is taken out of it already
            container = next((b for b in within if b.kind == "item"), None)
            if container is not None and binding.kind != "item":
                self._loader_in(container, binding, source, data.loop)
            elif self._may_be_refused(binding.value):
                self._wrap_values("loader", source, data.loop or source)
            elif self._is_generator(binding):
                self.found.obstacles.append((binding.node, _GENERATED))
            elif binding.kind == "inline":
                assert isinstance(binding.node, ast.expr)
                called = self.program.called(binding.node) if isinstance(binding.node, ast.Call) else ()
                counts = any(map(names.is_counter, called))  # beside the batches: `zip(tqdm(range(n)), loader)`
                if ("loader", binding.node) not in self.found.wrapped and not counts:
                    self.found.wrapped.append(("loader", binding.node))
            elif not binding.is_none:
                self._add_loader(self._item("loader", binding))
        self._note_loaders(source)

    def _is_asked_to_evaluate(self, chain: Chain) -> bool:
        """Whether a function, or a class, that yields batches for training, too, gets a loader to evaluate on."""
        call = chain[0].call if chain[0].scope not in self.training.frames else None
        if call is not None:
            return self._evaluations.hold(call) or self._evaluations.have_loop(call)
        made = next((b.call for b in chain if b.call is not None and b.scope.name == "__init__"), None)
        return made is not None and (self._evaluations.hold(made) or self._is_asked_in_evaluations(made))

    def _is_asked_in_evaluations(self, made: ast.Call) -> bool:
        """Whether an object with a name is used in loops that evaluate, and in none that trains: `batches.next()`."""
        statement = self.program.statement(made)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        owner = self.program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if owner is None or not isinstance(target, ast.Name):
            return False
        writes = self.tracer.writes(owner, target.id)
        reads = [r for r in self.program.reads_of(owner, target.id) if target in self.program.reaching(r, writes)]
        training = {loops[0] for loops in self.training.loops.values() if loops}
        is_trained_on = any(loop in training for r in reads for loop in self.program.loops_round(r)[:1])
        return not is_trained_on and any(map(self._evaluations.have_loop, reads))

    def _is_generator(self, binding: Binding) -> bool:
        """Whether a name is given what a call of a generator function gives, which `prepare` refuses."""
        value = binding.node if binding.kind == "inline" else binding.value
        callees = self.program.flow.callees.get(value, ()) if isinstance(value, ast.Call) else ()
        return bool(callees) and all(c.generates for c in callees)

    def _inside_generators(self, source: ast.expr) -> list[ast.expr]:
        """The loaders that generator functions build themselves or are given, and whose batches a source yields.

        Prepared where they are built: a generator is no loader, and what it yields is not for `prepare` to move.
        """
        loops = Loops(self.program, self.roles, self.tracer)
        found = [(g.scope, list(loops.yielded_from(g.scope))) for g in loops.generators(source)]
        if not all(listed for _, listed in found):
            return []
        return [given for scope, listed in found for loader in listed for given in self._given(scope, loader, source)]

    def _is_of_a_loader(self, way: Chain) -> bool:
        """Whether a source is, by one of the ways back from it, a loader or an iterator over one, and no generator."""
        held = [self.program.values(n) for n in map(self._named, way) if n is not None and not is_plain(n)]
        made = {v for values in held for v in values}
        return any(map(self.roles.is_loader, made)) and not any(isinstance(v, Generated) for v in made)

    def _given(self, generator: Scope, loader: ast.expr, source: ast.expr) -> list[ast.expr]:
        """The arguments that a source's calls pass to a generator for a loader; else the loader itself."""
        name = self.tracer.inside(loader)
        if not isinstance(name, ast.Name) or not any(p.arg == name.id for p in generator.parameters):
            return [loader]
        calls: list[ast.Call] = []
        for way in self.tracer.chains(source):
            named = [n for n in (self.tracer.inside(source), *map(self._named, way)) if n is not None]
            made = [c for n in named for c in self._calls_of(generator, n)]
            others = [n for n in named if not is_plain(n) and Generated(generator) not in self.program.values(n)]
            if not made and not others and not way[-1].is_none:
                return [loader]  # from any of the generator's callers
            calls += [c for c in made if c not in calls]
        given = [self.tracer.argument(c, generator, name.id) for c in calls]
        known = [g for g in given if g is not None]
        return known if known and len(known) == len(given) else [loader]

    def _calls_of(self, generator: Scope, node: ast.expr, seen: tuple[Scope, ...] = ()) -> list[ast.Call]:
        """The calls of a generator function that make what an expression is, also inside the functions it calls."""
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return [c for part in parts for c in self._calls_of(generator, part, seen)]
        callees = self.program.flow.callees.get(node, ()) if isinstance(node, ast.Call) else ()
        if generator in callees:
            assert isinstance(node, ast.Call)
            return [node]
        makers = [c for c in callees if c not in seen and not c.generates]
        inner = [r for r in returned(makers) if r is not None and Generated(generator) in self.program.values(r)]
        named = [n for r in inner for n in (r, *(b.value for way in self.tracer.chains(r) for b in way))]
        return [c for n in named if n is not None for c in self._calls_of(generator, n, (*seen, *makers))]

    def _is_called_by_overriders(self, method: Scope) -> bool:
        """Whether only methods that override it call a method, and their callers, as its own others, are not known."""
        callers = [self.program.frame(c) for c in self.program.flow.callers.get(method, ())]
        return bool(callers) and all(
            method.parent is not None
            and caller.name == method.name != "__init__"
            and caller.parent in self.program.flow.descendants(method.parent)
            and not self.program.flow.callers.get(caller)
            for caller in callers
        )

    def _is_of_unknown_make(self, source: ast.expr, data: Data) -> bool:
        """Whether a loop iterates over what nothing shows to be a loader: what it yields is sharded as it comes."""
        held = Loops(self.program, self.roles, self.tracer).owners(source)
        is_gone_over = isinstance(data.loop, ast.For) and self.program.inside(source, data.loop.iter)
        return is_gone_over and not any(self.roles.is_loader(v) for v in held)

    def _note_loaders(self, source: ast.expr) -> None:
        """Remember whose batches come from prepared loaders."""
        self.found.loaders |= Loops(self.program, self.roles, self.tracer).owners(source)

    def _add_loader(self, item: Item) -> None:
        if not any(
            i.text == item.text and i.frame is item.frame and i.statement is item.statement for i in self._items
        ):
            self._items.append(item)

    def _loader_binding(self, chain: Chain) -> Binding:
        """The outermost binding in code that has the accelerator anyway, else the outermost."""
        outermost = self._outermost(chain)
        bound = [b for b in chain if b.kind == "assign" and isinstance(b.node, (ast.Name, ast.Attribute))]
        named = [b for b in bound if not self._goes_over(b.value)]
        if outermost.kind == "parameter" or node_of(outermost.scope) in self.needed:
            return outermost
        for binding in reversed(named):
            if node_of(binding.scope) in self.needed:
                return binding
        return outermost

    def _loader_in(self, item: Binding, container: Binding, source: ast.expr, loop: ast.AST | None) -> None:
        """`loaders[phase]`: prepare the loader of the phase that trains; the one below an iterator where it is made."""
        assert isinstance(item.node, ast.Subscript)
        keys = self._training_keys(item.node, loop)
        is_nested = isinstance(item.node.value, ast.Subscript)
        held = self.program.values(item.node)
        if any(isinstance(v, Generated) for v in held):
            self.found.obstacles.append((item.node, _GENERATED))
            return
        is_pass = any(isinstance(v, View) for v in held)
        if keys is None or is_nested or container.kind == "inline" or is_pass:
            self._wrap_values("loader", source, item.node)
            return
        for key in keys:
            text = f"{container.text}[{key!r}]".replace("'", '"')
            line = self.program.line(container.node)
            places = self._places(container, key, item.node)
            if not all(self._is_filled_after(text, statement) for _, statement in places):
                self._wrap_values("loader", source, item.node)
                return
            for frame, statement in places:
                self._add_loader(Item("loader", text, frame, statement, line))

    def _is_filled_after(self, text: str, statement: ast.stmt | None) -> bool:
        """Whether a place in a container is filled once a statement is done, whichever way the script went."""
        return statement is None or self.program.once(Inserted).is_bound(text, Insert(statement, "after", ""))

    def _places(self, container: Binding, key: object, read: ast.Subscript) -> list[_Place]:
        """The statements that put into a container what a loop takes from it, each with its function.

        They make it, or name the place, `loaders["train"] = ...`, or are a loop: `for phase in phases:
        loaders[phase] = ...`.
        """
        first: _Place = (container.scope, None if container.kind == "parameter" else container.statement)
        nodes = [n for n in self.program.parsed(container.node).parents if isinstance(n, (ast.Subscript, ast.Call))]
        held = ((n, _filled_in(n)) for n in nodes)
        filled = [n for n, owner in held if owner is not None and ast.unparse(owner) == container.text]
        filled = [n for n in filled if self._is_of_one_object(self.program.frame(n), container)]
        named = [n for n in filled if key in _keys_filled(n) and self._may_be_read(n, read)]
        may_hold = self._may_hold(container.value, key)
        looped = [n for n in filled if isinstance(n, ast.Subscript) and not isinstance(n.slice, ast.Constant)]
        places: list[_Place] = [
            (self.program.frame(n), self._filling(n, container)) for n in named or ([] if may_hold else looped)
        ]
        places = [first, *places] if may_hold or not places else places
        return [p for p in places if not any(self._is_replaced(p, other, container) for other in places)]

    def _may_be_read(self, place: ast.AST, read: ast.Subscript) -> bool:
        """Whether what is put somewhere may be what is read there; not after the training, nor None."""
        value = self.program.assigned(place)[0] if isinstance(place, ast.Subscript) else None
        is_none = isinstance(value, ast.Constant) and value.value is None
        is_apart = self.program.frame(place) is not self.program.frame(read)
        return not is_none and (is_apart or self.program.reaches(place, read))

    def _may_hold(self, value: ast.expr | None, key: object) -> bool:
        """Whether a container may have something at a key since it was made."""
        if isinstance(value, ast.DictComp):
            keys = self.program.values(value.key)
            return not keys or any(not isinstance(k, Constant) or k.value == key for k in keys)
        is_own = isinstance(value, ast.Call) and bool(self.program.flow.callees.get(value))
        return is_own or not isinstance(value, (ast.Dict, ast.Call)) or _is_listed(value, key)

    def _is_replaced(self, one: _Place, other: _Place, container: Binding) -> bool:
        """Whether what one statement puts into a container has gone by another, and nothing has read it before."""
        if one[0] is not other[0] or one[1] is None or other[1] is None:
            return False
        block = self.program.block(other[1])
        outer = next((s for s in (one[1], *self.program.ancestors(one[1])) if s in block), None)
        if not isinstance(outer, ast.stmt) or outer is other[1] or block.index(outer) > block.index(other[1]):
            return False
        between = block[block.index(outer) + 1 : block.index(other[1])]
        inside = [n for statement in between for n in ast.walk(statement)]
        owners = [n for n in inside if isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == container.text]
        parents = [self.program.parent(n) for n in owners]
        places = [self.program.parent(p) if isinstance(p, ast.Attribute) else p for p in parents]  # `d.update(...)`
        is_read = any(p is None or _filled_in(p) is None for p in places)
        return not is_read and not self._any_trains(between)

    def _filling(self, place: ast.Subscript | ast.Call, container: Binding) -> ast.stmt:
        """The statement, or the loop of such, after which a container is filled."""
        loops = [a for a in self.program.loops_round(place) if not self.program.inside(container.node, a)]
        is_named = bool(_keys_filled(place))
        return self.program.statement(place) if is_named or not loops else loops[-1]

    def _is_of_one_object(self, frame: Scope, container: Binding) -> bool:
        """Whether what is written so in a function is what a binding names: the same variable, or `self.x`."""
        is_attribute = isinstance(container.node, ast.Attribute) and container.scope.is_method and frame.is_method
        return frame is container.scope or (is_attribute and frame.parent is container.scope.parent)

    def _training_keys(self, node: ast.Subscript, loop: ast.AST | None) -> list[object] | None:
        """The literal keys under which a loop takes its training loader."""
        if isinstance(node.slice, ast.Constant):
            return [node.slice.value]
        phase = self.training.phases.get(loop) if loop is not None else None
        if phase is not None and phase.key is not None:
            return [phase.key]
        keys = [v.value for v in self.program.values(node.slice) if isinstance(v, Constant)]
        guarded = [k for k in keys if isinstance(k, str) and "train" in k.lower()]
        return list(guarded) or (keys if len(keys) == 1 else None)

    def _idle_loaders(self) -> None:
        """Loaders that nothing reads: the script is a part of one, or keeps them for later."""
        frames = {i.frame for i in self._items if i.kind != "model"}
        for frame in frames:
            for name, writes in frame.writes.items():
                for write in writes:
                    if (
                        not isinstance(write, ast.Name)
                        or not isinstance(self.program.statement(write), ast.Assign)
                        or name == "_"
                        or frame.reads.get(name)
                        or any(c.reads.get(name) for c in frame.walk())
                    ):
                        continue
                    values = self.program.flow.variable(frame, name)
                    if values and all(self.roles.is_torch_loader(v) for v in values):
                        statement = self.program.statement(write)
                        self._add_loader(Item("loader", name, frame, statement, write.lineno))


def _whole(models: dict[str, Item]) -> dict[str, Item]:
    """The models without those that are parts of others, by their texts: `model` for `model.head` and `model`."""
    return {text: m for text, m in models.items() if not any(text.startswith((f"{o}.", f"{o}[")) for o in models)}


def _filled_in(node: ast.AST) -> ast.expr | None:
    """The container that an assignment to a place in it, or `loaders.update(...)`, puts something into."""
    if isinstance(node, ast.Subscript):
        return node.value if isinstance(node.ctx, ast.Store) else None
    func = node.func if isinstance(node, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and func.attr == "update" else None


def _keys_filled(node: ast.AST) -> list[object]:
    """The literal keys at which something is put into a container."""
    if isinstance(node, ast.Subscript):
        return [node.slice.value] if isinstance(node.slice, ast.Constant) else []
    if not isinstance(node, ast.Call):
        return []
    listed = [k for a in node.args if isinstance(a, ast.Dict) for k in a.keys]
    return [*(k.value for k in listed if isinstance(k, ast.Constant)), *(k.arg for k in node.keywords if k.arg)]


def _is_listed(value: ast.Dict | ast.Call, key: object) -> bool:
    """Whether a container has something at a key since it was made: `{"train": loader}`, `dict(train=loader)`."""
    if isinstance(value, ast.Call):
        held = [k.value for k in value.keywords if k.arg == key]
    else:
        pairs = zip(value.keys, value.values, strict=True)
        held = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key]
    return any(not (isinstance(v, ast.Constant) and v.value is None) for v in held)


def _within(chain: Chain) -> Chain:
    """The names that an object has since it was taken out of a container, if it was."""
    place = next((k for k, binding in enumerate(chain) if binding.kind == "item"), 0)
    return chain[:place] or chain


def sharded_twice(tracer: Tracer, sources: Sequence[ast.expr], items: Sequence[Item]) -> Iterator[tuple[ast.AST, str]]:
    """The loops over what a generator makes of a loader that is prepared for another loop."""
    loaders = [item for item in items if item.kind == "loader"]
    for source in sources:
        for binding in (b for chain in tracer.chains(source) for b in chain):
            statement = binding.statement if binding.kind != "parameter" else None
            if any((i.text, i.frame, i.statement) == (binding.text, binding.scope, statement) for i in loaders):
                text = binding.text
                yield source, f"`{text}` is sharded by another loop: what is made of it would be sharded twice"
