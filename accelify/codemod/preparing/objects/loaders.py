"""The loaders that are prepared, and the loops over data of the script's own that are sharded instead."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from accelify.codemod.libraries import names
from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.handed_back import handed_back
from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.containers import Containers
from accelify.codemod.preparing.objects.found import Finder, Found
from accelify.codemod.preparing.objects.generators import UNKNOWN_LOADER, Generators
from accelify.codemod.preparing.objects.optimizer_models import is_plain
from accelify.codemod.preparing.reach import node_of
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Collection, Generated, Made, Value, View
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.training import Data, Training
from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from accelify.codemod.training.roles import Roles


class Loaders(Finder):
    """Find loaders by the loops that go over them."""

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, training: Training, bindings: Bindings, found: Found
    ) -> None:
        super().__init__(program, roles, tracer, training, bindings, found)
        self.iterables = Iterables(program, roles, tracer)
        self.generators = Generators(program, roles, tracer, bindings)
        self.containers = Containers(program, training)
        self._evaluations = Evaluations(program, roles, training.frames)

    def add(self, data: Data) -> None:
        """Prepare the loaders that a loop learns from, or shard its own data."""
        if data.kind == "sequence":
            if (self.found.items or self.found.wrapped) and not self._trains_tensors(data.loop):
                self.found.sharded.append((data, data.sources[0]))
        elif data.kind == "loaders":
            for source in data.sources:
                self._loader(source, data)

    def _trains_tensors(self, loop: ast.AST | None) -> bool:
        """Whether a loop reads a model's name while that still holds what was not to be prepared, as tensors do."""
        models = {i.text: i.frame for i in self.found.items if i.kind == "model" and i.among_others}
        names = (n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id in models) if loop and models else ()
        held = [self.program.reaching(n, self.tracer.writes(models[n.id], n.id)) for n in names]
        return any(held) and all(self.bindings.gives_refused(write) for writes in held for write in writes)

    def _loader(self, source: ast.expr, data: Data) -> None:
        inner = self.generators.loaders_inside(source)
        ways = self.tracer.chains(source)
        if inner:
            for loader in inner:
                self._loader(loader, replace(data, sources=(loader,)))
            ways = [w for w in ways if is_plain(source) and self.generators.is_of_a_loader(w)]
            if not ways:
                return
        ways = [w for w in ways if not self._is_asked_to_evaluate(w)] or ways
        chains = [self.bindings.below_views(c) for w in ways for c in handed_back(self.program, self.tracer, w)]
        others = [c for c in chains if self._is_no_loader(self._loader_binding(c).value)]
        chains = [c for c in chains if c not in others] or chains
        if not chains and self._is_of_unknown_make(source, data):
            self.found.sharded.append((data, source))
            return
        if not chains:
            self._without_name(source, data.loop or source)
            self._note_loaders(source)
            return
        bound = set(map(self._loader_binding, chains))
        for chain in chains:
            for given in chain:
                if given.kind == "parameter" and self._is_called_by_overriders(given.scope):
                    self.found.add(self.bindings.item("loader", given))
            binding = self._joined(chain, bound)
            within = chain[: chain.index(binding)]  # what got its name from a container is taken out of it already
            items = [b for b in within if b.kind == "item"]
            if items and binding.kind != "item":
                self._loader_in(items, binding, source, data.loop)
            elif self.bindings.may_be_refused(binding.value):
                self._without_name(source, data.loop or source)
            elif self.generators.is_made_by(binding):
                self.found.obstacles.append((binding.node, UNKNOWN_LOADER))
            elif binding.kind == "inline":
                assert isinstance(binding.node, ast.expr)
                called = self.program.called(binding.node) if isinstance(binding.node, ast.Call) else ()
                counts = any(map(names.is_counter, called))  # beside the batches: `zip(tqdm(range(n)), loader)`
                if not counts:
                    self.found.wrap("loader", binding.node)
            elif not binding.is_none:
                self._named(binding, self.tracer.inside(source), others)
        self._note_loaders(source)

    def _named(self, binding: Binding, source: ast.expr, others: Sequence[Chain]) -> None:
        """Prepare a loader under its name, or for one loop alone where the name is also evaluated on."""
        if self._is_whole_in_another_branch(binding, source):
            self.found.wrap("loader", source)
        else:
            item = self.bindings.item("loader", binding)
            self.found.add(replace(item, among_others=item.among_others or self._is_also_listed(binding, others)))

    def _is_whole_in_another_branch(self, binding: Binding, source: ast.expr) -> bool:
        """Whether a loop goes over a loader of its function, whose other loops run instead of it and learn nothing.

        if training:
            for x in loader:  # prepared here alone
                step(x)
        else:
            for x in loader:
                scores.append(model(x))
        """
        is_made = binding.kind == "assign" and isinstance(binding.value, ast.Call)
        if not is_made or not isinstance(source, ast.Name) or self.program.frame(source) is not binding.scope:
            return False
        reads = [r for r in self.program.reads_of(binding.scope, binding.text) if r is not source]
        return source.id == binding.text and bool(reads) and all(self._is_evaluated_instead(r, source) for r in reads)

    def _is_evaluated_instead(self, read: ast.Name, source: ast.Name) -> bool:
        """Whether a name is what a loop that only evaluates goes over, in the other branch of a loop's condition."""
        loops = (
            n for n in self.program.ancestors(read) if isinstance(n, ast.For) and self.program.inside(read, n.iter)
        )
        loop = next(loops, None)
        here, there = dict(self.program.branches_round(source)), dict(self.program.branches_round(read))
        is_other = any(there.get(condition, is_body) is not is_body for condition, is_body in here.items())
        return loop is not None and is_other and self._evaluations.have_loop(loop.body[0])

    def _is_no_loader(self, value: ast.expr | None) -> bool:
        """Whether a name is given nothing to prepare: batches of a loader in a list are those of a prepared one."""
        held = self.program.values(value)
        lists = [v for v in held if isinstance(v, Collection)]
        is_listed = bool(lists) and not any(map(self.roles.is_loader, held))
        return self.bindings.is_refused(value) or (is_listed and all(map(self.iterables.holds_batches, lists)))

    def _is_also_listed(self, binding: Binding, others: Sequence[Chain]) -> bool:
        """Whether the same name is given a list of batches elsewhere."""
        named = (self._loader_binding(chain) for chain in others)
        return any(other.text == binding.text and other.scope is binding.scope for other in named)

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
        held = self.iterables.owners(source)
        is_gone_over = isinstance(data.loop, ast.For) and self.program.inside(source, data.loop.iter)
        return is_gone_over and not any(self.roles.is_loader(v) for v in held)

    def _note_loaders(self, source: ast.expr) -> None:
        """Remember whose batches come from prepared loaders."""
        self.found.loaders |= self.iterables.owners(source)

    def _loader_binding(self, chain: Chain) -> Binding:
        """The outermost binding in code that has the accelerator anyway, else the outermost."""
        outermost = self.bindings.outermost(chain)
        bound = [b for b in chain if b.kind == "assign" and isinstance(b.node, (ast.Name, ast.Attribute))]
        named = [b for b in bound if not self.bindings.goes_over(b.value)]
        if outermost.kind == "parameter" or node_of(outermost.scope) in self.found.needed:
            return outermost
        for binding in reversed(named):
            if node_of(binding.scope) in self.found.needed:
                return binding
        return outermost

    def _joined(self, chain: Chain, bound: set[Binding]) -> Binding:
        """The binding to prepare; for a parameter, the one where another loader may replace it: `x = x or make()`; for
        an item of a tuple, the name that it gets.
        """
        binding = self._loader_binding(chain)
        within = chain[: chain.index(binding)]
        item = next((i for i, b in enumerate(within) if b.kind == "item" and self._is_in_tuples(b)), 0)
        if item:
            return within[item - 1]
        is_parameter = binding.kind == "parameter" and len(chain) > 1
        is_joined = is_parameter and chain[-2] in bound and chain[-2].scope is binding.scope
        return chain[-2] if is_joined else binding

    def _loader_in(self, items: list[Binding], container: Binding, source: ast.expr, loop: ast.AST | None) -> None:
        """`loaders[phase]`: prepare the loader of the phase that trains; where it is made, the one below an iterator,
        and the one of a container in a container: `fit(found["loaders"])`.
        """
        item = items[0]
        assert isinstance(item.node, ast.Subscript)
        keys = self.containers.training_keys(item.node, loop)
        held = self.program.values(item.node)
        if any(isinstance(v, Generated) for v in held):
            self.found.obstacles.append((item.node, UNKNOWN_LOADER))
            return
        is_pass = any(isinstance(v, View) for v in held)
        if keys is None or len(items) > 1 or container.kind == "inline" or is_pass or self._is_in_tuples(item):
            holders = self.program.values(item.node.value)
            trained = {v for key in keys or () for v in self.program.flow.parts(holders, (key,))}
            self._without_name(source, item.node, trained)
            return
        for key in keys:
            text = f"{container.text}[{key!r}]".replace("'", '"')
            line = self.program.line(container.node)
            places = self.containers.places(container, key, item.node)
            if not all(self.containers.is_filled_after(text, statement) for _, statement in places):
                self._without_name(source, item.node)
                return
            for frame, statement in places:
                self.found.add(Item("loader", text, frame, statement, line))

    def _is_in_tuples(self, item: Binding) -> bool:
        """Whether a place is one of a tuple, which nothing can be put into."""
        assert isinstance(item.node, ast.Subscript)
        held = self.program.values(item.node.value)
        return any(isinstance(v, Collection) and isinstance(v.node, ast.Tuple) for v in held)

    def add_idle(self) -> None:
        """Loaders that nothing reads: the script is a part of one, or keeps them for later."""
        frames = {i.frame for i in self.found.items if i.kind != "model"}
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
                        self.found.add(Item("loader", name, frame, statement, write.lineno))

    def _without_name(self, source: ast.expr, site: ast.AST, trained: Iterable[Value] = ()) -> None:
        """Prepare loaders that have no name of their own where they are made; of several, those known to train."""
        owners = self.iterables.owners(source)  # through `iter(loader)`
        ways = (trained, {*self.program.values(source), *owners})
        found = ([v.node for v in held if isinstance(v, Made) and self.roles.is_loader(v)] for held in ways)
        made = next(filter(None, found), [])
        if not made:
            self.found.obstacles.append((site, f"cannot tell where `{ast.unparse(source)}` is built"))
        self.found.wrap_all(self.program, "loader", made)
