"""Form the model of a program, or find why its training loop cannot be migrated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from accelify.codemod.distributed.distribution import Distributions
from accelify.codemod.distributed.findings import is_part_of_a_name, reason_for
from accelify.codemod.libraries import names
from accelify.codemod.metrics.batch_evaluations import Batchwise, Dealing
from accelify.codemod.metrics.row_evaluations import Evaluations, Gathering
from accelify.codemod.options import Options
from accelify.codemod.preparing.preparing import Preparer
from accelify.codemod.preparing.reach import Reacher
from accelify.codemod.preparing.wrapped_training import WrappedTraining
from accelify.codemod.preparing.wrapping import Wrapping
from accelify.codemod.script import Script
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Argument, Collection, External, FunctionValue, Instance, Made, Parameters
from accelify.codemod.training.loops import Data, Loops, Training
from accelify.codemod.training.phase_loaders import tell_phases
from accelify.codemod.training.roles import Roles, stepped


@dataclass(frozen=True)
class Verdict:
    """What a program is: a script to migrate, something to leave alone, or a training loop that cannot be migrated."""

    script: Script | None
    obstacles: tuple[tuple[ast.AST, str, str], ...] = ()


def understand(program: Program, options: Options) -> Verdict:
    """Form the model of a program."""
    roles = Roles(program)
    tracer = Tracer(program)
    training = Loops(program, roles, tracer).find()
    if not training.backwards or not _trains(program, training):
        return Verdict(None)
    distribution = _distribution(program, tracer, training) if not options.runtime.wraps_models else None
    if distribution is None:
        tell_phases(program, tracer, training)
    model = partial(modelled, program, roles, tracer, training, distribution, options)
    script = model(())
    if distribution is not None:
        script = _moving(script, model, distribution.found.devices)
    else:
        found = Evaluations(program, roles, tracer, training).find()
        gathered = tuple(g for g in found if script.path(g.loop) in script.files)
        sharing = model(gathered) if gathered else script
        script = sharing if _reaches_as_far(sharing, script) else script
        if options.runtime.has("shard") and options.runtime.has("reduce"):
            script = _dealing(script, model)
        script = _bringing(script, model)
    obstacles = [(node, "prepare", message) for node, message in script.preparation.obstacles]
    if not script.preparation.trains_something and not _updates_by_hand(program, training):
        message = "cannot tell which model and which optimizer this backward pass trains"
        obstacles.append((training.backwards[0], "prepare", message))
    obstacles.extend((node, "accelerator", message) for node, message in script.reach.obstacles)
    obstacles.extend(_single_steps(script))
    obstacles.extend(_several_devices(program, script.files))
    obstacles.extend(_in_processes(program, training))
    obstacles.extend(_without_a_loss(program))
    obstacles.extend(_by_own_gradients(program, roles, script))
    if script.wrapping is not None:
        passed = WrappedTraining(program, roles, tracer, training, script.wrapping).obstacles()
        obstacles.extend((node, "unwrap", message) for node, message in passed)
    by_hand = script.distribution
    if by_hand is not None:
        obstacles.extend((node, "distributed", reason) for node, reason in by_hand.foreign)
        obstacles.extend(_dealt_by_hand(script))
    files = script.files | {p.path for p in program.named}
    obstacles.extend(_by_hand(program, files, is_known=by_hand is not None))
    return Verdict(script, tuple(obstacles))


def modelled(
    program: Program,
    roles: Roles,
    tracer: Tracer,
    training: Training,
    distribution: Distributions | None,
    options: Options,
    gathered: tuple[Gathering, ...],
    dealt: tuple[Dealing, ...] = (),
    moves: tuple[ast.Call, ...] = (),
) -> Script:
    """The model of a program that shares the loaders, or deals out the batches, of some evaluation loops.

    moves: those that the accelerator has to reach.
    """
    shared = distribution.data(Loops(program, roles, tracer), training) if distribution is not None else []
    shared = [*shared, *(Data("loaders", g.loop, (g.loop.iter,)) for g in gathered)]
    preparation = Preparer(program, roles, tracer, training).prepare(shared)
    needs: dict[Scope, ast.AST] = {}
    for frame, node in [
        *((program.frame(b), b) for b in training.backwards),
        *((g.frame, g.anchor or g.frame.node) for g in preparation.groups),
        *((i.frame, i.statement or i.frame.node) for i in preparation.bare_models),
        *((program.frame(n), n) for _, n in [*preparation.wrapped, *preparation.sharded]),
        *((program.frame(n), n) for n in (distribution.found.replaced if distribution is not None else ())),
        *((program.frame(n), n) for n in [*(g.loop for g in gathered), *(d.loop for d in dealt), *moves]),
    ]:
        needs[frame] = min(needs.get(frame, node), node, key=program.line)  # the first of all, and so before any guard
    wrapping = Wrapping(program, tracer, preparation) if options.runtime.wraps_models else None
    for node in wrapping.unwrapped if wrapping is not None else ():
        needs.setdefault(program.frame(node), node)
    reach = Reacher(program, _free_name(program, "accelerator"), needs).solve()
    by_hand = distribution.found if distribution is not None else None
    found = Script(program, roles, tracer, training, preparation, reach, options, by_hand, gathered, wrapping, dealt)
    found.reached = moves if by_hand is None else ()
    return found


def _moving(script: Script, model: Callable[..., Script], devices: set[ast.expr]) -> Script:
    """The model in which the accelerator reaches the moves to a GPU that is named by a process's number."""
    moves = [m.call for m in script.moves if m.device in devices and not script.is_needless(m)]
    unreached = tuple(c for c in moves if script.accelerator(c) is None)
    if not unreached:
        return script
    moving = model((), moves=unreached)
    return moving if moving.reach.homes == script.reach.homes and not moving.reach.obstacles else script


def _bringing(script: Script, model: Callable[..., Script]) -> Script:
    """The model in which the accelerator reaches the tensors that the script makes itself."""
    unreached = tuple(script.unreached)
    if not unreached:
        return script
    reaching = model(script.gathered, script.dealt, unreached)
    return reaching if _reaches_as_far(reaching, script, files=True) and reaching.brought.bringing else script


def _dealing(script: Script, model: Callable[..., Script]) -> Script:
    """The model of a program that deals out the batches of some more evaluation loops."""
    batchwise = Batchwise(script.program, script.roles, script.tracer, script.training, script.prepared, script.sums)
    dealt = tuple(batchwise.find([g.loop for g in script.gathered], script.files))
    near = tuple(d for d in dealt if script.accelerator(d.loop) is not None)
    for some in (dealt, near):
        sharing = model(script.gathered, some) if some else script
        if some and _reaches_as_far(sharing, script):
            return sharing
    return script


def _reaches_as_far(sharing: Script, script: Script, *, files: bool = False) -> bool:
    """Whether loaders of evaluation can be shared without a change to what else there is."""
    return (
        all(sharing.accelerator(loop) is not None for loop in sharing.evaluations)
        and all(g.loop in sharing.prepared.loops for g in sharing.gathered)
        and sharing.reach.homes == script.reach.homes
        and (files or sharing.files == script.files)
        and len(sharing.reach.obstacles) <= len(script.reach.obstacles)
        and sharing.preparation.obstacles == script.preparation.obstacles
        and sharing.preparation.wrapped == script.preparation.wrapped
    )


def _distribution(program: Program, tracer: Tracer, training: Training) -> Distributions | None:
    """How the script distributes itself; None where its own files, and what starts processes for it, do not."""
    files = {p.path for p in program.named} | {program.path(b) for b in training.backwards}
    for call in program.calls:
        if "torch.distributed.init_process_group" in program.called(call) and program.frame(call) in program.reachable:
            files.add(program.path(call))
    if not Distributions(program, tracer, files).is_there:
        return None
    found = Distributions(program, tracer, [p.path for p in program.files])
    found.find()
    return found


def _trains(program: Program, training: Training) -> bool:
    """Whether a backward pass is part of a training loop here, and not a helper for somebody else's."""
    frames = {program.frame(b) for b in training.backwards}
    stepping = {program.frame(s) for s in training.steps}
    stepping |= {
        program.frame(c) for c in program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "zero_grad"
    }
    # `optimizer.step(closure)` calls what it is given
    stepping |= {
        v.scope for s in training.steps for a in s.args for v in program.values(a) if isinstance(v, FunctionValue)
    }
    return any(training.loops.values()) or bool(frames & stepping) or _updates_by_hand(program, training)


def _updates_by_hand(program: Program, training: Training) -> bool:
    """Whether the training code reads gradients itself: `w.data -= lr * w.grad`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and program.frame(node) in training.frames
        for node in program.flow.values
    )


def _single_steps(script: Script) -> Iterator[tuple[ast.AST, str, str]]:
    """Functions that take one step with an optimizer that they are given, by a caller who is not known."""
    for home in script.reach.homes:
        if home.kind != "function" or script.program.flow.callers.get(home):
            continue
        steps = [s for s in script.training.steps if script.program.frame(s) is home]
        given = [s for s in steps if any(isinstance(v, Argument) for v in script.program.values(stepped(s)))]
        if given and not any(script.program.loops_round(s) for s in steps):
            message = f"nothing here calls `{home.name}`, which takes a single step with what is set up elsewhere"
            yield home.node, "accelerator", message


def _dealt_by_hand(script: Script) -> Iterator[tuple[ast.AST, str, str]]:
    """Data that processes train on, and that no sampler deals out to them: each may have a share of its own already."""
    assert script.distribution is not None
    message = "no sampler deals these data out to the processes: each may have a share of its own already"
    dealt = script.distribution.samplers
    for _, source in script.preparation.sharded:
        yield source, "distributed", message
    made = [v for v in script.preparation.loaders if isinstance(v, (Made, Instance))]
    for loader in made:
        if not isinstance(loader, Made) or loader.node not in dealt:
            yield getattr(loader, "node", script.training.backwards[0]), "distributed", message
    if script.preparation.loaders and not made:
        yield script.training.backwards[0], "distributed", message


def _several_devices(program: Program, files: set[str]) -> Iterator[tuple[ast.AST, str, str]]:
    """Signs that a model is spread over several GPUs of one process."""
    found: dict[str, ast.AST] = {}
    listed = _lists_for_wrappers(program)
    for path in sorted(files):
        for node in program.flow.parsed_of[path].parents:
            if program.parent(node) in listed:
                continue
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text.startswith("cuda:") and text.partition(":")[2].isdigit() and not _is_fallback(program, node):
                found.setdefault(text, node)
    if len(found) > 1:
        first = next(iter(found.values()))
        yield first, "devices", f"{' and '.join(sorted(found))}: the script spreads itself over several GPUs by hand"


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
    return isinstance(parent, ast.IfExp) and parent.orelse is node and isinstance(parent.body, ast.Constant)


def _in_processes(program: Program, training: Training) -> Iterator[tuple[ast.AST, str, str]]:
    """Backward passes of a class that runs in a process or a thread of its own."""
    for backward in training.backwards:
        scope: Scope | None = program.frame(backward)
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        family = [scope, *program.flow.ancestors(scope)] if scope is not None else []
        bases = [b for c in family if isinstance(c.node, ast.ClassDef) for b in c.node.bases]
        for name in sorted({n for b in bases for n in program.externals(b) if names.runs_beside(n)}):
            message = f"`{name}` runs this beside others: call it in turn, and start it by `accelify launch`"
            yield backward, "distributed", message


def _by_own_gradients(program: Program, roles: Roles, script: Script) -> Iterator[tuple[ast.AST, str, str]]:
    """Gradients that the script takes itself of models that no optimizer steps: nothing would average them."""
    for call in program.calls:
        if "torch.autograd.grad" not in program.called(call) or program.frame(call) not in program.reachable:
            continue
        inputs = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "inputs")]
        owners = {v.owner for i in inputs for v in program.values(i) if isinstance(v, Parameters)}
        if any(roles.is_model(o) and o not in script.preparation.models for o in owners):
            message = (
                "these gradients train a model without an optimizer: nothing averages them over the processes; "
                "step it by an optimizer, or average them by `accelerator.reduce`"
            )
            yield call, "backward", message


def _without_a_loss(program: Program) -> Iterator[tuple[ast.AST, str, str]]:
    """Backward passes through the function, not through a loss's method."""
    for call in program.calls:
        is_reached = isinstance(call.func, ast.Name) and program.frame(call) in program.reachable
        if is_reached and "torch.autograd.backward" in program.called(call):
            message = "`torch.autograd.backward` takes several losses: add them up and call `.backward()` on the sum"
            yield call, "backward", message


def _by_hand(program: Program, files: set[str], *, is_known: bool) -> Iterator[tuple[ast.AST, str, str]]:
    """Signs that a script already distributes itself where that was not looked for, or scales losses by a library."""
    seen: set[tuple[str, str]] = set()
    for node, values in list(program.flow.values.items()):
        if not isinstance(node, (ast.Attribute, ast.Name)) or program.path(node) not in files:
            continue
        if is_part_of_a_name(program, node):
            continue
        for name in (v.name for v in values if isinstance(v, External)):
            kind = None
            if names.is_distributed(name) and not is_known and program.question_round(node) is None:
                kind = ("distributed", reason_for(name))
            elif name.startswith(("apex.fp16_utils", "apex.optimizers.FP16")):
                kind = (
                    "amp",
                    f"`{name}`: mixed precision by apex is not migrated; use torch.amp or `mixed_precision=`",
                )
            if (
                kind is not None
                and program.scope(node).root.module
                and (kind[1], program.path(node)) not in seen
                and program.frame(node) in program.reachable
            ):
                seen.add((kind[1], program.path(node)))
                yield node, *kind


def _free_name(program: Program, wanted: str) -> str:
    taken = {name for b in program.flow.bindings.values() for s in b.root.walk() for name in s.writes}
    for name in (wanted, "accel", "acc", "accelify_accelerator"):
        if name not in taken:
            return name
    return "_accelerator"
