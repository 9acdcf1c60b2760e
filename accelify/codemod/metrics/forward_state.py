"""What does a forward pass change from a rank's own batch, without a gradient: buffers, weights, hidden states?

    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
    self.codebook.weight.data.copy_(self.sums / self.counts)

Gradients are averaged across the ranks, and so optimizers change all models alike. What a forward pass changes itself
is learned from the batches of one rank. So is what hooks keep of a pass and the step takes for more than to look at it;
and so are the statistics of batch normalisation, which a script refreshes by passes whose results it does not use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from accelify.codemod.libraries import methods, names
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.joint_steps import JointSteps
from accelify.codemod.metrics.rows.size_values import SizeValues
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.call_conditions import Ways
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.effects.operations import changed_arguments
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant, External, FunctionValue, Instance, Made
from accelify.codemod.training.modes import LastModes


def forward_states(metrics: Metrics) -> Iterator[tuple[ast.AST, str]]:
    """The statements and calls that change such a state, each with the name of its attribute."""
    program = metrics.measured.program
    modules, run = passes_of(program)
    for cls in modules:
        changes = [*_changes(cls, run), *_changes_by_operations(program, cls, run)]
        kept = kept_names(program, cls) if changes else set()
        for node, name, given in changes:
            if name in kept and any(map(metrics.ranks.is_own, given)) and _is_given_own(metrics, node, name, run):
                yield node, name


def _is_given_own(metrics: Metrics, node: ast.AST, name: str, run: Set[Scope]) -> bool:
    """Whether a pass that comes to a change is given what is a rank's own, or its object has that already.

    model(x, mode="train"); model(graph, mode="update")    # of which only the second changes `self.weights`
    """
    program, ways = metrics.measured.program, Ways(metrics.measured.program, metrics.measured.tracer)
    nodes = [n for n in ast.walk(program.frame(node).node) if isinstance(n, ast.Attribute) and n.attr != name]
    if any(ast.unparse(n.value) == "self" and metrics.ranks.is_own(n) for n in nodes):
        return True
    queue, seen = [(program.frame(node), ways.begin(node))], set[Scope]()
    passes: list[ast.Call] = []
    while queue:
        frame, way = queue.pop()
        seen.add(frame)
        for call in program.calls_of(frame):
            if (longer := ways.through(call, way)) is None:
                continue
            inner = program.frame(call)
            if inner in run and inner not in seen:
                queue.append((inner, longer or ways.begin(call)))
            elif inner not in run:
                passes.append(call)
    given = [a for call in passes for a in (*call.args, *(k.value for k in call.keywords))]
    return not passes or any(map(metrics.ranks.is_own, given))


def agree_by_broadcast(metrics: Metrics, nodes: Iterable[ast.AST], *, weights: bool) -> bool:
    """Whether prepared models alone run the methods that change such states, so that all ranks get those of rank 0.

    weights: whether weights that no optimizer makes agree do so, too, and not buffers alone.
    """
    program = metrics.measured.program
    modules, _ = passes_of(program)
    models = metrics.measured.prepared.preparation.models
    prepared = {v.cls for v in models if isinstance(v, Instance)}
    prepared |= {part.cls for v in models for part in program.flow.modules_inside(v)}
    forwards = {cls: program.flow.method(cls, "forward") for cls in (*modules, *prepared)}
    run = program.run_from(f for cls, f in forwards.items() if f is not None and cls in prepared)
    others = [f for f in forwards.values() if f is not None and f not in run and f in program.reachable]
    frames = {program.frame(node) for node in nodes}
    is_theirs = frames <= run and frames.isdisjoint(program.run_from(others))
    return is_theirs and (weights or not any(_sets_weights(program, node) for node in nodes))


def _sets_weights(program: Program, node: ast.AST) -> bool:
    """Whether a change is of an attribute that is no buffer."""
    cls = program.frame(node).parent
    changed = {_changed(node)[0]} - {""}
    changed |= {name for _, name, _ in _given_to_operation(program, node)} if isinstance(node, ast.Call) else set()
    return cls is None or not changed <= buffer_names(program, cls)


def carried_states(metrics: Metrics) -> Iterator[tuple[ast.AST, str]]:
    """Where a forward pass in a sharded loop keeps what the next one computes with, with its attribute.

    out, self.hidden = self.rnn(x, self.hidden)
    """
    modules, run = passes_of(metrics.measured.program)
    for cls in modules if metrics.ranks.rounds else ():
        kept = kept_names(metrics.measured.program, cls)
        for method in (s for s in cls.children if s in run and s.is_method and s.name != "__init__"):
            for name, stores in _stores(method).items():
                loop = metrics.ranks.running.loop_that_runs(method) if name not in kept else None
                if (
                    loop is not None
                    and _is_carried(metrics, method, name, stores)
                    and not _is_set_in(metrics, loop, name, run)
                ):
                    yield stores[0], name


def rescaled_rows(metrics: Metrics) -> Iterator[ast.Call]:
    """The calls that make modules whose forward pass rescales the rows it looks up: `nn.Embedding(9, 2, max_norm=1)`.

    Where ranks have batches of their own, each rescales other rows.
    """
    program = metrics.measured.program
    for call in program.calls if metrics.ranks.rounds or metrics.ranks.shards.draws else ():
        given = [*call.args[3:4], *(k.value for k in call.keywords if k.arg == "max_norm")]
        is_limited = any(not isinstance(g, ast.Constant) or g.value is not None for g in given)
        if is_limited and program.is_run(call) and any(map(names.may_rescale_rows, program.called(call))):
            yield call


def passes_of(program: Program) -> tuple[list[Scope], Set[Scope]]:
    """The classes of modules, and the functions that their forward passes run."""
    modules = list(filter(program.flow.is_module_class, classes(program)))
    forwards = [method for cls in modules if (method := program.flow.method(cls, "forward")) is not None]
    return modules, program.run_from(forwards) & program.reachable


def _stores(method: Scope) -> dict[str, list[ast.Attribute]]:
    """Where a method sets attributes of its object, by their names."""
    found: dict[str, list[ast.Attribute]] = {}
    for node in (n for statement in method.body for n in ast.walk(statement)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.setdefault(node.attr, []).append(node)
    return found


def _is_carried(metrics: Metrics, method: Scope, name: str, stores: list[ast.Attribute]) -> bool:
    """Whether a pass sets an attribute to what is of its batch, and reads it before that: as an earlier one left it."""
    chains = metrics.measured.chains
    values = [(store, assigned_to(metrics.measured.program, store)) for store in stores]
    no_counts = [store for store, value in values if value is None or chains.kinds.of(value) != {"number"}]
    no_counts = [store for store in no_counts if not _is_made_by_size(metrics.measured.program, store)]
    of_sizes, given = SizeValues(metrics.ranks), dict(values)
    no_counts = [store for store in no_counts if not of_sizes.is_set(store, given[store])]
    is_own = any(metrics.ranks.given_by(d).is_own for store in no_counts for d in chains.facts(store).at(store))
    return is_own and (_reads_first(metrics, method, name) or _is_read_before(metrics, method, name))


def _is_read_before(metrics: Metrics, method: Scope, name: str) -> bool:
    """Whether the forward pass that runs a method computes with an attribute before anything in it sets that."""
    program = metrics.measured.program
    forward = program.flow.method(method.parent, "forward") if method.parent is not None else None
    is_run = forward is not None and method in program.run_from([forward])
    return forward is not None and is_run and _reads_first(metrics, forward, name)


def _reads_first(metrics: Metrics, method: Scope, name: str, seen: frozenset[Scope] = frozenset()) -> bool:
    """Whether a method computes with what an attribute holds when it begins, itself or in others of its object."""
    program, chains = metrics.measured.program, metrics.measured.chains
    nodes = [n for s in method.body for n in ast.walk(s)]
    called = {c: _of_self(program, c) - seen - {method} for c in nodes if isinstance(c, ast.Call)}
    stores: list[ast.AST] = [*_stores(method).get(name, ())]
    stores += [c for c, others in called.items() if any(name in _stores(s) for s in _of_one(program, others))]
    own = (n for n in nodes if isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Load))
    reads: list[ast.AST] = [n for n in own if ast.unparse(n.value) == "self" and _is_computed(metrics, n)]
    reads += [c for c, others in called.items() if any(_reads_first(metrics, s, name, seen | {method}) for s in others)]
    before = {read: [s for s in stores if program.statement(s) is not program.statement(read)] for read in reads}
    return any(not chains.flow(read).is_covered(done, read) for read, done in before.items())


def _of_self(program: Program, call: ast.Call) -> set[Scope]:
    """The methods that a call may run of the object whose method makes it: `self.join(x)`."""
    is_of_self = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ("self", "super()")
    return {s for s in program.flow.callees.get(call, ()) if s.is_method} if is_of_self else set()


def _of_one(program: Program, methods_run: Set[Scope]) -> Set[Scope]:
    """Some methods, and all those of their object that they run."""
    found, queue = set(methods_run), list(methods_run)
    while queue:
        calls = program.calls_in(queue.pop())
        queue += (new := {s for call in calls for s in _of_self(program, call)} - found)
        found |= new
    return found


def _is_made_by_size(program: Program, store: ast.Attribute) -> bool:
    """Whether an attribute is only made anew where its size does not fit a batch: `self.mask.size(0) != len(x)`."""
    tests = (n for choice, _ in program.branches_round(store) for n in ast.walk(choice.test))
    sides = (side for n in tests if isinstance(n, ast.Compare) for side in (n.left, *n.comparators))
    parts = (n for side in sides for n in ast.walk(side) if isinstance(n, ast.Attribute))
    asked = (program.parent(n) for n in parts if n.attr == store.attr)
    return any(a is not None and (_is_shape(a) or sizes.measured(a) is not None) for a in asked)


def _is_shape(node: ast.AST | None) -> bool:
    """`x.shape`, `x.size`"""
    return isinstance(node, ast.Attribute) and (methods.is_about(node.attr) or methods.is_size(node.attr))


def _is_computed(metrics: Metrics, read: ast.Attribute) -> bool:
    """Whether more is taken of a value than its shape, or whether there is one."""
    parent = metrics.measured.program.parent(read)
    is_asked = isinstance(parent, (ast.Compare, ast.UnaryOp)) or getattr(parent, "test", None) is read
    return not _is_shape(parent) and not is_asked


def _is_set_in(metrics: Metrics, loop: ast.AST, name: str, run: Set[Scope]) -> bool:
    """Whether other code gives an attribute another value in the rounds of a loop: `net.hidden = net.first(8)`."""
    program = metrics.measured.program
    for write in program.attribute_writes.get(name, ()):
        frame, value = program.frame(write), assigned_to(program, write)
        is_new = value is not None and f".{name}" not in ast.unparse(value)
        is_in_round = program.inside(write, loop) or metrics.ranks.running.loop_that_runs(frame) is loop
        if is_new and is_in_round and frame not in run:
            return True
    return False


def hook_states(metrics: Metrics) -> Iterator[tuple[ast.AST, str]]:
    """The statements and calls of hooks that keep what gradients or weights are computed with, with its attribute."""
    program, run = metrics.measured.program, hooked_functions(metrics)
    for cls in classes(program) if run else ():
        changes = [c for c in _changes(cls, run) if not isinstance(c[0], ast.AugAssign)]
        taken = _taken_with_gradients(program, cls, run) if changes else set()
        yield from ((node, name) for node, name, given in changes if name in taken and not _are_constants(given))


def hook_totals(metrics: Metrics) -> Iterator[tuple[ast.AST, str]]:
    """The statements of hooks that add up what other code computes with, with its attribute: `self.ranks += g.abs()`"""
    program, kinds, run = metrics.measured.program, metrics.measured.chains.kinds, hooked_functions(metrics)
    for cls in classes(program) if run else ():
        for node, name, given in _changes(cls, run):
            if not isinstance(node, ast.AugAssign) or all(kinds.of(g) == {"number"} for g in given):  # which count
                continue
            frames = (program.frame(read) for read in program.attribute_reads.get(name, ()))
            if any(f in program.reachable and f not in run for f in frames):
                yield node, name


def hooked_functions(metrics: Metrics) -> Set[Scope]:
    """The functions that hooks run, where passes are over a rank's own batches."""
    program = metrics.measured.program
    calls = (call for call in program.calls if _adds_hook(call) and program.frame(call) in program.reachable)
    given = (a for call in calls for a in (*call.args, *(k.value for k in call.keywords)))
    hooks = [v.scope for a in given for v in program.values(a) if isinstance(v, FunctionValue)]
    has_own = bool(metrics.ranks.rounds) or metrics.ranks.shards.draws
    return program.run_from(hooks) if has_own else set()


def refreshing_passes(metrics: Metrics, *, buffers_agree: bool = False) -> Iterator[ast.Call]:
    """The calls of models on one rank's batches whose results nothing reads, and that no backward pass follows.

    buffers_agree: whether prepared models have the same buffers on all ranks after such a loop; what hooks collect is
    not among them.
    """
    program, roles = metrics.measured.program, metrics.measured.roles
    shared = {*metrics.shared_loops}.difference(*metrics.measured.training.loops.values())
    has_hooks, modes, kinds = any(map(_adds_hook, program.calls)), LastModes(program, roles), program.once(Kinds)
    for call in program.calls if shared else ():
        if shared.isdisjoint(program.loops_round(call)) or not _is_unread(program, call):
            continue
        is_run = any(map(roles.is_model, program.values(call.func))) or "module" in kinds.of(call.func)
        will_agree = buffers_agree and metrics.measured.prepared.is_model(call.func)
        is_for_itself = has_hooks or not (will_agree or modes.is_in_eval_mode(call))
        if is_run and is_for_itself and any(map(metrics.ranks.is_own, call.args)):
            yield call


def late_evaluations(metrics: Metrics) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The statements of rounds that evaluate, with the pass in training mode on a rank's own batch since its last step.

    loss.backward(); optimizer.step(); show(model(x))    # changes the statistics of batch normalisation
    if step % 100 == 0:
        evaluate(model)    # on the same data in all ranks, by each rank's own statistics

    What all ranks do together, as a backward pass, makes the statistics agree.
    """
    training, program = metrics.measured.training, metrics.measured.program
    steps = JointSteps(metrics, training.backwards)
    modes = LastModes(program, metrics.measured.roles)
    evaluating = _evaluating_alike(metrics, modes)
    frames = {program.frame(call) for call in evaluating}
    for loop in dict.fromkeys(loops[0] for loops in training.loops.values() if loops and frames):
        calls = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)]
        backwards = [c for c in calls if steps.holds([c])]
        others = [c for c in calls if c not in backwards]
        runs = [c for c in others if c in evaluating or not frames.isdisjoint(program.run_through([c]))]
        passes = [c for c in others if c not in runs and _learns_statistics(metrics, modes, c)] if runs else []
        flow = program.control_flow(loop)
        for call in runs:
            late = (p for p in passes if flow.reaches(p, call, without=backwards))
            around = [n for n in program.loops_round(call) if program.inside(n, loop) and n is not loop]
            statement = around[-1] if around else program.statement(call)
            if isinstance(statement, ast.stmt) and (found := next(late, None)) is not None:
                yield statement, found


def _evaluating_alike(metrics: Metrics, modes: LastModes) -> set[ast.Call]:
    """The forward passes in evaluation mode on data that are the same on all ranks, of models with such statistics."""
    program, roles = metrics.measured.program, metrics.measured.roles
    values = (v for held in program.flow.values.values() for v in held)
    if not metrics.ranks.rounds or not any(
        isinstance(v, External) and names.may_keep_statistics(v.name) for v in values
    ):
        return set()
    passes = (c for c in program.calls if any(map(roles.is_model, program.values(c.func))))
    return {c for c in passes if c.args and not any(map(metrics.ranks.is_own, c.args)) and modes.is_in_eval_mode(c)}


def _learns_statistics(metrics: Metrics, modes: LastModes, call: ast.Call) -> bool:
    """Whether a call is a forward pass of a model on a rank's own batch, in training mode."""
    roles, program = metrics.measured.roles, metrics.measured.program
    is_pass = any(map(roles.is_model, program.values(call.func))) and any(map(metrics.ranks.is_own, call.args))
    return is_pass and not modes.is_in_eval_mode(call)


def _is_unread(program: Program, call: ast.Call) -> bool:
    """Whether the result of a call is dropped, or given to a name alone that nothing reads before it is set again."""
    parent = program.parent(call)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    if not targets or not all(isinstance(t, ast.Name) for t in targets):
        return isinstance(parent, ast.Expr)
    named = [t.id for t in targets if isinstance(t, ast.Name)]
    reads = (r for name in named for r in program.reads_of(program.scope(call), name))
    return not any(d.node in targets for r in reads for d in program.definitions(r).definitions(r))


def classes(program: Program) -> Iterator[Scope]:
    """The classes of a program, in the order of the text."""
    scopes = (s for parsed in program.files for s in program.flow.bindings[parsed.path].root.walk())
    return (s for s in scopes if s.kind == "class")


def _changes(cls: Scope, run: Set[Scope]) -> Iterator[tuple[ast.AST, str, list[ast.expr]]]:
    """What the methods of a class that are run change of its attributes, and what from."""
    methods_run = [s for s in cls.walk() if s in run and s.is_method and s.name != "__init__"]
    nodes = (n for method in methods_run for statement in method.body for n in ast.walk(statement))
    return ((node, name, given) for node in nodes for name, given in [_changed(node)] if name)


def _changes_by_operations(
    program: Program, cls: Scope, run: Set[Scope]
) -> Iterator[tuple[ast.AST, str, list[ast.expr]]]:
    """What operations of the script's own change of a class's attributes: `Lookup.apply(x, self.memory)`."""
    methods_run = [s for s in cls.walk() if s in run and s.is_method and s.name != "__init__"]
    for call in (c for method in methods_run for c in program.calls_in(method)):
        yield from _given_to_operation(program, call)


def _given_to_operation(program: Program, call: ast.Call) -> Iterator[tuple[ast.AST, str, list[ast.expr]]]:
    for name in map(_attribute, changed_arguments(program, call)):
        if name:
            yield call, name, call.args


def is_by_operation(program: Program, node: ast.AST) -> bool:
    """Whether an operation of the script's own changes a state, in its forward or its backward pass."""
    return isinstance(node, ast.Call) and any(changed_arguments(program, node))


def _adds_hook(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and methods.hooks_a_pass(call.func.attr)


def _are_constants(given: list[ast.expr]) -> bool:
    return all(isinstance(g, (ast.Constant, ast.List, ast.Dict)) for g in given)


def _taken_with_gradients(program: Program, cls: Scope, run: Set[Scope]) -> set[str]:
    """The attributes that a class reads where it reads gradients, and where it is called from there."""
    found: set[str] = set()
    for method in (s for s in cls.children if s.is_function and s not in run and s.name != "__init__"):
        reached = [s for s in program.run_from([method]) if s.parent is cls]
        nodes = [n for s in reached for n in ast.walk(s.node) if isinstance(n, ast.Attribute)]
        if any(n.attr == "grad" for n in nodes):
            found |= {n.attr for n in nodes if isinstance(n.ctx, ast.Load) and ast.unparse(n.value) == "self"}
    return found


def kept_names(program: Program, cls: Scope) -> set[str]:
    """The attributes of a module that are buffers, weights or layers, and so part of a checkpoint."""
    found = buffer_names(program, cls)
    for node in (n for n in ast.walk(cls.node) if isinstance(n, ast.Assign)):
        made = [v for v in program.values(node.value) if isinstance(v, Made)]
        is_kept = any(names.is_module(v.name) or names.is_parameter(v.name) for v in made)
        found |= {t.attr for t in node.targets if isinstance(t, ast.Attribute) and is_kept}
    return found


def buffer_names(program: Program, cls: Scope) -> set[str]:
    """The names that a class registers: `self.register_buffer("mean", x)`."""
    calls = [n for n in ast.walk(cls.node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    given = [a for c in calls if methods.registers(c.func.attr) for a in c.args[:1]]  # type: ignore[attr-defined]
    return {str(v.value) for a in given for v in program.values(a) if isinstance(v, Constant)}


def _changed(node: ast.AST) -> tuple[str, list[ast.expr]]:
    """The attribute of `self` that a node changes, and what from."""
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return next(filter(None, map(_attribute, targets)), ""), [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.changes_in_place(node.func.attr):
        return _attribute(node.func.value), [*node.args, *(k.value for k in node.keywords)]
    return "", []


def _attribute(node: ast.expr) -> str:
    """`mean` of `self.mean.data[0]` and of `self.mean.mul_(0.9)`"""
    name = ""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute) or not methods.changes_in_place(node.func.attr):
                return ""
            node = node.func.value
        else:
            name = node.attr if isinstance(node, ast.Attribute) else name
            node = node.value
    return name if isinstance(node, ast.Name) and node.id == "self" else ""
