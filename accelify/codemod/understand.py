"""Form the model of a program, or find why its training loop cannot be migrated."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelify.codemod.devices.facts import devices_of
from accelify.codemod.devices.options import Cpu, CpuSetting
from accelify.codemod.devices.placed import Own
from accelify.codemod.distributed.distribution import Distributions
from accelify.codemod.files.exemptions import exemption
from accelify.codemod.files_written.facts import written_of
from accelify.codemod.libraries.vocabulary import is_accelerator_name
from accelify.codemod.metrics.batch_evaluations import Batchwise, ShardedEvaluation
from accelify.codemod.metrics.facts import Measured, metrics_of
from accelify.codemod.metrics.rows.steps_by_rows import taken_by_rows
from accelify.codemod.metrics.steps.counts import StepCounts
from accelify.codemod.metrics.steps.limits import Limits
from accelify.codemod.obstacles import obstacles_of, updates_by_hand
from accelify.codemod.options import Options
from accelify.codemod.precision.apex import Apex
from accelify.codemod.precision.precision import Precision, Precisions
from accelify.codemod.preparing.batch_sizes import batch_sizes_of, may_be_divided, parallel_models
from accelify.codemod.preparing.objects.preparation import NOTHING, Preparation, Preparer
from accelify.codemod.preparing.parallel_wrappers import Unwrapped, Wrappers
from accelify.codemod.preparing.placing import Access, EarlyCode, Start, chosen_gpus
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.reach import Reach, Reacher
from accelify.codemod.preparing.saved_objects import saved_whole
from accelify.codemod.preparing.seeds import Seeds
from accelify.codemod.preparing.settings import Settings
from accelify.codemod.preparing.wrapping import Wrapping
from accelify.codemod.script import Script
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, method_of_call
from accelify.codemod.semantics.values import FunctionValue
from accelify.codemod.training.facts import leading, run_of, with_phases
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles

Trouble = tuple[ast.AST, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a program: a script to migrate, no training at all, or a training loop that cannot be migrated."""

    script: Script | None
    obstacles: tuple[tuple[ast.AST, str, str], ...] = ()


def understand(program: Program, options: Options, precision_stays: Trouble | None = None) -> Verdict:
    """Form the model of a program; `precision_stays` is why its mixed precision is not to be taken over."""
    roles, tracer = program.once(Roles), program.once(Tracer)
    training = Loops(program, roles, tracer).find()
    if not training.backwards or not _trains(program, training):
        return _beside_migrated(program, options)
    distribution = _distribution(program, tracer, training) if not options.runtime.wraps_models else None
    code = _Code(program, roles, tracer, training, options, distribution, program.once(Chains))
    if not code.is_by_hand:
        code = replace(code, training=with_phases(program, tracer, training))
        if parallel_models(program, training) and may_be_divided(program, roles, tracer, code.training):
            # The batch size was that of all GPUs together.
            code = replace(code, options=replace(options, keep_global_batch=True))
    script = _script(code, layout := _decided(code, precision_stays))
    uneven = taken_by_rows(script.metrics) if not code.is_by_hand else {}
    if uneven:
        code = replace(code, training=code.training.left_whole(uneven))
        script = _script(code, layout := _decided(code, precision_stays))
    obstacles = tuple(obstacles_of(script))
    if any(code.program.path(site) in layout.further for site, _, _ in obstacles):
        script = _script(code, _decided(replace(code, may_go_further=False), precision_stays))
        obstacles = tuple(obstacles_of(script))
    return Verdict(script, obstacles)


def _beside_migrated(program: Program, options: Options) -> Verdict:
    """The verdict on a program all of whose training code is migrated already, while a file that runs it is not.

    What is trained, and on which data, is as that code says: nothing is prepared here, nor gets the accelerator.
    """
    roles, tracer, library = program.once(Roles), program.once(Tracer), options.runtime.module
    training = Loops(program, roles, tracer).migrated(library)
    migrated = frozenset(p.path for p in program.files if p.run_by == library)
    is_fed = all(_is_fed_in(program, loops, migrated) for loops in training.loops.values())
    if not training.backwards or not is_fed or _distribution(program, tracer, training) is not None:
        return Verdict(None)
    code = _Code(program, roles, tracer, training, options, None, program.once(Chains), migrated=migrated)
    if any(_is_of_accelerator(code, n) for p in program.files if p.path not in migrated for n in p.nodes):
        return Verdict(None)  # by hand: it asks an accelerator already
    script = _script(code, _with_access(code, _laid(code), None))
    return Verdict(script, tuple(o for o in obstacles_of(script) if program.path(o[0]) not in migrated))


def modelled(program: Program, options: Options) -> Script:
    """The model of a program as it stands, with no evaluation shared; not even whether it trains is asked."""
    roles, tracer = program.once(Roles), program.once(Tracer)
    training = Loops(program, roles, tracer).find()
    code = _Code(program, roles, tracer, training, options, None, program.once(Chains))
    return _script(code, _with_access(code, _laid(code), None))


@dataclass(frozen=True, slots=True)
class _Code:
    """A program with what is known of it before anything is decided.

    may_go_further: whether evaluation loops may be sharded in files that need no other change. migrated: as of
    `Script`.
    """

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    options: Options
    distribution: Distributions | None
    chains: Chains
    may_go_further: bool = True
    migrated: frozenset[str] = frozenset()

    @property
    def is_by_hand(self) -> bool:
        """As of `Script`."""
        return self.distribution is not None and self.distribution.found.tells_processes_apart

    @property
    def effects(self) -> Effects:
        """The effects of its code besides giving values."""
        return self.chains.effects


@dataclass(frozen=True, slots=True)
class _Layout:
    """The prepared objects, where the accelerator has to be, and how it gets there.

    sharded: the evaluation loops whose batches are sharded. reached: what the accelerator has to reach for a move,
    besides. further: the files that change only because of those loops.
    """

    preparation: Preparation
    prepared: Prepared
    wrapping: Wrapping | None
    reach: Reach
    access: Access
    files: frozenset[str]
    sharded: tuple[ShardedEvaluation, ...] = ()
    reached: tuple[ast.AST, ...] = ()
    further: frozenset[str] = frozenset()
    precision: Precision | None = None
    cpu: CpuSetting | None = None


def _laid(
    code: _Code,
    sharded: tuple[ShardedEvaluation, ...] = (),
    reached: tuple[ast.AST, ...] = (),
) -> _Layout:
    """The layout: prepared objects, and how the accelerator gets to them and to some loops and moves."""
    program, tracer, training, distribution = code.program, code.tracer, code.training, code.distribution
    shared = distribution.data(Iterables(program, code.roles, tracer), training) if distribution is not None else []
    preparation = Preparer(program, code.roles, tracer, training).prepare(shared) if not code.migrated else NOTHING
    replaced = distribution.found.replaced if distribution is not None else []
    needs: dict[Scope, ast.AST] = {}
    for frame, node in [
        *((program.frame(b), b) for b in training.backwards if not code.migrated),
        *((g.frame, g.anchor or g.frame.node) for g in preparation.groups),
        *((i.frame, i.statement or i.frame.node) for i in preparation.bare_models),
        *((program.frame(n), n) for _, n in [*preparation.wrapped, *preparation.sharded]),
        *((program.frame(n), n) for n in replaced),
        *((program.frame(n), n) for n in [*(d.loop for d in sharded), *reached]),
    ]:
        # The first of all, and so before any guard.
        needs[frame] = min(needs.get(frame, node), node, key=program.position)
    wrapping = Wrapping(program, tracer, preparation) if code.options.runtime.wraps_models else None
    if wrapping is not None:
        preparation = wrapping.preparation
        for node in wrapping.unwrapped:
            needs.setdefault(program.frame(node), node)
    may_ask = code.options.runtime.has("current")
    outside = code.options.called_outside
    name = _free_name(program, "accelerator")
    saved = frozenset[Scope]().union(*program.once(saved_whole).values())
    reach = Reacher(program, name, needs, may_ask=may_ask, called_outside=outside, saved=saved).solve()
    sites: list[ast.AST] = [g.anchor for g in preparation.groups if g.anchor is not None]
    sites += [*training.backwards, *(node for _, node in preparation.wrapped), *replaced]
    sites += reached if not code.is_by_hand else ()
    files = {program.path(b) for b in training.backwards} | {g.frame.module for g in preparation.groups}
    files |= {n.module for n in reach.nodes} | {h.module for h in reach.homes}
    files |= {program.path(node) for _, node in preparation.wrapped}
    prepared, access = Prepared(program, tracer, preparation), Access(program, reach, tuple(sites))
    return _Layout(preparation, prepared, wrapping, reach, access, frozenset(files), sharded, reached)


def _with_access(code: _Code, layout: _Layout, precision_stays: Trouble | None) -> _Layout:
    """A layout that knows after which statement the accelerator can be created, as that needs its settings."""
    program, roles, tracer, reach = code.program, code.roles, code.tracer, layout.reach
    start = Start(program, roles, code.training, layout.preparation, reach)
    settings = Settings(program, roles, tracer, reach)
    precision = Precisions(program, roles, code.training, settings, layout.prepared).find()
    precision = precision or Apex(program, code.training, settings).find()
    own = _own(code, layout)

    def early(*after: ast.stmt) -> EarlyCode:
        return replace(layout.access, after=_last_of_each(program, after)).early

    def moved_before(after: Sequence[ast.stmt], cpu: CpuSetting | None = None) -> tuple[ast.Call, ...]:
        return own.moved_early(early(*after), cpu)

    too_late = precision is not None and precision.after is not None and start.is_needed_before(precision.after)
    if precision is not None and precision.after is not None and (too_late or moved_before([precision.after])):
        precision = replace(precision, stays=(precision.after, "the accelerator is needed before this line"))
    if precision is not None and precision_stays is not None:
        precision = replace(precision, stays=precision_stays)
    options = Cpu(program, roles, tracer, reach, layout.prepared)
    cpu = options.find(set(layout.files))
    if cpu is not None and cpu.after and moved_before(cpu.after, cpu):
        cpu = options.find(set(layout.files), by_branch=True)
    if cpu is not None and cpu.after and own.named_early(early(*cpu.after), layout.files):
        at_once = options.find(set(layout.files), by_branch=True)
        cpu = at_once if at_once is not None and not at_once.after else cpu
    if cpu is not None and any(start.is_needed_before(s) or start.draws_before(s) for s in cpu.after):
        cpu = options.find(set(layout.files), by_branch=True)
        cpu = cpu if cpu is not None and not cpu.after else None
    after = list(cpu.after) if cpu is not None else []
    chosen = [s for s in chosen_gpus(program, reach.homes) if not start.is_needed_before(s) and not moved_before([s])]
    after += [s for s in chosen if not start.draws_before(s)]
    if precision is not None and precision.is_taken_over and precision.after is not None:
        after.append(precision.after)
    access = replace(layout.access, after=_last_of_each(program, after))
    return replace(layout, access=access, precision=precision, cpu=cpu)


def _last_of_each(program: Program, statements: Sequence[ast.stmt]) -> tuple[ast.stmt, ...]:
    """Of some statements, the last of each function or module."""
    frames = dict.fromkeys(map(program.frame, statements))
    return tuple(program.last([s for s in statements if program.frame(s) is frame]) for frame in frames)


# Sharded loops and moves: decided before anything is computed from them.


def _decided(code: _Code, precision_stays: Trouble | None) -> _Layout:
    first = _before_moves(
        code, _with_access(code, _reaching_seeds(code, _laid(code)), precision_stays), precision_stays
    )
    if code.is_by_hand:
        layout = _reaching_moves(code, first)
    else:
        layout = _reaching_sums(code, _sharing_batches(code, _reaching_own_moves(code, first)))
    return layout if layout.reach is first.reach else _with_access(code, layout, precision_stays)


def _reaching_seeds(code: _Code, layout: _Layout) -> _Layout:
    """With the statements after which processes draw their data for themselves, if the accelerator can get there."""

    def unreached(found: _Layout) -> tuple[ast.stmt, ...]:
        seeds = Seeds(code.program, code.training, found.reach, found.preparation.groups)
        anchors = {g.anchor for g in found.preparation.groups}
        later = [] if seeds.is_by_rank else [s.statement for s in seeds.places if not s.is_drawn_from]
        return tuple(s for s in later if s not in anchors and found.reach.expression(code.program.frame(s)) is None)

    is_drawn = not code.is_by_hand and any(d.kind == "random" for d in code.training.data)
    if not is_drawn or not code.options.runtime.has("seed_by_rank") or not (places := unreached(layout)):
        return layout
    found = _laid(code, (), places)
    return found if _is_no_worse(found, layout) and not unreached(found) else layout


def _before_moves(code: _Code, layout: _Layout, precision_stays: Trouble | None) -> _Layout:
    """With an accelerator that is created before anything goes to a GPU, if it can be."""
    own = _own(code, layout)
    chosen = tuple(own.choosing(own.moved_early(layout.access.early, layout.cpu)))
    if not chosen:
        return layout
    found = _with_access(code, _laid(code, (), (*layout.reached, *chosen)), precision_stays)
    if len(found.reach.obstacles) > len(
        layout.reach.obstacles
    ):  # it cannot be passed on, but whoever calls may create it before
        calling = tuple(c for n in chosen for c in code.program.flow.callers.get(code.program.frame(n), ()))
        found = _with_access(code, _laid(code, (), (*layout.reached, *calling)), precision_stays)
    left = _own(code, found).moved_early(found.access.early, found.cpu)
    return found if _is_no_worse(found, layout) and not left else layout


def _is_no_worse(found: _Layout, layout: _Layout) -> bool:
    """Whether only the accelerator's way is another than in a layout before, and it is not blocked more often."""
    return (
        len(found.reach.obstacles) <= len(layout.reach.obstacles)
        and found.preparation.obstacles == layout.preparation.obstacles
        and found.preparation.wrapped == layout.preparation.wrapped
    )


def _sharing_batches(code: _Code, layout: _Layout) -> _Layout:
    """With the evaluation loops that are sharded: all, those of its files, or those that are reached anyway."""
    if not (code.options.runtime.has("shard") and code.options.runtime.has("reduce")):
        return layout
    measured = Measured(
        code.program, code.roles, code.tracer, code.training, layout.prepared, code.options, code.chains
    )
    batchwise = Batchwise(
        code.program,
        code.roles,
        code.tracer,
        code.training,
        layout.prepared,
        measured.sums(measured.shared_loops(layout.files, ())),
    )
    found = batchwise.find([p.path for p in code.program.files] if code.may_go_further else layout.files)
    sharded = tuple(d for d in found if not _is_left_whole(code, d.loop))
    here = tuple(d for d in sharded if code.program.path(d.loop) in layout.files)
    near = tuple(d for d in here if layout.access.at(d.loop) is not None)
    for some in filter(None, dict.fromkeys((sharded, here, near))):
        more = _further(layout, _laid(code, some, layout.reached))
        if more is not layout:
            return more
    return layout


def _reaching_sums(code: _Code, layout: _Layout) -> _Layout:
    """With the loops over prepared loaders whose sums, meters and lists can be combined across processes."""
    if not code.options.runtime.has("reduce"):
        return layout
    program, training = code.program, code.training
    measured = Measured(program, code.roles, code.tracer, training, layout.prepared, code.options, code.chains)
    files = frozenset(p.path for p in program.files) if code.may_go_further else layout.files
    shared = measured.shared_loops(files, [d.loop for d in layout.sharded])
    if all(layout.access.at(loop) is not None for loop in shared):
        return layout
    found = [n for n in measured.combined_loops(shared) if layout.access.at(n) is None]
    for loops in (found, *([n] for n in found)):
        more = _laid(code, layout.sharded, (*layout.reached, *loops))
        if all(more.access.at(n) is not None for n in loops) and (further := _further(layout, more)) is not layout:
            layout = further
            if loops is found:
                break
    return layout


def _is_left_whole(code: _Code, loop: ast.AST) -> bool:
    """Whether a comment or a setting keeps an evaluation loop as it is: each process evaluates all of the data."""
    line, parsed = code.program.line(loop), code.program.parsed(loop)
    return exemption(parsed, "metrics", line, code.options.selection) is not None


def _reaching_moves(code: _Code, layout: _Layout) -> _Layout:
    """With the moves to a GPU that is named by a process's number."""
    assert code.distribution is not None
    devices = devices_of(_own(code, layout), layout.files, layout.access, None, by_hand=True)
    named = code.distribution.found.devices
    moves = [m.call for m in devices.moves if m.device in named and not devices.is_needless(m)]
    unreached = tuple(c for c in moves if layout.access.at(c) is None)
    found = _laid(code, (), (*layout.reached, *unreached)) if unreached else layout
    return found if found.reach.homes == layout.reach.homes and not found.reach.obstacles else layout


def _reaching_own_moves(code: _Code, layout: _Layout) -> _Layout:
    """With the moves to a GPU in functions that training runs, so that they go to the CPU where training does."""
    left = list(_own(code, layout).left_on_gpu(layout.files, layout.access))
    run = code.program.run_from(leading(code.program, code.training)) if left else ()
    moves = tuple(c for c in left if code.program.frame(c) in run)
    found = _further(layout, _laid(code, (), (*layout.reached, *moves))) if moves else layout
    is_passed = found.reach.asking == layout.reach.asking and all(found.access.at(c) is not None for c in moves)
    return found if is_passed else layout


def _further(base: _Layout, more: _Layout) -> _Layout:
    """A layout in which more is shared or reached, if nothing else becomes another by that; else the one without."""
    further = base.further | (more.files - base.files)
    more = replace(more, access=replace(more.access, after=base.access.after), cpu=base.cpu, further=further)
    is_same = more.reach.homes == base.reach.homes and _is_no_worse(more, base)
    is_there = all(more.access.at(d.loop) is not None for d in more.sharded)
    return more if is_same and is_there else base


def _own(code: _Code, layout: _Layout) -> Own:
    prepared, has_model = layout.prepared, layout.preparation.has_model
    return Own(code.program, code.roles, code.tracer, code.training, prepared, has_model, code.effects)


def _script(code: _Code, layout: _Layout) -> Script:
    """The model, with all that the topics say of it."""
    program, roles, tracer, training, options = code.program, code.roles, code.tracer, code.training, code.options
    files, access, by_hand = layout.files, layout.access, code.is_by_hand
    own, run = _own(code, layout), run_of(program, roles, tracer, training, files, options.runtime)
    measured = Measured(program, roles, tracer, training, layout.prepared, options, code.chains)
    wrapping = Wrappers(program, set(files), run.run, layout.preparation.models)
    wrappers = tuple(wrapping.find())
    unwrapped = Unwrapped(program, () if by_hand else wrappers)
    metrics = metrics_of(measured, files, access, layout.sharded, by_hand=by_hand)
    step_counts = StepCounts(metrics)
    return Script(
        program=program,
        roles=roles,
        tracer=tracer,
        options=options,
        files=files,
        training=training,
        run=run,
        preparation=layout.preparation,
        prepared=layout.prepared,
        wrapping=layout.wrapping,
        wrappers=wrappers,
        left_wrapped=tuple(wrapping.left()),
        needed_wrappers=tuple(wrapping.needed()),
        unwrapped=unwrapped.find(files, run.run),
        for_one_gpu=unwrapped.for_one_gpu(),
        batch_sizes=batch_sizes_of(
            program, roles, tracer, training, layout.preparation, are_divided=options.keep_global_batch
        ),
        seeds=Seeds(program, training, layout.reach, layout.preparation.groups),
        access=access,
        devices=devices_of(
            *(own, files, access, layout.cpu),
            by_hand=by_hand,
            may_mix=not by_hand and options.runtime.has("mixed_devices"),
        ),
        precision=layout.precision,
        metrics=metrics,
        step_counts=step_counts,
        limits=Limits(step_counts),
        written=written_of(
            *(roles, metrics.ranks, files, access, run, options, training.backwards),
            together=_together(code, layout) if not by_hand else None,
            passes=_passes(code, layout),
        ),
        effects=code.effects,
        distribution=code.distribution.found if code.distribution is not None else None,
        migrated=code.migrated,
    )


def _together(code: _Code, layout: _Layout) -> list[ast.AST]:
    """The nodes at which processes act together: preparing, sharding, averaging gradients, reducing sums."""
    preparation, training = layout.preparation, code.training
    found: list[ast.AST] = [node for _, node in [*preparation.wrapped, *preparation.sharded]]
    found += [call for call in code.program.calls if code.program.path(call) in code.migrated and _may_meet(code, call)]
    found += [g.anchor for g in preparation.groups if g.anchor is not None]
    return [*found, *training.backwards, *training.steps, *(d.loop for d in layout.sharded)]


def _may_meet(code: _Code, call: ast.Call) -> bool:
    """Whether a call in migrated code is one of an accelerator, or of its library."""
    library = code.options.runtime.module
    is_method = isinstance(call.func, ast.Attribute) and _is_of_accelerator(code, call.func.value)
    return is_method or any(n.startswith(f"{library}.") for n in code.program.called(call))


def _is_of_accelerator(code: _Code, node: ast.AST) -> bool:
    """Whether a node is an accelerator: by what it holds, else by its name."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    last = node.attr if isinstance(node, ast.Attribute) else node.id
    return code.effects.kinds.of(node) == {"accelerator"} or is_accelerator_name(last)


def _passes(code: _Code, layout: _Layout) -> list[ast.expr]:
    """The prepared loaders, where loops, comprehensions, and calls of libraries go over them."""
    nodes = [n for parsed in code.program.files for n in parsed.parents]
    sources = [n.iter for n in nodes if isinstance(n, (ast.For, ast.AsyncFor, ast.comprehension))]
    for call in code.program.calls:
        if any(row.passes is not None for row in code.effects.kinds.called(call) or ()):
            sources += [*call.args, *(k.value for k in call.keywords)]
    return [s for s in sources if layout.prepared.is_loader(s) or layout.prepared.is_loader_for_some(s)]


# The kind of program.


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


def _is_fed_in(program: Program, loops: Sequence[ast.AST], files: frozenset[str]) -> bool:
    """Whether the data that the loops round a backward pass learn from are gone over in some files, and not outside."""
    kinds = program.once(Effects).kinds
    outside = [loop for loop in loops if program.path(loop) not in files]
    iterated = (n for loop in outside if isinstance(loop, (ast.For, ast.AsyncFor)) for n in ast.walk(loop.iter))
    is_over_loader = any("loader" in kinds.of(n) for n in iterated if isinstance(n, ast.expr))
    return len(outside) < len(loops) and not is_over_loader


def _trains(program: Program, training: Training) -> bool:
    """Whether a backward pass is part of a training loop here, and not a helper for somebody else's."""
    frames = {program.frame(b) for b in training.backwards}
    stepping = {program.frame(s) for s in training.steps}
    stepping |= {program.frame(c) for c in program.calls if method_of_call(c) == "zero_grad"}
    # `optimizer.step(closure)` calls what it is given
    stepping |= {
        v.scope for s in training.steps for a in s.args for v in program.values(a) if isinstance(v, FunctionValue)
    }
    is_stepped = bool(frames & stepping) or bool(frames & program.run_from(stepping))
    return any(training.loops.values()) or is_stepped or updates_by_hand(program, training)


def _free_name(program: Program, wanted: str) -> str:
    taken = {name for b in program.flow.bindings.values() for s in b.root.walk() for name in s.writes}
    for name in (wanted, "accel", "acc", "accelify_accelerator"):
        if name not in taken:
            return name
    return "_accelerator"
