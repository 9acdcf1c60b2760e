"""The model of a script: what the analysis found out, in the terms in which rules ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from accelify.codemod.devices.bringing import Bringing, Brought
from accelify.codemod.devices.conflicts import Meetings
from accelify.codemod.devices.cpu_variables import cpu_only
from accelify.codemod.devices.moves import Move, Moves
from accelify.codemod.devices.named_devices import NamedDevices
from accelify.codemod.devices.on_device import OnDevice
from accelify.codemod.devices.options import Cpu, options_in
from accelify.codemod.devices.own_tensors import Homemade
from accelify.codemod.devices.whereabouts import Whereabouts
from accelify.codemod.distributed.findings import Distribution
from accelify.codemod.files_written.clocks import Clocks
from accelify.codemod.files_written.guarding import Guarding
from accelify.codemod.files_written.one_process import Calm
from accelify.codemod.files_written.paths import Files
from accelify.codemod.files_written.saves import Save, save_of
from accelify.codemod.libraries import names
from accelify.codemod.metrics.batch_evaluations import Dealing
from accelify.codemod.metrics.meters import Metered, Metering
from accelify.codemod.metrics.rank_local import Locality
from accelify.codemod.metrics.row_evaluations import Gathering
from accelify.codemod.metrics.sums import Reduction, Sums
from accelify.codemod.metrics.trims import Trim, trim_of
from accelify.codemod.options import Options
from accelify.codemod.precision.apex import Apex
from accelify.codemod.precision.precision import Precision, Precisions
from accelify.codemod.preparing.creation import Start
from accelify.codemod.preparing.parallel_wrappers import Wrappers
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.preparing import Preparation
from accelify.codemod.preparing.reach import Reach
from accelify.codemod.preparing.seeds import Seeds
from accelify.codemod.preparing.settings import Setting, Settings
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.preparing.wrapping import Wrapping
from accelify.codemod.semantics.call_conditions import Ways
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.purity import function_draws, is_pure
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.values import Argument, Element, Generated, Instance, Made, Member
from accelify.codemod.training.experience import Experience
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.loops import Loops, Training
from accelify.codemod.training.losses import AUTOGRAD, Losses, losses_of
from accelify.codemod.training.outputs import Effect, Outputs
from accelify.codemod.training.roles import Roles, stepped


@dataclass
class Script:
    """A program with a training loop: rules read it, and never trace a name themselves."""

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    preparation: Preparation
    reach: Reach
    options: Options
    distribution: Distribution | None = None
    gathered: tuple[Gathering, ...] = ()
    wrapping: Wrapping | None = None
    dealt: tuple[Dealing, ...] = ()
    reached: tuple[ast.AST, ...] = ()  # what the accelerator reaches for a move, besides

    # Where things are.

    def path(self, node: ast.AST) -> str:
        return self.program.path(node)

    @cached_property
    def files(self) -> set[str]:
        """The files that change: the ones with a backward pass, a prepared thing, or a way of the accelerator."""
        found = {self.path(b) for b in self.training.backwards}
        found |= {g.frame.module for g in self.preparation.groups}
        found |= {n.module for n in self.reach.nodes} | {h.module for h in self.reach.homes}
        found |= {self.path(node) for _, node in self.preparation.wrapped}
        return found

    @property
    def waits(self) -> bool:
        """Whether callers who are not known hand over an optimizer, what holds it, or the batches of each step."""
        if not any(self.training.loops.values()):
            return True
        stepped_on = {v for s in self.training.steps for v in self.program.values(stepped(s))}
        return any(isinstance(v.root if isinstance(v, Member) else v, Argument) for v in stepped_on)

    @property
    def is_trial(self) -> bool:
        """Whether a module tries itself out: it trains under its `__main__` guard alone, on random numbers."""
        if {data.kind for data in self.training.data} != {"random"}:
            return False
        guards = {b: main_guard(self.program.frame(b).root) for b in self.training.backwards}
        return all(guard is not None and self.program.inside(backward, guard) for backward, guard in guards.items())

    def accelerator(self, node: ast.AST) -> str | None:
        """The expression for the accelerator at a node; None where it does not reach."""
        frame = self.program.frame(node)
        found = self.reach.expression(frame)
        after = self.created_after
        if after is not None and frame is self.program.frame(after) and _line(node) <= (after.end_lineno or 0):
            return None
        if found is None or frame.kind != "module":
            return found
        return found if self._is_after_home(node, frame) else None

    def _is_after_home(self, node: ast.AST, root: Scope) -> bool:
        if root not in self.reach.homes:
            return False
        if root in self.reach.guarded:
            return self.program.inside(node, self.reach.guarded[root])
        imports = self.first_imports(root)
        return not imports or getattr(node, "lineno", 0) > imports[-1].lineno

    def first_imports(self, root: Scope) -> list[ast.stmt]:
        """The run of module-level imports nearest above the first use of the accelerator in a home module."""
        from accelify.codemod.preparing.placing import import_block

        return import_block(self, root)

    # In which precision it computes.

    @cached_property
    def precision(self) -> Precision | None:
        """The mixed precision that the script arranges by hand."""
        settings = Settings(self.program, self.roles, self.tracer, self.reach)
        found = Precisions(self.program, self.roles, self.training, settings, self.prepared).find()
        found = found or Apex(self.program, self.training, settings).find()
        if found is not None and found.after is not None and self._start.is_needed_before(found.after):
            found.stays = (found.after, "the accelerator is needed before this line")
        return found

    @property
    def takes_precision_over(self) -> bool:
        """Whether the accelerator does the script's mixed precision from now on."""
        return self.precision is not None and self.precision.is_taken_over

    @cached_property
    def handed(self) -> set[tuple[Scope, str]]:
        """The parameters that only hand on what the accelerator knows: a precision, or the number of a process."""
        found = set(self.precision.parameters) if self.precision is not None else set()
        return found | (self.distribution.parameters if self.distribution is not None else set())

    @cached_property
    def homemade(self) -> ast.expr | None:
        """What a script that names no device gives its models, and what keeps it on the CPU."""
        return self._own_tensor if not self.brought.bringing else None

    @cached_property
    def brought(self) -> Brought:
        """The tensors that a script which names no device brings to the accelerator's, if all are understood."""
        if self._own_tensor is None or self.preparation.has_model:
            return self._bringing().find(is_settled=True) if self._own_tensor is not None else Brought()
        return Brought(stuck=self._own_tensor)

    @property
    def unreached(self) -> list[ast.AST]:
        """Where the accelerator would have to reach for all of them to be brought."""
        return self._bringing().find(is_settled=False).unreached if self._own_tensor is not None else []

    @cached_property
    def _own_tensor(self) -> ast.expr | None:
        if self.distribution is not None:
            return None
        return Homemade(self.on_device, self._tensors, self.training.backwards).find()

    def _bringing(self) -> Bringing:
        whereabouts = Whereabouts(self.program, self.roles, self.tracer, self.prepared, self._tensors)
        return Bringing(whereabouts, Meetings(whereabouts), self.accelerator)

    @cached_property
    def _tensors(self) -> Tensors:
        return Tensors(self.program, self.roles, self.prepared)

    @cached_property
    def cpu(self) -> Setting | None:
        """What keeps the script on the CPU, such as an option of its own, as the accelerator gets it."""
        return Setting(ast.Constant(True)) if self.homemade is not None else self._cpu_option

    @cached_property
    def _cpu_option(self) -> Setting | None:
        settings = Settings(self.program, self.roles, self.tracer, self.reach)
        found = Cpu(self.program, self.roles, self.tracer, settings).find(self.files)
        if found is None or any(self._start.is_needed_before(s) or self._start.draws_before(s) for s in found.after):
            return None
        return found

    def ignored_options(self, *nodes: ast.AST) -> str:
        """What to say of options that chose a device there, and choose it no more; nothing where all still do."""
        copied = [value for node in nodes for value in self._copied(node)]
        options = sorted({option for node in [*nodes, *copied] for option in options_in(node)})
        if not options or self.cpu is not None:
            return ""
        launch = self.options.runtime.launch
        chooses = "chooses" if len(options) == 1 else "choose"
        return f"{', '.join(options)} no longer {chooses} the device: `{launch} --cpu` or `Accelerator(cpu=True)` does"

    def _copied(self, node: ast.AST) -> Iterator[ast.expr]:
        """What the attributes in some code were given elsewhere, as they are: `self.gpu = args.gpu`."""
        for read in ast.walk(node):
            for write in self.program.attribute_writes.get(read.attr, ()) if isinstance(read, ast.Attribute) else ():
                value = self.tracer.assigned(write)
                if isinstance(value, ast.Attribute) and ast.unparse(write) == ast.unparse(read):
                    yield value

    @cached_property
    def created_after(self) -> ast.stmt | None:
        """The statement of its home after which the accelerator can be created; None where any will do."""
        after = list(self._cpu_option.after) if self._cpu_option is not None else []
        if self.precision is not None and self.precision.is_taken_over and self.precision.after is not None:
            after.append(self.precision.after)
        return max(after, key=lambda s: s.lineno, default=None)

    @cached_property
    def _start(self) -> Start:
        return Start(self.program, self.roles, self.training, self.preparation, self.reach)

    # What is prepared, and what is moved to which device.

    @cached_property
    def prepared(self) -> Prepared:
        """Which expressions are prepared things."""
        return Prepared(self.program, self.tracer, self.preparation)

    @cached_property
    def stored(self) -> Files:
        """Which files are written, and read after that."""
        return Files(self.program, self.tracer)

    @cached_property
    def on_device(self) -> OnDevice:
        """Which tensors are on the process's device."""
        return OnDevice(self.program, self.roles, self.tracer, self.prepared)

    @cached_property
    def _moves(self) -> Moves:
        return Moves(self.program, self.roles, self.prepared, self.files)

    @property
    def moves(self) -> list[Move]:
        """The calls of the changed files that move something to a device, in the order of the text."""
        return self._moves.found

    def is_needless(self, move: Move) -> bool:
        """Whether a move does nothing once what it moves is prepared."""
        return self._moves.is_needless(move)

    @cached_property
    def named_devices(self) -> list[ast.expr]:
        """The arguments that are options which name a device, where the accelerator has the process's own."""
        if self.distribution is not None:
            return []
        moves = [m for m in self.moves if not self.is_needless(m)]
        found = NamedDevices(self.program, self.tracer, self.files, moves).find()
        return sorted((a for a in found if self.accelerator(a)), key=lambda a: a.lineno)

    def goes_to_cpu(self, move: Move) -> bool:
        """Whether a move brings something to the CPU, whatever the device is."""
        return self._moves.goes_to_cpu(move)

    def is_the_cpu(self, variable: str) -> bool:
        """Whether a variable is the CPU, beside another that is the device."""
        return self._moves.is_the_cpu(variable)

    def is_for_the_cpu(self, statement: ast.Assign) -> bool:
        """Whether a variable sends something other than training to the CPU: `device = torch.device("cpu")`."""
        return cpu_only(self.program, self.tracer, statement, [m for m in self.moves if self._moves.is_needless(m)])

    # What is dealt out, and what is added up over it.

    @property
    def evaluations(self) -> list[ast.For]:
        """The loops that evaluate, each process a part."""
        return [*(g.loop for g in self.gathered), *(d.loop for d in self.dealt)]

    @cached_property
    def shared_loops(self) -> list[ast.For | ast.AsyncFor]:
        """The loops whose items are dealt out to the processes, each of which keeps what it makes of them."""
        found: set[ast.AST | None] = {n for n in self.prepared.loops if self.path(n) in self.files}
        found -= set(self.evaluations)
        found |= {d.loop for d in self.training.data if d.kind == "loaders"}
        found |= {d.loop for d, _ in self.preparation.sharded}
        loops = [n for n in found if isinstance(n, (ast.For, ast.AsyncFor))]
        return sorted(loops, key=lambda n: (self.path(n), n.lineno))

    @property
    def unwrapped(self) -> tuple[ast.expr, ...]:
        """The expressions that must be a model itself, not the wrapper that it is prepared in."""
        return self.wrapping.unwrapped if self.wrapping is not None else ()

    @cached_property
    def reductions(self) -> list[Reduction]:
        """The sums that are reduced after their loops; a script that distributes itself does that by itself."""
        if self.distribution is not None or not self.options.runtime.has("reduce"):
            return []
        loops = [loop for loop in self.shared_loops if self.accelerator(loop) is not None]
        return [self._in_all_phases(reduction) for loop in loops for reduction in self.sums.of(loop)]

    def _in_all_phases(self, reduction: Reduction) -> Reduction:
        """A reduction that is made where its loop evaluates, too, if that is dealt out then."""
        shared = {name for d in self.dealt if d.loop is reduction.loop for name in d.sums}
        if shared.isdisjoint(reduction.names):
            return reduction
        return replace(reduction, condition=None, training=reduction.condition)

    @cached_property
    def metered(self) -> list[Metered]:
        """The meters and lists of loops over shared data, but for those that deal their evaluation out."""
        if self.distribution is not None or not self.options.runtime.has("reduce"):
            return []
        harmless, dealt = Harmless(self.program, self.roles), {d.loop for d in self.dealt}
        metering = Metering(self.program, self.tracer, self.prepared, harmless)
        return [metering.of(n) for n in self.shared_loops if n not in dealt and self.accelerator(n) is not None]

    def trim(self, reduction: Reduction) -> Trim | None:
        """Where the rows that only even out the last step are left out of sums that are reduced."""
        if reduction.how != "sum" or self.prepared.is_dealt_by_hand(reduction.loop):
            return None
        updates = [call for m in self.metered if m.loop is reduction.loop for call in m.updates]
        return trim_of(self.program, reduction.loop, reduction.names, updates)

    @cached_property
    def sums(self) -> Sums:
        """What its loops add up."""
        splits = self.options.keep_global_batch
        return Sums(self.program, self.tracer, self.prepared, splits, self.training.phases, self.trains_only_if)

    @cached_property
    def locality(self) -> Locality:
        """Which values are one process's own."""
        draws = any(d.kind == "random" for d in self.training.data)
        counting = {  # loops that ask for their batches by `next`
            d.loop
            for d in self.training.data
            if isinstance(d.loop, ast.For) and not any(self.program.inside(s, d.loop.iter) for s in d.sources)
        }
        dealing = [loop for loop in self.shared_loops if loop not in counting or loop in self.prepared.loops]
        reduced = [*((r.loop, r.names) for r in self.reductions), *self.put_together]
        return Locality(self.program, dealing, reduced, draws=draws)

    @property
    def put_together(self) -> list[tuple[ast.For | ast.AsyncFor, list[str]]]:
        """The meters and lists of shared loops that are made those of all processes after them."""
        listed = [*((d.loop, d.meters, ()) for d in self.dealt), *((m.loop, m.together, m.lists) for m in self.metered)]
        return [(loop, [*(name for name, _ in meters), *lists]) for loop, meters, lists in listed]

    def trains_only_if(self, loop: ast.AST) -> str | None:
        """The condition under which a loop whose items are dealt out trains; None where it does so always."""
        if not self.prepared.is_dealt_by_hand(loop):
            return None
        frame = self.program.frame(loop)
        return Ways(self.program, self.tracer).only_if(frame, self.training.told.get(frame, set()))

    @cached_property
    def seeds(self) -> Seeds:
        """Where the processes may begin to draw random numbers of their own."""
        return Seeds(self.program, self.training, self.reach)

    def read_in(self, loop: ast.AST, name: str) -> list[ast.Name]:
        """Where a loop reads what it adds up."""
        return self.sums.read_in(loop, name)

    @property
    def ends_apart(self) -> bool:
        """Whether processes draw what they train on, and one that has ended does not keep the others waiting."""
        kinds = {d.kind for d in self.training.data}
        return "random" in kinds and "loaders" not in kinds and self.options.runtime.has("seed_by_rank")

    @cached_property
    def draws_in_its_data(self) -> bool:
        """Whether a data set of the project's own that is trained on draws at random what it hands out."""
        for call in self.program.calls:
            if not call.args or not any(self.roles.is_loader(v) for v in self.program.values(call)):
                continue
            for value in self.program.values(call.args[0]):
                getter = self.program.flow.method(value.cls, "__getitem__") if isinstance(value, Instance) else None
                if getter is not None and function_draws(self.program, getter):
                    return True
        return False

    def adds_up_itself(self, metric: ast.expr) -> bool:
        """Whether a metric, asked for its value, adds up over the processes by itself."""
        return any(isinstance(v, Made) and names.adds_up_itself(v.name) for v in self.program.values(metric))

    @cached_property
    def experience(self) -> Experience:
        """What environments told this process, and what was made of it."""
        return Experience(self.program, self.tracer)

    def has_no_length(self, node: ast.expr) -> bool:
        """Whether a thing that is looped over is a generator."""
        return any(isinstance(v, Generated) for v in self.program.values(node))

    def is_part_of_a_batch(self, node: ast.Name) -> bool:
        """Whether a name holds what a loader hands out."""
        return any(isinstance(v, Element) and self.roles.is_loader(v.owner) for v in self.program.values(node))

    def iterates_a_loader(self, loop: ast.For | ast.AsyncFor) -> bool:
        """Whether a loop goes over a loader of batches."""
        return Loops(self.program, self.roles, self.tracer).is_loader_loop(loop)

    def clocks_behind(self, path: ast.expr) -> list[ast.Call]:
        """The calls that read the time into a path, or what else differs between processes."""
        return self._clocks.behind(path)

    @cached_property
    def _clocks(self) -> Clocks:
        return Clocks(self.program, self.tracer)

    @cached_property
    def outputs(self) -> Outputs:
        """What the script's calls write."""
        return Outputs(self.program, self.roles)

    @cached_property
    def guarding(self) -> Guarding:
        """What one process alone is to write; a script that distributes itself has decided that by itself."""
        files = self.files if self.distribution is None else set()
        return Guarding(Calm(self.program, self.outputs, files, self.accelerator))

    def only_computes(self, node: ast.expr) -> bool:
        """Whether an expression does nothing but give a value, wherever the project's own functions go."""
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        calm = self.guarding.calm
        return is_pure(node) or (calm.is_calm(node) and all(calm.effect(c) is Effect.NOTHING for c in calls))

    def losses(self, backward: ast.Call) -> tuple[ast.expr, ...]:
        """The losses of a backward pass, one by one."""
        return losses_of(self.program, backward)

    def is_by_function(self, backward: ast.Call) -> bool:
        """Whether a backward pass is not a loss's method but `torch.autograd.backward`."""
        return AUTOGRAD in self.program.called(backward)

    def is_sum(self, loss: ast.expr) -> bool:
        """Whether a loss is a sum over the rows of its batch."""
        return Losses(self.program, self.roles).is_sum(loss)

    def computes(self, call: ast.Call) -> bool:
        """Whether a call runs a prepared model, or compares what it makes with something."""
        return self._tensors.is_model_call(call) or self._tensors.is_loss(call)

    @cached_property
    def run_by_training(self) -> set[Scope]:
        """The functions that the changed files may run, and their own."""
        return self.program.run_by(self.files)

    @cached_property
    def leading(self) -> set[Scope]:
        """The functions and modules that training is called from, on whatever way, and those that train."""
        found: set[Scope] = set()
        waiting = [self.program.frame(b) for b in self.training.backwards]
        while waiting:
            frame = waiting.pop()
            if frame not in found:
                found.add(frame)
                callers = self.program.flow.callers.get(frame, ())
                waiting += [*map(self.program.frame, callers), *([frame.parent] if frame.parent is not None else ())]
        return found

    @cached_property
    def wrappers(self) -> list[ast.Call]:
        """The `DataParallel(model)` calls of the changed files, and of what builds their models."""
        return Wrappers(self.program, self.files, self.run_by_training, self.preparation.models).find()

    # What is saved.

    @cached_property
    def saves(self) -> list[Save]:
        """The calls of `torch.save` in the files that train, and in what they, or what has them train, get to."""
        run, library = self.run_by_training | self.program.run_from(self.leading), self.options.runtime.module
        return [
            save_of(self.program, call, self.saver(call), library)
            for call in self.program.calls
            if "torch.save" in self.program.called(call)
            and (self.path(call) in self.files or self.program.frame(call) in run)
        ]

    def saver(self, call: ast.Call) -> str | None:
        """What has the `save` for a place: the accelerator, or the module of functions where it does not reach."""
        frame = self.program.frame(call)
        accelerator = self.accelerator(call)
        if accelerator is not None or self.reach.expression(frame) is not None:
            return accelerator
        library = self.options.runtime.functions
        if (
            (frame.kind == "module" and not self._is_past_training(call))
            or self.distribution is not None
            or library.split(".")[0] in frame.root.writes
        ):
            return None
        return library

    def _is_past_training(self, call: ast.Call) -> bool:
        """Whether a module trains above a call: `trainer.fit()` and then `torch.save(trainer.model, path)`."""
        frame = self.program.frame(call)
        above = [c for c in self.program.calls_in(frame) if c.lineno < call.lineno] if frame.kind == "module" else []
        return any(callee in self.leading for c in above for callee in self.program.flow.callees.get(c, ()))


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))
