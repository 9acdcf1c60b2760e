"""Where is the size of the training batches written, and do all processes divide each batch between them?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import DRAWS, Role, Row, Rows, Trait
from accelify.codemod.preparing.objects.preparation import Preparation
from accelify.codemod.preparing.parallel_wrappers import wrapper_names
from accelify.codemod.preparing.placing import gpu_choices
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Chain, Tracer, wrapped_by
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.values import Argument, Constant, Element, Instance, Made, Value
from accelify.codemod.training.facts import leading
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.phases import Phases
from accelify.codemod.training.randomness.draws import draws
from accelify.codemod.training.roles import Roles
from accelify.codemod.training.row_groups import regroups

_MOST_NAMES = 3  # by which a tensor gets to where it meets a batch
_POSITION = 1  # of `batch_size` among the arguments of torch's `DataLoader`
_DEVICES = 1  # of `device_ids` among those of `DataParallel`


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """Where a program says how large its training batches are.

    loaders: the arguments, else the calls that build the loaders. loops: those that shard items of the script's own.
    parallel: the calls of `DataParallel` that divided each batch between the GPUs. fixed: arguments by which a model,
    or code that shapes batches, expects exactly that size, where nothing keeps smaller ones from it; where
    the processes divide the batches, also what drops or asks for smaller ones, as all are now. chosen:
    the batch samplers of the project's own, whose batches are more than so many rows: episodes, pairs, rows of each
    class. single: sizes of one, whose batches cannot be divided: often the elements are batches themselves. whole:
    those that are the number of all samples, `DataLoader(data, batch_size=len(data))`.
    """

    loaders: tuple[ast.expr, ...] = ()
    loops: tuple[ast.stmt, ...] = ()
    parallel: tuple[ast.Call, ...] = ()
    fixed: tuple[ast.expr, ...] = ()
    chosen: tuple[ast.expr, ...] = ()
    single: tuple[ast.expr, ...] = ()
    whole: tuple[ast.expr, ...] = ()


def batch_sizes_of(
    program: Program,
    roles: Roles,
    tracer: Tracer,
    training: Training,
    preparation: Preparation,
    *,
    are_divided: bool = False,
) -> BatchSizes:
    """The sizes of what is prepared and sharded for training; are_divided: each process gets a part of each batch."""
    learned_from = list(_learned_from(program, roles, tracer, training))
    loaders = tuple(dict.fromkeys(_sizes(program, learned_from)))
    return BatchSizes(
        loaders=loaders,
        loops=tuple(dict.fromkeys(d.loop for d, _ in preparation.sharded if d.loop is not None)),
        parallel=parallel_models(program, training),
        fixed=tuple(_Fixed(program, tracer, training, preparation.loaders).find(loaders, are_divided)),
        chosen=tuple(dict.fromkeys(_samplers(program, learned_from))),
        single=tuple(size for size in loaders if _is_one(program, roles, size)),
        whole=tuple(dict.fromkeys(_whole(program, learned_from))),
    )


def parallel_models(program: Program, training: Training) -> tuple[ast.Call, ...]:
    """The calls of `DataParallel` in training's runs: each divides a batch between the GPUs of one process."""
    first = leading(program, training)
    if any(_shows_one_gpu(program, node) for node in gpu_choices(program)):
        return ()
    return tuple(
        call
        for call in program.calls
        if program.frame(call) in program.reachable
        and wrapped_by(call) is not None
        and any(map(names.divides_batches, wrapper_names(program, call)))
        and not _is_for_one_device(program, call)
        and (program.frame(call).root in first or not _is_in_main_block(program, call))
    )


def _shows_one_gpu(program: Program, node: ast.AST) -> bool:
    """Whether a script always lets its process see a single GPU: `os.environ["CUDA_VISIBLE_DEVICES"] = "0"`."""
    statement = program.statement(node)
    value = statement.value if isinstance(statement, ast.Assign) and isinstance(node, ast.Subscript) else None
    is_always = program.frame(node).kind == "module" and not any(program.branches_round(node))
    is_named = program.path(node) in {parsed.path for parsed in program.named}
    return is_always and is_named and isinstance(value, ast.Constant) and str(value.value).isdigit()


def _is_in_main_block(program: Program, node: ast.AST) -> bool:
    """Whether a node is under `if __name__ == "__main__":`, which runs only where its file is started."""
    guard = main_guard(program.frame(node).root)
    return guard is not None and program.inside(node, guard)


def _is_for_one_device(program: Program, call: ast.Call) -> bool:
    """Whether `DataParallel(model, device_ids=[0])` names one GPU: then it divides nothing."""
    keyword = next((k.value for k in call.keywords if k.arg == "device_ids"), None)
    given = keyword or (call.args[_DEVICES] if len(call.args) > _DEVICES else None)
    value = None if given is None else program.once(Tracer).only_value(given) or given
    listed = value.elts if isinstance(value, (ast.List, ast.Tuple)) else []
    return len(listed) == 1 and not isinstance(listed[0], ast.Starred)


def may_be_divided(program: Program, roles: Roles, tracer: Tracer, training: Training) -> bool:
    """Whether the processes can divide the batches that are trained on: torch's loaders, which cut no rows anew.

    Not where a batch sampler of the project's own chooses what is in a batch: a part may lack what the step needs.
    """
    learned_from = list(_learned_from(program, roles, tracer, training))
    is_divided = all(roles.is_torch_loader(v) and not regroups(program, v) for _, held in learned_from for v in held)
    sizes = list(_sizes(program, learned_from))
    is_whole = any(_is_one(program, roles, size) for size in sizes) or any(_samplers(program, learned_from))
    return any(d.kind == "loaders" for d in training.data) and is_divided and not is_whole


def _is_one(program: Program, roles: Roles, size: ast.expr) -> bool:
    """Whether a loader's batches are of one element each, as its size says or the lack of one."""
    if isinstance(size, ast.Call) and any(map(roles.is_loader, program.values(size))):
        return not any(k.arg is None or k.arg in ("batch_size", "batch_sampler") for k in size.keywords)
    return program.values(size) == {Constant(1)}


_LearnedFrom = tuple[ast.expr, list[Value]]  # a source of batches, and the loaders that it may be


def _learned_from(program: Program, roles: Roles, tracer: Tracer, training: Training) -> Iterator[_LearnedFrom]:
    """The sources of the batches that are trained on; of `loaders[phase]`, the loader of the phase that trains."""
    iterables = Iterables(program, roles, tracer)
    for one in (one for one in training.data if one.kind == "loaders"):
        phase = training.phases.get(one.loop) if one.loop is not None else None
        taken = Phases(program, tracer).source(phase.loop) if phase is not None and phase.key is not None else None
        at_key = (
            program.flow.parts(program.values(taken.value), (phase.key,))
            if phase is not None and isinstance(taken, ast.Subscript)
            else frozenset()
        )
        for source in one.sources:
            loaders = [v for v in iterables.owners(source) if roles.is_loader(v)]
            yield source, [v for v in loaders if v in at_key] or loaders


def _sizes(program: Program, learned_from: Iterable[_LearnedFrom]) -> Iterator[ast.expr]:
    for source, loaders in learned_from:
        built = _built(program, source, loaders)
        yield from sorted((size_of(program.once(Tracer), call) for call in built), key=program.position)
        if not built:
            yield source


def _whole(program: Program, learned_from: Iterable[_LearnedFrom]) -> Iterator[ast.expr]:
    """The sizes that are the number of all samples, of the data set or of what it is made of."""
    tracer = program.once(Tracer)
    for call in (call for source, loaders in learned_from for call in _built(program, source, loaders)):
        size = size_of(tracer, call)
        asked = sizes.size(tracer.only_value(size) or size)
        counted = asked.of if asked is not None and asked.dimension == 0 else None
        data = next(iter([*tracer.options(call, "dataset"), *call.args]), None)
        made = tracer.only_value(data) if data is not None else None
        held = [data, *(made.args if isinstance(made, ast.Call) else ())]
        same = [h for h in held if h is not None and counted is not None and ast.unparse(h) == ast.unparse(counted)]
        if any(program.frame(h) is program.frame(counted) for h in same if counted is not None):
            yield size


def _samplers(program: Program, learned_from: Iterable[_LearnedFrom]) -> Iterator[ast.expr]:
    """The batch samplers of the project's own that loaders are given, by name or in a dictionary of options."""
    for call in (call for source, loaders in learned_from for call in _built(program, source, loaders)):
        for given in program.once(Tracer).options(call, "batch_sampler"):
            if any(isinstance(v, Instance) for v in program.values(given)):
                yield given


def _built(program: Program, source: ast.expr, loaders: Iterable[Value]) -> list[ast.Call]:
    """The calls that build the loaders of a source of batches."""
    return _held_there(program, source, [call for loader in loaders for call in _built_at(program, loader)])


def _held_there(program: Program, source: ast.expr, built: list[ast.Call]) -> list[ast.Call]:
    """Those of some calls that an expression leads back to, if it leads to nothing else."""
    given = [c[-1].value for c in program.once(Tracer).chains(source) if not c[-1].is_none]
    return [c for c in built if c in given] if given and all(g in built for g in given) else built


def _built_at(program: Program, loader: Value) -> Iterator[ast.Call]:
    """The calls that build a loader."""
    if isinstance(loader, Made) and isinstance(loader.node, ast.Call):
        yield loader.node
    elif isinstance(loader, Instance):
        made = (c for c in program.calls if loader in program.values(c))
        calls = [c for c in made if any(f.parent is loader.cls for f in program.flow.callees.get(c, ()))]
        yield from filter(program.once(Conditions).worlds, calls)


def size_of(tracer: Tracer, call: ast.Call) -> ast.expr:
    """The argument that says how large the batches of a loader are; the call itself where none does."""
    if len(call.args) > _POSITION and not any(isinstance(a, ast.Starred) for a in call.args[: _POSITION + 1]):
        return call.args[_POSITION]
    given = [*tracer.options(call, "batch_size"), *tracer.options(call, "batch_sampler")]
    return given[0] if given else call


class _Fixed:
    """Find what is built for batches of one size: hidden states of so many rows, `x.view(size, -1)`, `range(size)`."""

    def __init__(self, program: Program, tracer: Tracer, training: Training, loaders: Collection[Value]) -> None:
        self.program = program
        self.tracer = tracer
        self.training = training
        self.loaders = loaders
        self._kinds = program.once(Effects).kinds
        self._is_of_batch = cache(self._find_is_of_batch)

    def find(self, sizes: Iterable[ast.expr], are_divided: bool) -> Iterator[ast.expr]:
        """The arguments that tell models the sizes of loaders, whose last batches may be smaller, or all of them."""
        for size in sizes:
            if isinstance(size, ast.Constant) and size.value == 1:
                continue  # no batch is smaller, or can be divided
            loader = self.program.parent(size)
            loader = self.program.parent(loader) if isinstance(loader, ast.keyword) else loader
            loader = None if isinstance(loader, ast.Call) and "dict" in self.program.called(loader) else loader
            asked = list(self._asked(size))
            may_be_smaller = self._is_given(size) or (isinstance(loader, ast.Call) and not _drops_last(loader))
            if are_divided or (may_be_smaller and not asked):
                of_batch = (side for side, other in asked if self._is_of_batch(other))
                rows = self._taken_for_rows(size, self._steps if are_divided else frozenset())
                yield from dict.fromkeys((*self._given_to_models(size), *rows, *self._picked(size), *of_batch))

    def _is_given(self, source: ast.expr) -> bool:
        """Whether a source of batches is a loader that unknown callers pass, of a size that nothing here says."""
        return any(isinstance(v, Argument) and v in self.loaders for v in self.program.values(source))

    def _is_size(self, size: ast.expr, given: ast.expr, name: str = "") -> bool:
        """Whether an expression is the size, or a parameter of that name, of a function that is given the loader."""
        if not isinstance(given, (ast.Name, ast.Attribute)) or not self._is_given(size):
            return is_same_size(self.tracer, size, given, name)
        functions = {c[-1].scope for c in self.tracer.chains(size)}
        ends = [c[-1] for c in self.tracer.chains(given)]
        sizes = (isinstance(e.node, ast.arg) and vocabulary.is_name_of_a_batch_size(e.node.arg) for e in ends)
        return bool(ends) and all(sizes) and all(e.scope in functions for e in ends)

    @cached_property
    def _steps(self) -> frozenset[ast.Call]:
        """The calls that a training step makes, also in the functions that it runs."""
        loops = (loop for loops in self.training.loops.values() for loop in loops)
        calls = {n for loop in loops for s in loop.body for n in walk(s) if isinstance(n, ast.Call)}
        run = self.program.run_through(calls)
        return frozenset(calls.union(*(self.program.calls_in(f) for f in run)))

    def _taken_for_rows(self, size: ast.expr, steps: Collection[ast.Call]) -> Iterator[ast.expr]:
        """Where the rows of a batch are taken to be so many: `x.view(size, -1)`, `rnn(x, torch.zeros(1, size, 8))`."""
        for call, arguments in self._run_calls:
            is_made = call in steps and self._makes_rows(call)
            is_made = is_made and not draws(self.program, call)  # a model may make any number of samples
            given = [p for a in arguments for p in (_factors(a) if is_made else (a,))]
            found = next((a for a in given if self._is_size(size, a, "batch" if a is given[0] else "")), None)
            is_anew = isinstance(found, ast.Attribute) and self._is_set_anew(found, found.attr)
            if found is None or is_anew:
                continue
            if is_made or self._shapes_batch(call) or self._takes_batch(call, given.index(found)):
                yield found

    def _picked(self, size: ast.expr) -> Iterator[ast.expr]:
        """Where rows of a batch are picked up to that number: `for i in range(size): loss += crit(z[i], y[i])`."""
        for call, arguments in self._run_calls:
            is_range = bool(arguments) and self.program.called(call) == {"range"}
            end = arguments[:2][-1] if is_range else None
            if end is not None and self._is_size(size, end, "batch") and self._picks_rows(call, end):
                yield end

    def _picks_rows(self, counted: ast.Call, end: ast.expr) -> bool:
        """Whether a loop, or a comprehension, takes rows of a batch by its count, and asks for no smaller one."""
        loop = self.program.parent(counted)
        if not isinstance(loop, (ast.For, ast.comprehension)) or not isinstance(loop.target, ast.Name):
            return False
        counter, rounds = loop.target.id, loop if isinstance(loop, ast.For) else self.program.parent(loop)
        inside = [n for n in walk(rounds) if _names(n, counter)]
        if any(isinstance(n, ast.Compare) and self._asks_for_end(n, counter) for n in inside):
            return False
        picked = (n for n in inside if isinstance(n, ast.Subscript) and _names(n.slice, counter))
        is_number = isinstance(end, ast.Constant)  # which may also be that of columns
        return any(self._is_of_batch(p.value) for p in picked if not is_number or _is_by_row(p, counter))

    def _asks_for_end(self, test: ast.Compare, counter: str) -> bool:
        """Whether a count is compared with the size of the batch at hand: `if i >= len(x): break`."""
        sides = (test.left, *test.comparators)
        counts = [side for side in sides if _names(side, counter)]
        others = [side for side in sides if side not in counts]
        return not any(map(self._is_of_batch, counts)) and any(map(self._is_of_batch, others))

    @cached_property
    def _run_calls(self) -> list[tuple[ast.Call, list[ast.expr]]]:
        """The calls that the script may make, each with its arguments."""
        run = (c for c in self.program.calls if self.program.frame(c) in self.program.reachable)
        return [(call, [*_arguments(call)]) for call in run]

    def _shapes_batch(self, call: ast.Call) -> bool:
        """Whether a call gives a batch another shape, or makes a tensor for one."""
        if self._makes_rows(call):
            return any(map(self._meets_batch, self._reads(call)))
        if not isinstance(call.func, ast.Attribute) or self.program.called(call):
            return False
        row = table.member("tensor", call.func.attr)
        is_view = row is not None and row.has(Trait.VIEW) and row.has(Trait.SAME_VALUES)
        return is_view and self._is_of_batch(call.func.value)

    def _takes_batch(self, made: ast.Call, axis: int) -> bool:
        """Whether a batch is put into a tensor, along an axis of it: `outputs[i] = net(x)` along the second."""
        for read in self._reads(made) if self._makes_rows(made) else ():
            place, statement = self.program.parent(read), self.program.statement(read)
            if isinstance(place, ast.Subscript) and isinstance(statement, ast.Assign) and place in statement.targets:
                parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
                is_whole = len(parts) <= axis or ast.unparse(parts[axis]) == ":"
                if is_whole and self._is_of_batch(statement.value):
                    return True
        return False

    def _makes_rows(self, call: ast.Call) -> bool:
        """Whether a call makes a tensor or an array, of as many rows as its arguments say."""
        return any(map(_makes_rows, self._kinds.called(call) or ()))

    def _reads(self, made: ast.Call) -> Iterator[ast.expr]:
        """Where a tensor is read, by the name that it gets."""
        yield made
        yield from self._reads_of_bound(self.program.statement(made))

    def _reads_of_bound(self, statement: ast.AST) -> Iterator[ast.expr]:
        """Where the names are read that an assignment binds."""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for name in (n for t in targets for n in walk(t) if isinstance(n, ast.Name)):
            owner = self.program.scope(name).owner(name.id)
            reads = self.program.reads_of(owner, name.id) if owner is not None else []
            yield from (r for r in reads if name in self.program.reaching(r, [name]))

    def _meets_batch(self, read: ast.expr, depth: int = _MOST_NAMES) -> bool:
        """Whether a tensor is given to a function, or an operator, beside (what is made of) a batch.

        So may one that is made of it row by row: `torch.from_numpy(noise).float()`.
        """
        call = next((a for a in self.program.ancestors(read) if isinstance(a, (ast.Call, ast.BinOp, ast.stmt))), None)
        if isinstance(call, ast.BinOp):
            sides = (s for s in (call.left, call.right) if not self.program.inside(read, s))
            return any(map(self._is_of_batch, sides)) or self._meets_batch(call, depth)
        if not isinstance(call, ast.Call):
            return depth > 0 and any(self._meets_batch(r, depth - 1) for r in self._reads_of_bound(call or read))
        is_beside = any(self._is_of_batch(a) for a in _arguments(call) if not self.program.inside(read, a))
        return is_beside or (self._keeps_rows(call) and self._meets_batch(call, depth))

    def _keeps_rows(self, call: ast.Call) -> bool:
        """Whether each row of a result is made of one row of what a call is given: `x.to(device)`, `x.float()`."""
        rows = self._kinds.called(call) or ()
        is_each = bool(rows) and all(row.rows is Rows.EACH or row.role is Role.FACTORY for row in rows)
        return is_each or methods.moves_to_device(getattr(call.func, "attr", ""))

    def _find_is_of_batch(self, node: ast.AST, depth: int = 4) -> bool:
        """Whether an expression has the rows of a batch of a prepared loader."""
        reads = [n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        held = {v for n in reads for v in self.program.values(n)}
        if any(isinstance(v, Element) and v.owner in self.loaders for v in held):
            return True
        return any(self._is_of_batch(g, depth - 1) for n in reads for g in (self._given(n) if depth else ()))

    def _given(self, read: ast.Name) -> Iterator[ast.expr]:
        """The values that a name may have been given."""
        owner = self.program.scope(read).owner(read.id)
        for write in self.program.reaching(read, self.tracer.writes(owner, read.id)) if owner is not None else ():
            if isinstance(write, ast.arg):
                calls = self.program.flow.callers.get(self.program.scope(write), ())
                found = [self.tracer.argument(c, self.program.scope(write), write.arg) for c in calls]
            else:
                statement = self.program.statement(write)
                found = [self.tracer.assigned(write) if isinstance(write, ast.Name) else None]
                found = [statement.value] if found == [None] and isinstance(statement, ast.Assign) else found
            yield from (g for g in found if g is not None)

    def _given_to_models(self, size: ast.expr) -> Iterator[ast.expr]:
        for call in self.program.calls:
            for callee in self.program.flow.callees.get(call, ()):
                cls = callee.parent if callee.is_method else None
                if cls is None or not self.program.flow.is_module_class(cls) or callee.name == "forward":
                    continue
                given = ((p.arg, self.tracer.argument(call, callee, p.arg)) for p in callee.parameters)
                same = ((name, a) for name, a in given if a is not None and self._is_size(size, a, name))
                yield from (a for name, a in same if self._is_needed(callee, name))

    def _is_needed(self, function: Scope, name: str, depth: int = 3) -> bool:
        """Whether a function of a model does more with a parameter than keep it in an attribute that nothing reads."""
        chains = self.program.once(Chains)
        reads = (
            read
            for read in self.program.reads_of(function, name)
            if read not in self._sizes and any(d.kind is Kind.PARAMETER for d in chains.definitions(read))
        )
        return any(self._needs(read, depth) for read in reads)

    @cached_property
    def _sizes(self) -> frozenset[ast.expr]:
        """What the loaders themselves are given."""
        made = (v.node for v in self.loaders if isinstance(v, Made))
        return frozenset(size_of(self.tracer, node) for node in made if isinstance(node, ast.Call))

    def _needs(self, read: ast.Name, depth: int) -> bool:
        parent = self.program.parent(read)
        targets = parent.targets if isinstance(parent, ast.Assign) and parent.value is read else []
        if targets and all(isinstance(t, ast.Attribute) for t in targets):
            kept = [t.attr for t in targets if isinstance(t, ast.Attribute)]
            return any(name in self._read_of_models and not self._is_set_anew(read, name) for name in kept)
        call = self.program.parent(parent) if isinstance(parent, ast.keyword) else parent
        callees = self.program.flow.callees.get(call, ()) if isinstance(call, ast.Call) and depth else ()
        if not callees or not isinstance(call, ast.Call):
            return True
        taken = [(c, p.arg) for c in callees for p in c.parameters if self.tracer.argument(call, c, p.arg) is read]
        return not taken or any(self._is_needed(callee, given, depth - 1) for callee, given in taken)

    def _is_set_anew(self, first: ast.AST, name: str) -> bool:
        """Whether each forward pass, or each step round it, gives an attribute of a model a value of its batch."""
        method = self.program.frame(first)
        cls = method.parent if method.is_method else None
        forward = self.program.flow.method(cls, "forward") if cls is not None else None
        run = self.program.run_from([forward]) if forward is not None else set[Scope]()
        loops = {loop for loops in self.training.loops.values() for loop in loops}
        statements = [self.program.statement(w) for w in self.program.attribute_writes.get(name, ())]
        return any(
            (self.program.frame(s) in run and s in self.program.frame(s).body) or self.program.parent(s) in loops
            for s in statements
            if isinstance(s, ast.Assign) and self._is_of_batch(s.value)
        )

    @cached_property
    def _read_of_models(self) -> frozenset[str]:
        """The attributes of models that some code reads."""
        nodes = (n for parsed in self.program.files for n in parsed.parents if isinstance(n, ast.Attribute))
        return frozenset(n.attr for n in nodes if isinstance(n.ctx, ast.Load) and self._may_be_model(n.value))

    def _may_be_model(self, node: ast.expr) -> bool:
        held = self.program.values(node)
        classes = [v.cls for v in held if isinstance(v, Instance)]
        return any(map(self.program.flow.is_module_class, classes)) or (not held and not self.program.externals(node))

    def _asked(self, size: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Where the training compares something with the size, as what leaves out smaller batches does; and what."""
        for node in self._comparisons:
            for side, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                if self._is_size(size, side, "batch"):
                    yield side, other

    @cached_property
    def _comparisons(self) -> tuple[ast.Compare, ...]:
        """What the training compares."""
        loops = sorted({loop for loops in self.training.loops.values() for loop in loops}, key=self.program.position)
        return tuple(dict.fromkeys(n for loop in loops for n in walk(loop) if isinstance(n, ast.Compare)))


def is_same_size(tracer: Tracer, size: ast.expr, given: ast.expr, name: str = "") -> bool:
    """Whether an expression is the size: the same variable or option, or the same number for a size of batches."""
    if isinstance(given, ast.Constant) and isinstance(size, ast.Constant):
        return "batch" in name and given.value == size.value
    if not isinstance(given, (ast.Name, ast.Attribute)) or not isinstance(size, (ast.Name, ast.Attribute)):
        return False
    ends = set(map(_end, tracer.chains(size)))
    is_option = isinstance(size, ast.Attribute) and ast.unparse(size) == ast.unparse(given)
    return is_option or any(_end(chain) in ends for chain in tracer.chains(given))


def _makes_rows(row: Row) -> bool:
    """Whether a function makes what holds values of its own: `torch.zeros`, `x.new_zeros`, `np.random.rand`."""
    is_array = row.returns in ("tensor", "ndarray") and row.rows is not Rows.EACH
    return is_array and (row.role is Role.FACTORY or bool(row.effects & DRAWS))


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call, one by one: `2` and `n` of `zeros((2, n))`, too."""
    for each in (*call.args, *(k.value for k in call.keywords)):
        yield from each.elts if isinstance(each, (ast.Tuple, ast.List)) else (each,)


def _names(node: ast.AST, name: str) -> bool:
    """Whether code reads a name."""
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))


def _is_by_row(picked: ast.Subscript, name: str) -> bool:
    """Whether the first index of a variable picks its rows: `x[i, 0]`, and neither `x[:, i]` nor `x[0][i]`."""
    first = picked.slice.elts[0] if isinstance(picked.slice, ast.Tuple) else picked.slice
    return isinstance(picked.value, ast.Name) and _names(first, name)


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """`2` and `n` of `2 * n`, of `n // 2` and of `int(n / 2)`; an expression of another kind itself."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and names.converts(node.func.id):
        node = node.args[0] if len(node.args) == 1 else node
    is_part = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Div))
    yield from (node.left, node.right) if is_part else (node,)  # type: ignore[attr-defined]  # a product


def _end(chain: Chain) -> tuple[ast.AST, tuple[str, ...]]:
    """Where a value comes from, with the keys of the containers that it is taken out of."""
    taken = [b.node for b in chain if b.kind == "item"]
    return chain[-1].node, tuple(ast.unparse(n.slice) for n in taken if isinstance(n, ast.Subscript))


def _drops_last(loader: ast.Call) -> bool:
    given = {k.arg: k.value for k in loader.keywords}
    drops = given.get("drop_last")
    is_dropping = drops is not None and not (isinstance(drops, ast.Constant) and drops.value is False)
    return is_dropping or "batch_sampler" in given or None in given
