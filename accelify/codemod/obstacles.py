"""Why can a training loop not be migrated, beside what single rules find?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from accelify.codemod.distributed.findings import Distribution, Guards, is_part_of_a_name, reason_for
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.decisions import decided_apart, decided_together, goes_by_size, gradients_apart
from accelify.codemod.preparing.models_by_name import ModelsByName
from accelify.codemod.preparing.wrapped_training import WrappedTraining
from accelify.codemod.script import Script
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import (
    Collection,
    External,
    Instance,
    Made,
    Parameters,
    Value,
)
from accelify.codemod.training.gradients.round_tensors import RoundTensors
from accelify.codemod.training.loops.backward_passes import takes_one_step
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles, stepped
from accelify.codemod.training.weights import changes_in_place, viewed, written_by_hand

Found = Iterator[tuple[ast.AST, str, str]]  # the place, the rule, and the reason
_NUMBERS = frozenset({"number", "ndarray"})


def obstacles_of(script: Script) -> Found:
    """All of them."""
    program, training = script.program, script.training
    yield from ((node, "prepare", message) for node, message in script.preparation.obstacles)
    is_found = script.preparation.has_model or _steps_known_optimizers(script)
    if not is_found and not updates_by_hand(program, training):
        message = "cannot tell which model and which optimizer this backward pass trains"
        yield training.backwards[0], "prepare", message
    yield from ((node, "accelerator", message) for node, message in script.reach.obstacles)
    yield from _assigned_nowhere(script)
    yield from _undone_by_name(script)
    yield from _run_apart(script)
    yield from _single_steps(script)
    yield from _for_one_batch(training)
    yield from _stepping_by_size(script)
    yield from _several_devices(program, script.files)
    yield from _in_processes(program, training)
    yield from _without_a_loss(program)
    yield from _by_own_gradients(program, script.roles, script)
    yield from _tensors_by_hand(script)
    yield from _given_own_gradients(script)
    yield from _in_steps_of_libraries(script)
    if script.wrapping is not None:
        passed = WrappedTraining(program, script.roles, script.tracer, training, script.wrapping).obstacles()
        yield from ((node, "unwrap", message) for node, message in passed)
    if script.distribution is not None:
        yield from ((node, "distributed", reason) for node, reason in script.distribution.foreign)
        yield from _maybe_sharded_already(script)
        yield from _gone_over_by_one(script, script.distribution)
    files = script.files | {p.path for p in program.named}
    yield from _by_hand(program, files, is_known=script.distribution is not None)


def _steps_known_optimizers(script: Script) -> bool:
    """Whether it is known where an optimizer is made that is prepared: it may train tensors that no model owns."""
    held = {v for step in script.training.steps for v in script.program.values(stepped(step))}
    return script.preparation.trains_something and any(map(script.roles.is_built_optimizer, held))


def updates_by_hand(program: Program, training: Training) -> bool:
    """Whether the training code reads gradients itself: `w.data -= lr * w.grad`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and program.frame(node) in training.frames
        for node in program.flow.values
    )


def _for_one_batch(training: Training) -> Iterator[tuple[ast.AST, str, str]]:
    """Optimizers that each batch, or call, makes for itself, and that cannot be left as they are."""
    alone = (
        "the optimizer and all that it trains are created anew for each batch or call: processes with different data "
        "would have no common parameters to train"
    )
    mixed = (
        "this backward pass trains the weights, and parameters that are created anew for each batch: the "
        "gradients of the weights must be averaged across processes, those of the new parameters must not: use "
        "two backward passes"
    )
    for each in training.nested:
        if not each.is_within:
            yield each.backward, "prepare", mixed if each.is_mixed else alone


def _assigned_nowhere(script: Script) -> Found:
    """What would be prepared under a name that nothing gives a value: the script fails there, changed or not."""
    for item in (i for group in script.preparation.groups for i in group.items):
        root = item.frame.root
        if item.text.isidentifier() and item.frame.owner(item.text) is None and not root.star_imports:
            scopes = [scope for scope in root.walk() if scope.owner(item.text) is None]
            reads = [r for scope in scopes for r in scope.reads.get(item.text, ())]
            message = f"`{item.text}` is used here, but nothing assigns it: assign it first, or use the name you mean"
            yield from ((r, "prepare", message) for r in sorted(reads, key=script.program.position)[:1])


def _undone_by_name(script: Script) -> Found:
    """Prepared models that code picks by names which it makes, and moves or wraps."""
    for use, attributes in ModelsByName(script.program, script.preparation).undone():
        listed = ", ".join(f"`{name}`" for name in attributes)
        message = (
            f"`getattr` picks one of the prepared models here ({listed}) by a made name, and this function moves "
            "or wraps it, which each process would do to a model that has its device and its wrapper from `prepare`: "
            "write the attributes out, and leave out the moves, `.module` and `DataParallel` of them"
        )
        yield use, "prepare", message


def _run_apart(script: Script) -> Found:
    """Training in functions that a library runs without the names of their file, and so without the accelerator."""
    for function in sorted(script.training.frames, key=lambda f: f.qualified_name):
        for decorator in getattr(function.node, "decorator_list", ()):
            bare = decorator.func if isinstance(decorator, ast.Call) else decorator
            held = script.program.values(bare.value) if isinstance(bare, ast.Attribute) else ()
            if any(isinstance(v, Made) and names.runs_apart(v.name) for v in held):
                message = (
                    f"`{ast.unparse(bare)}` runs this function without the names of its file, which an accelerator "
                    "would be one of: export the notebook as a script (`marimo export script`), and rewrite that"
                )
                yield function.node, "accelerator", message


def _single_steps(script: Script) -> Iterator[tuple[ast.AST, str, str]]:
    """Functions that take one step with an optimizer that they are given, by a caller who is not known."""
    for home in script.reach.homes:
        if takes_one_step(script.program, home, script.training.steps):
            message = (
                f"nothing here calls `{home.name}`, which takes a single step with a model and an optimizer that "
                "are set up elsewhere"
            )
            yield home.node, "accelerator", message


def _maybe_sharded_already(script: Script) -> Iterator[tuple[ast.AST, str, str]]:
    """Data that processes train on, and that no sampler shards for them: each may have a shard of its own already."""
    assert script.distribution is not None
    message = "no DistributedSampler shards these data: each process may have a shard of its own already"
    sharded = script.distribution.samplers
    for _, source in script.preparation.sharded:
        yield source, "distributed", message
    made = [v for v in script.preparation.loaders if isinstance(v, (Made, Instance))]
    for loader in made:
        if not isinstance(loader, Made) or loader.node not in sharded:
            yield getattr(loader, "node", script.training.backwards[0]), "distributed", message
    if script.preparation.loaders and not made:
        yield script.training.backwards[0], "distributed", message


def _stepping_by_size(script: Script) -> Iterator[tuple[ast.AST, str, str]]:
    """Steps that are taken, or loops that go on, by the size of a batch: processes have batches of other sizes."""
    parts = "each process gets only a part of each batch"
    others = "the processes may get batches of different sizes here"
    why = parts if script.options.keep_global_batch else others
    apart = list(decided_apart(script.metrics))
    together = decided_together(script.metrics, apart) if script.can_agree else {}
    for choice in apart:
        is_agreed = choice in together and script.accelerator(choice.test) is not None
        if not is_agreed and goes_by_size(script.metrics, choice.test):
            message = (
                f"whether a step is taken depends on the size of the batch, but {why}: decide it by the number "
                "of steps, or train on batches of one size alone (of a loader: `drop_last=True`)"
            )
            yield choice.node, "data", message


def _gone_over_by_one(script: Script, found: Distribution) -> Iterator[tuple[ast.AST, str, str]]:
    """Loops over prepared loaders that only the main process runs, from one of their callers at least."""
    message = (
        "only the main process iterates over a loader here that is sharded across all processes, so it would see "
        "a part of the data only: run the loop in all processes, or give the main process a loader of its own"
    )
    guards = Guards(script.program, found)
    loops = sorted(script.prepared.loops, key=script.program.position)
    places = dict.fromkeys(place for loop in loops for place in guards.calls_of_main(loop))
    yield from ((place, "distributed", message) for place in places)


def _several_devices(program: Program, files: frozenset[str]) -> Iterator[tuple[ast.AST, str, str]]:
    """Signs that a model is spread over several GPUs of one process."""
    found: dict[str, list[ast.AST]] = {}
    listed = _lists_for_wrappers(program)
    for path in sorted(files):
        for node in program.flow.parsed_of[path].parents:
            parent = program.parent(node)
            holder = program.parent(parent) if parent is not None else None
            is_offered = isinstance(holder, ast.keyword) and holder.arg == "choices"
            if parent in listed or (isinstance(parent, ast.Dict) and node in parent.keys) or is_offered:
                continue  # a key of `map_location` is what a file says
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text.startswith("cuda:") and text.partition(":")[2].isdigit() and not _is_fallback(program, node):
                found.setdefault(text, []).append(node)
    pairs = ((a, b) for one, other in combinations(found.values(), 2) for a in one for b in other)
    if not all(_is_one_or_other(program, a, b) for a, b in pairs):
        first = next(iter(found.values()))[0]
        yield first, "devices", f"{' and '.join(sorted(found))}: the script places its parts on several GPUs by hand"


def _is_one_or_other(program: Program, one: ast.AST, other: ast.AST) -> bool:
    """Whether a script comes to one device or to the other, and never to both: `["cuda:0", "cuda:1"][args.gpu]`."""
    frame = program.frame(one)
    is_again = frame.kind != "module" and len(program.calls_of(frame)) > 1
    if frame is not program.frame(other) or program.loops_round(one) or is_again:
        return False
    here, there = dict(program.branches_round(one)), dict(program.branches_round(other))
    if any(there.get(condition, is_body) is not is_body for condition, is_body in here.items()):
        return True
    around = [a for a in program.ancestors(one) if isinstance(a, (ast.List, ast.Tuple, ast.Dict))]
    literal = next((a for a in around if program.inside(other, a)), None)
    return literal is not None and _is_looked_up_once(program, literal)


def _is_looked_up_once(program: Program, literal: ast.AST) -> bool:
    """Whether all that is done with a container is to take one of its elements, once."""
    parent = program.parent(literal)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    frame = program.frame(literal)
    reads: list[ast.AST] = [literal]
    if isinstance(target, ast.Name):
        reads = [*program.reads_of(frame, target.id)]
    taken = program.parent(reads[0]) if len(reads) == 1 else None
    is_taken = isinstance(taken, ast.Subscript) and taken.value is reads[0]
    return taken is not None and is_taken and program.frame(taken) is frame and not program.loops_round(taken)


def _lists_for_wrappers(program: Program) -> set[ast.AST]:
    """Lists of devices for `nn.DataParallel(model, device_ids=["cuda:0", "cuda:1"])`, which goes."""
    return {
        value.node
        for call in program.calls
        if any(map(names.is_wrapper, program.called(call)))
        for argument in [*call.args[1:], *(k.value for k in call.keywords)]
        for value in program.values(argument)
        if isinstance(value, Collection)
    }


def _is_fallback(program: Program, node: ast.AST) -> bool:
    """Whether a device is the one that a condition names for when there is no GPU: `... else "cuda:1"`."""
    parent = program.parent(node)
    is_other = isinstance(parent, ast.IfExp) and parent.orelse is node and isinstance(parent.body, ast.Constant)
    return is_other and not program.loops_round(node)


def _in_processes(program: Program, training: Training) -> Iterator[tuple[ast.AST, str, str]]:
    """Training that runs in processes or threads of the script's own: a class of them, or a function they are given."""
    reason = "runs this in a separate process or thread: call it directly, and start the script with `accelify launch`"
    told: set[str] = set()
    for backward in training.backwards:
        scope: Scope | None = program.frame(backward)
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        family = [scope, *program.flow.ancestors(scope)] if scope is not None else []
        bases = [b for c in family if isinstance(c.node, ast.ClassDef) for b in c.node.bases]
        for name in sorted({n for b in bases for n in program.externals(b) if names.runs_beside(n)}):
            told.add(name)
            yield backward, "distributed", f"`{name}` {reason}"
    given = [(node, function) for node, function in program.flow.handed_on if function in training.frames]
    for node, function in sorted(given, key=lambda pair: program.position(pair[0])):
        statement = program.statement(node)
        around = [a for a in program.ancestors(node) if isinstance(a, ast.Call) and program.inside(a, statement)]
        started = {n for call in around for n in _started_by(program, call)}
        for name in sorted(started | (_run_by_class(program, node, function) - told)):
            yield node, "distributed", f"`{name}` {reason}"


def _run_by_class(program: Program, made: ast.expr, function: Scope) -> set[str]:
    """The library classes whose `start` runs a method of what is made: `class Worker(Process)`, in whatever file."""
    classes = {v.cls for v in program.values(made) if isinstance(v, Instance)}
    running = [cls for cls in classes if program.flow.method(cls, "run") is function]
    return {name for cls in running for name in program.flow.external_bases(cls) if names.runs_beside(name)}


def _started_by(program: Program, call: ast.Call) -> set[str]:
    """The functions that a call runs beside the script: `Thread(target=f)`, `pool.map(f, x)`, `Parallel()(...)`."""
    asked = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    held = {v.name for v in program.values(asked) if isinstance(v, Made) and v.name is not None}
    return {n for n in held | program.called(call) if names.runs_beside(n) and not names.is_distributed(n)}


def _by_own_gradients(program: Program, roles: Roles, script: Script) -> Iterator[tuple[ast.AST, str, str]]:
    """Gradients that the script takes itself of models that no optimizer steps: nothing would average them."""
    taken = [c for c in program.calls if "torch.autograd.grad" in program.called(c)]
    returned = _run_by_own_operations(program) if taken else set()
    for call in taken:
        if program.frame(call) not in program.reachable - returned:
            continue
        inputs = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "inputs")]
        owners = {v.owner for i in inputs for v in program.values(i) if isinstance(v, Parameters)}
        own = {o for o in owners if script.preparation.models.isdisjoint(roles.wholes(o))}
        own = {o for o in own if not _is_tried_out(program, o, program.frame(call))}
        written = written_by_hand(program, program.run_from([program.frame(call)]))
        if any(map(roles.is_model, own.union(*(owners & models for models, _ in written)))):
            message = (
                "the model is updated from these gradients of `torch.autograd.grad`, which nothing averages across "
                "processes: compute them with `backward` and let an optimizer step, or average them with "
                '`accelerator.reduce(gradients, "mean")`'
            )
            yield call, "backward", message


def _is_tried_out(program: Program, model: Value, function: Scope) -> bool:
    """Whether a function adapts a copy of a model that it makes for itself, and gives numbers alone: of a test, say.

    `net = deepcopy(model); ...; grads = torch.autograd.grad(loss, net.parameters()); ...; return hits / len(x)`
    """
    if not isinstance(model, Made) or not isinstance(model.node, ast.Call) or program.frame(model.node) is not function:
        return False
    kinds, summary = program.once(Kinds), program.once(Effects).of_function(function)
    is_copy = any(row.has(Trait.COPIES) for row in kinds.called(model.node) or ())
    is_known = not summary.writes and all(
        isinstance(c, ast.Call) and model in program.values(c.func) for c in summary.unknown
    )
    given = returned([function])
    return (
        is_copy
        and is_known
        and bool(given)
        and all(g is not None and kinds.of(g) and kinds.of(g) <= _NUMBERS for g in given)
    )


def _tensors_by_hand(script: Script) -> Found:
    """Tensors of no model that steps change by their gradients, `w -= lr * w.grad`: nothing would average those."""
    program, rounds = script.program, script.metrics.ranks.rounds
    tensors = RoundTensors(program, script.roles, script.tracer, script.training.rounds)
    gradients = (n for n in program.flow.values if isinstance(n, ast.Attribute) and n.attr == "grad")
    for gradient in gradients if rounds else ():
        frame = program.frame(gradient)
        places = [gradient, *(program.calls_of(frame) if frame.is_function else ())]
        if frame not in script.training.frames or not any(program.inside(p, r) for p in places for r in rounds):
            continue
        held, name = program.values(gradient.value), ast.unparse(gradient.value)
        lasting = [v for v in held if isinstance(v, Made) and not any(program.inside(v.node, r) for r in rounds)]
        changed = [ast.unparse(viewed(t)) for t in _changed_by(program.statement(gradient))]
        is_weight = any(isinstance(v, Parameters) for v in held)
        if name in changed and lasting and not is_weight and not tensors.holds(gradient.value):
            message = (
                f"`{name}` is a tensor of no model, and is changed by its gradient without an "
                "optimizer, so nothing averages that across processes: use a model or an optimizer"
            )
            yield gradient, "backward", message


def _changed_by(statement: ast.stmt) -> list[ast.expr]:
    """The tensors that a statement sets or changes in place."""
    if isinstance(statement, ast.AugAssign):
        return [statement.target]
    if isinstance(statement, ast.Assign):
        return statement.targets
    value = statement.value if isinstance(statement, ast.Expr) else None
    is_change = isinstance(value, ast.Call) and changes_in_place(value)
    return [value.func.value] if is_change else []  # type: ignore[union-attr]  # checked


def _run_by_own_operations(program: Program) -> set[Scope]:
    """What the backward passes of the script's own operations run; those methods, too, that nothing else calls.

    An operation keeps its model in its context, `ctx.field`, so what `ctx.field.gradients(z)` calls is known by name.
    """
    scopes = [s for built in program.flow.bindings.values() for s in built.root.walk()]
    classes = [s for s in scopes if s.kind == "class"]
    own = [c for c in classes if any(map(names.is_operation, program.flow.external_bases(c)))]
    run = program.run_from(m for c in own for m in c.children if m.name == "backward")
    called = {c.func.attr for f in run for c in program.calls_in(f) if isinstance(c.func, ast.Attribute)}
    named = (m for c in classes for m in c.children if m.name in called and not program.flow.callers.get(m))
    return run | program.run_from(named)


def _given_own_gradients(script: Script) -> Found:
    """Gradients that the script assigns, or adds noise to, which no backward pass averages afterwards."""
    message = (
        "each process sets gradients from its own data or random numbers here, and nothing averages them across "
        'processes: average them with `accelerator.reduce(gradients, "mean")`, or compute them with `backward`'
    )
    averaged_by_script = script.is_by_hand
    yield from ((node, "backward", message) for node in gradients_apart(script.metrics) if not averaged_by_script)


def _in_steps_of_libraries(script: Script) -> Found:
    """Optimizers that compute their gradients while they step: nothing of the accelerator's runs after that."""
    message = (
        "the optimizers of `{}` clip gradients and add noise to them when they step, after the accelerator would have "
        "averaged them: the processes would diverge, and the privacy that it accounts for would not be kept; "
        "distribute the training by that library's own wrapper (opacus: DifferentiallyPrivateDistributedDataParallel)"
    )
    for call in script.program.calls:
        found = sorted(filter(names.steps_by_own_gradients, script.program.called(call)))
        if found and script.program.may_run(script.program.frame(call)):
            yield call, "prepare", message.format(found[0])


def _without_a_loss(program: Program) -> Iterator[tuple[ast.AST, str, str]]:
    """Backward passes through the function, not through a loss's method."""
    for call in program.calls:
        is_reached = isinstance(call.func, ast.Name) and program.frame(call) in program.reachable
        if is_reached and "torch.autograd.backward" in program.called(call):
            message = "`torch.autograd.backward` takes several losses: add them up and call `.backward()` on the sum"
            yield call, "backward", message


def _by_hand(program: Program, files: frozenset[str], *, is_known: bool) -> Iterator[tuple[ast.AST, str, str]]:
    """Signs that a script already distributes itself where that was not looked for, or scales losses by a library."""
    seen: set[tuple[str, str]] = set()
    for node, values in list(program.flow.values.items()):
        external = [v.name for v in values if isinstance(v, External)]
        if not external or not isinstance(node, (ast.Attribute, ast.Name)) or program.path(node) not in files:
            continue
        if is_part_of_a_name(program, node):
            continue
        for name in external:
            kind = None
            spreads = names.is_distributed(name) and not is_known and program.question_round(node) is None
            if spreads or names.is_for_tpu(name):
                kind = ("distributed", reason_for(name))
            elif name.startswith(("apex.fp16_utils", "apex.optimizers.FP16")):
                kind = (
                    "amp",
                    f"`{name}`: mixed precision with apex is not migrated: use torch.amp or `mixed_precision=`",
                )
            if (
                kind is not None
                and program.scope(node).root.module
                and (kind[1], program.path(node)) not in seen
                and program.frame(node) in program.reachable
            ):
                seen.add((kind[1], program.path(node)))
                yield node, *kind
