"""Shard the data where the script has no `DataLoader`.

    for i in range(0, len(x), batch_size):    ->    for i in accelerator.shard(range(0, len(x), batch_size)):

Why: wrapped blindly, every process would train on the same data. A loop over indices, slices or items is sharded, an
equal number to each process. Batches drawn at random get random numbers of their own in each process; for
loops over sharded data, and data sets that draw their samples, the runtime does that. A loop that ends before a
last batch that is not full (`if i == len(data) // 64: break`) counts the rounds of one process. A range whose last
numbers a condition leaves out (`if i + 16 > n: break`) ends before them.
Left alone: the mini-batches of what this process alone has collected from an environment; a full batch, which more
processes cannot divide; and batches along which a model carries its state, `out, hidden = model(x, hidden)`, so that
they have to follow each other. A note says so.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Insert, Obstacle, Remark, Remove, Replace
from accelify.codemod.libraries.row import DRAWS
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.effects.summary import Place
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.item_numbers import ItemNumbers, Skipping, Whole, read_behind
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.range_ends import RangeEnd, range_end
from accelify.codemod.training.losses import all_losses, without_gradients
from accelify.codemod.training.randomness.environment_seeds import EnvironmentSeeds
from accelify.codemod.training.randomness.own_generators import OwnGenerators
from accelify.codemod.training.randomness.workers import Workers, is_of_data

NAME = "data"
_OF_WORKER = "a worker draws training data from this seed"
_OF_ENVIRONMENT = "the environment's episodes follow from this seed"
_OUT_OF_REACH = "where the accelerator cannot be passed to"
_OWN = "each process draws its own, a single process the same as before"


def find(script: Script) -> Iterator[Change | Remark | Obstacle]:
    """A change or a note for each training loop without a loader."""
    yield from _own_normalizers(script)
    done: set[ast.AST] = set()
    for data, source in script.preparation.sharded:
        if source in done:
            continue
        done.add(source)
        accelerator = script.accelerator(source)
        path = script.path(source)
        end = range_end(script.metrics.measured.chains, data.loop, source)
        if not script.options.runtime.has("shard"):
            message = "Accelerate shards loaders only: use a `DataLoader` for this loop's data"
            yield Obstacle(NAME, path, source, message)
            continue
        if accelerator is None:
            yield Obstacle(NAME, path, source, "the accelerator cannot be passed to the loop that shards the data")
            continue
        yield Change(
            rule=NAME,
            path=path,
            line=source.lineno,
            reason="the loop's data are sharded: each process takes its shard, a single process all of them",
            edits=(
                Replace(
                    source,
                    partial(
                        sharded,
                        accelerator=accelerator,
                        condition=script.metrics.measured.trains_only_if(data.loop or source),
                    ),
                    keeps=(source,),
                    reads=(accelerator.split(".")[0],),
                ),
                *(_ending_earlier(end) if end is not None else ()),
            ),
            tier=Tier.REVIEW,
        )
        assert data.loop is not None
        yield from _behind(script, data.loop, source)
    for loop in script.metrics.shared_loops:
        yield from _numbered(script, loop)
    for data in script.training.data:
        if data.kind == "pass":
            yield from _pass(script, data.sources[0])
    kinds = {d.kind for d in script.training.data}
    if "loaders" in kinds and script.run.draws_in_its_data and not script.options.runtime.has("seed_by_rank"):
        yield from _drawn_alike(script)
    if "loaders" in kinds:
        yield from _read_on(script)
    if kinds & {"loaders", "sequence"}:
        yield from _seeded_alike(script)
    yield from _weights_in_rounds(script)
    if "random" in kinds and not script.metrics.draws_alike:
        yield from _random(script)
    elif "random" in kinds or "full" in kinds or ("sequence" in kinds and not script.preparation.sharded):
        yield from _same(script)
    elif kinds == {"given"}:
        backward = script.training.backwards[0]
        message = (
            "this step trains on the data that its callers pass: they must shard it (a loader by "
            "`accelerator.prepare`), or every process trains on the same data"
        )
        yield Remark(NAME, script.path(backward), backward, message, Tier.REVIEW)


def _read_on(script: Script) -> Iterator[Remark]:
    """Data sets that give no row by its number, but the next one of a file: it is the same in each process."""
    program = script.program
    scopes = (f for built in program.flow.bindings.values() for f in built.root.walk())
    for method in (f for f in scopes if f.name == "__getitem__" and is_of_data(program, f) and f.parameters[1:]):
        asked, (own, *_) = method.parameters[1].arg, method.parameters
        summary = script.effects.of_function(method)
        moved = any(p.scope is method and p.name == own.arg and p.path for p in summary.writes)
        reads = moved and not program.reads_of(method, asked) and program.may_run(method)
        if reads and (not summary.effects & DRAWS or _reads_a_file_on(script, method)):
            message = (
                f"`{asked}` is not used: this gives the row that comes next, which is the same in each process, so all "
                "of them train on the same rows, and in an epoch on 1/N of them: give the row of this number"
            )
            yield Remark(NAME, script.path(method.node), method.node, message, Tier.REVIEW)


def _reads_a_file_on(script: Script, method: Scope) -> bool:
    """Whether a method reads what comes next in a file that its object holds open, and draws no place to read at."""
    read = [use.call for use in script.effects.of_function(method).files_read]
    held = [c for c in read if any(map(_is_part_of_object, script.effects.of_call(c).writes))]
    return bool(held) and all(isinstance(a, ast.Constant) for c in held for a in c.args)


def _is_part_of_object(place: Place) -> bool:
    own = place.scope.parameters[:1] if place.scope is not None and place.scope.is_method else []
    return bool(place.path) and any(p.arg == place.name for p in own)


def _ending_earlier(end: RangeEnd) -> Iterator[Replace | Remove]:
    """A range without the numbers that a condition leaves out, so that all processes get as many of the others."""

    def shorter(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.BaseExpression)
        return snippets.expression(end.template, stop=node)

    yield Replace(end.stop, shorter, keeps=(end.stop,))
    yield Remove(end.node)


def _behind(script: Script, loop: Loop, source: ast.expr) -> Iterator[Remark]:
    """A loop that reads the state of its iterator, which has gone on to the items of the other processes."""
    reads = [(script.path(node), node) for node in read_behind(script.program, loop, source)]
    for path, node in reads[:1]:
        read = ast.unparse(node)
        message = (
            f"`{read}` is set while the items of this loop are made{' (also {0})' if reads[1:] else ''}, and "
            "`shard` takes an item for each process before it hands one on: most processes read the value of "
            "another's item here. Let the iterator yield it together with the item"
        )
        yield Remark(NAME, path, node, message, Tier.REVIEW, lines=(tuple(reads[1:]),), about=f"`{read}`")


def _pass(script: Script, asked: ast.expr) -> Iterator[Obstacle]:
    """A call that yields all data batch by batch, and so can be neither sharded nor left to each process."""
    message = (
        f"`{ast.unparse(asked)}` yields one pass over all data, and every process would train on all of it: "
        "iterate over it in a `for` loop, whose batches are then sharded"
    )
    yield Obstacle(NAME, script.path(asked), asked, message)


def _same(script: Script) -> Iterator[Remark]:
    """Where nothing shards the data."""
    yield from _asked_of_others(script, "full") or _taken_by_rows(script) or (_not_sharded(script),)


def _asked_of_others(script: Script, kind: str) -> list[Remark]:
    """What training loops ask for batches by `next`, which other libraries have made."""
    asked = dict.fromkeys(source for data in script.training.data if data.kind == kind for source in data.sources)
    found = []
    for source in asked:
        accelerator = script.reach.name
        message = (
            f"`{ast.unparse(source)}` is not sharded: every process takes all that it yields. Let its library "
            f"shard it, by `{accelerator}.process_index` of `{accelerator}.num_processes`, or accept that more "
            "processes make it no faster"
        )
        found.append(Remark(NAME, script.path(source), source, message, Tier.REVIEW))
    return found


def _not_sharded(script: Script) -> Remark:
    backward = _learning_from(script, ("full", "random", "sequence"))
    message = "every process has the same data here: the result is correct, but more processes make it no faster"
    state = next((d.state for d in script.training.data if d.state is not None), None)
    if state is not None:
        message = (
            f"`{ast.unparse(state)}` is carried from one batch to the next, so every process has the same data, all "
            "batches in their order: the result is correct, but more processes make it no faster. To share the work, "
            "give each process other rows of each batch"
        )
    elif any(map(script.metrics.ranks.is_own, all_losses(script.program, _backwards_at(script, backward)))):
        message = (
            "each process learns here from a batch of its own, so that a step learns from N of them, and values shown "
            "here come from one process's own batch"
        )
    return Remark(NAME, script.path(backward), backward, message, Tier.REVIEW)


def _backwards_at(script: Script, place: ast.AST) -> list[ast.Call]:
    """A backward pass itself, or those of a loop."""
    return [backward for backward, loops in script.training.loops.items() if place in (backward, *loops)]


def _taken_by_rows(script: Script) -> list[Remark]:
    """Conditions of steps that go by the rows, so that no process may leave some rows to the others."""
    tests = dict.fromkeys(d.taken_by for d in script.training.data if d.taken_by is not None)
    messages = ((test, _BY_INDEX if _goes_by_index(script, test) else _BY_ROWS) for test in tests)
    return [Remark(NAME, script.path(test), test, message, Tier.REVIEW) for test, message in messages]


_NO_FASTER = "so every process has the same data: the result is correct, but more processes make it no faster. To share"
_BY_ROWS = (
    f"whether a step is taken here depends on what the rows hold or how many there are, {_NO_FASTER} the work, let a "
    "generator yield the batches, and iterate over it here: `shard` then gives each process an equal number of them"
)
_BY_INDEX = (
    f"whether a step is taken here depends on an item's index, {_NO_FASTER} the work, let the loop's range leave out "
    "such items: `shard` then gives each process an equal number of the others"
)


def _goes_by_index(script: Script, test: ast.AST) -> bool:
    """Whether a condition asks for the number of an item, and for nothing else that a round of its loop sets."""
    inside = (n for loop in script.program.loops_round(test)[:1] for n in ast.walk(loop) if isinstance(n, ast.Name))
    bound = {n.id for n in inside if isinstance(n.ctx, ast.Store)}
    read = [n for n in ast.walk(test) if isinstance(n, ast.Name) and n.id in bound]
    parts = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp)
    is_plain = all(n is test or isinstance(script.program.parent(n), parts) for n in read)  # not `x[i]`, not `f(i)`
    return bool(read) and is_plain and all(map(script.tracer.is_numbered, read))


def _learning_from(script: Script, kinds: Collection[str]) -> ast.AST:
    """The first backward pass that learns from data of some kinds alone, or the loop that does so by one."""
    for data in (d for d in script.training.data if d.kind in kinds and d.loop is not None):
        for backward, loops in script.training.loops.items():
            if data.loop in loops:
                others = (d for d in script.training.data if d.loop in loops and d.kind not in kinds)
                return backward if next(others, None) is None else data.loop
    return script.training.backwards[0]


def sharded(node: cst.CSTNode, accelerator: str, condition: str | None) -> cst.BaseExpression:
    """`accelerator.shard(x)`, or `accelerator.shard(x) if train else x` in a function that evaluates, too."""
    assert isinstance(node, cst.BaseExpression)
    if condition is None:
        return snippets.passed_to(node, function=f"{accelerator}.shard")
    whole = node.deep_clone()
    assert isinstance(whole, cst.BaseExpression)
    return snippets.expression(f"{accelerator}.shard({{node}}) if {condition} else {{whole}}", node=node, whole=whole)


def _numbered(script: Script, loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[Change | Remark | Obstacle]:
    """Code that uses the number of an item, of which each process has its own, or more rounds than there are."""
    numbers = ItemNumbers(script.program, script.roles, script.tracer, script.training)
    dropped = script.metrics.measured.range_ends
    for node, steers in numbers.asked(loop) if script.prepared.is_sharded_sequence(loop) else ():
        if node in dropped:
            continue
        if steers:
            message = (
                "the training depends on an item's index here, but each process has only a shard of the items: "
                "count the rounds, as in `for step, i in enumerate(range(n)):`, or end the range earlier"
            )
            yield Obstacle(NAME, script.path(node), node, message)
        else:
            message = (
                "each process sees only some of this counter's values, so a condition on one of them may never "
                "hold: count the rounds of the process instead, as in `for step, item in enumerate(...)`"
            )
            yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)
    for test in numbers.chosen(loop):
        message = (
            "this picks or leaves out a batch by its number, and each process counts its own batches: choose from the "
            "data set, by `torch.utils.data.Subset`, before the loader is created"
        )
        yield Obstacle(NAME, script.path(test), test, message)
    is_divided = script.options.keep_global_batch and not script.prepared.is_sharded_sequence(loop)
    source, accelerator = script.metrics.measured.shard_of(loop), script.accelerator(loop)
    if source is not None and accelerator is not None:
        yield from (_own_end(script, test, items, accelerator) for test, items in numbers.own_ends(loop, source))
    for whole in numbers.never_counted(loop, script.prepared.is_loader, source) if not is_divided else ():
        yield _waits(script, whole)
    is_sequence = script.prepared.is_sharded_sequence(loop)
    skipping = numbers.skipping(loop, script.prepared.is_loader, is_sequence=is_sequence)
    for number in skipping if not is_divided else ():
        yield _skips(script, number)


def _skips(script: Script, number: Skipping) -> Remark:
    """A number of which a process has only some values, in conditions."""
    message = (
        "on N processes this number skips values, because each counts its own 1/N of the rounds and this multiplies "
        "the rounds of all: a condition on it ({0}) may never hold. Count the steps in a variable of its own, or "
        "divide the multiplied number of rounds by the number of processes"
    )
    tests = tuple((script.path(test), test) for test in number.tests)
    return Remark(NAME, script.path(number.node), number.node, message, Tier.REVIEW, lines=(tests,))


def _waits(script: Script, whole: Whole) -> Change | Remark | Obstacle:
    """Code that waits for more rounds than any process takes; where the loop only ends there, it does so in time."""
    path, accelerator = script.path(whole.node), script.accelerator(whole.node)
    if whole.batches is not None and accelerator is not None:
        rounds = partial(_rounds, accelerator=accelerator)
        reason = "each process takes 1/N of the batches, and the loop ends before an incomplete last round"
        edit = Replace(whole.batches, rounds, keeps=(whole.batches,), reads=(accelerator.split(".")[0],))
        return Change(NAME, path, whole.node.lineno, reason, (edit,), Tier.REVIEW)
    message = (
        "N processes share the items, so no process takes as many rounds as there are items: compare with the "
        "number of its own rounds, such as `len(loader)` of a prepared loader"
    )
    if whole.steers:
        return Obstacle(NAME, path, whole.node, message)
    return Remark(NAME, path, whole.node, message, Tier.REVIEW)


def _rounds(node: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`batches // accelerator.num_processes`."""
    assert isinstance(node, cst.BaseExpression)
    return snippets.expression(f"{{batches}} // {accelerator}.num_processes", batches=node)


def _own_end(script: Script, test: ast.Compare, items: ast.expr, accelerator: str) -> Change:
    """A comparison with the number of all items becomes one with that of the process's own."""
    make = partial(_own_items, accelerator=accelerator)
    edit = Replace(items, make, keeps=(items,), reads=(accelerator.split(".")[0],))
    reason = "each process takes 1/N of the items, rounded up"
    return Change(NAME, script.path(test), test.lineno, reason, (edit,), Tier.REVIEW)


def _own_items(node: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`-(-items // accelerator.num_processes)`, the number of items of one process's shard."""
    assert isinstance(node, cst.BaseExpression)
    return snippets.expression(f"-(-{{items}} // {accelerator}.num_processes)", items=node)


def _drawn_alike(script: Script) -> Iterator[Remark]:
    """Where nothing gives each process random numbers of its own for its data sets."""
    backward = script.training.backwards[0]
    message = (
        "all processes have the same seed, so they draw the same random numbers in their data sets, each for its "
        "own samples"
    )
    yield Remark(NAME, script.path(backward), backward, message, Tier.REVIEW)


def _seeded_alike(script: Script) -> Iterator[Remark]:
    """Generators of the script's own, which nothing seeds by rank."""
    generators = OwnGenerators(script.program, Loops(script.program, script.roles, script.tracer), script.training)
    for seed in generators.alike({d.loop for d in script.training.data if d.loop is not None}):
        if not script.seeds.differs(seed) and not script.metrics.ranks.is_own(seed):
            message = (
                "every process draws the same random numbers with this seed, each for its own samples: let these draw "
                f"from a generator whose seed contains `{script.reach.name}.process_index`"
            )
            yield Remark(NAME, script.path(seed), seed, message, Tier.REVIEW)


def _random(script: Script) -> Iterator[Change | Remark | Obstacle]:
    groups = script.preparation.groups
    backward = _learning_from(script, ("random",))
    if not groups:
        message = (
            "every process has the same data here, unless it draws them at random: more processes make it no faster"
        )
        yield Remark(NAME, script.path(backward), backward, message, Tier.REVIEW)
        return
    if not script.options.runtime.has("seed_by_rank"):
        message = "training data are drawn at random, and Accelerate gives processes no random numbers of their own"
        yield Obstacle(NAME, script.path(backward), backward, message)
        return
    places = [] if script.seeds.is_by_rank else script.seeds.places
    if script.seeds.is_by_rank:
        message = "each process draws its own data, as before: the script seeds each process by its rank"
        yield Remark(NAME, script.path(backward), backward, message, Tier.ADVICE)
    alike = _given_alike(script) if places else ""
    what = "the model draws" if alike == "data" else "training data are drawn"
    early = list(_drawn_before(script))
    own = f"from here on {_OWN}" if early else _OWN
    for each in places:
        accelerator = script.reach.expression(script.program.frame(each.statement))
        if each.is_drawn_from or (accelerator is None and each.statement not in {g.anchor for g in groups}):
            begun = "after the training has begun"
            message = (
                "every process would draw the same training data, as this gives all of them the same seed "
                f"{begun if each.is_drawn_from else _OUT_OF_REACH}: seed once, before the model is created"
            )
            yield Obstacle(NAME, script.path(each.statement), each.statement, message)
        elif accelerator is not None:
            yield Change(
                rule=NAME,
                path=script.path(each.statement),
                line=each.statement.lineno,
                reason=f"{what} at random: {own}",
                edits=(Insert(each.statement, "after", f"{accelerator}.seed_by_rank()", order=6),),
                tier=Tier.REVIEW,
            )
    if not places:
        return
    yield from early
    yield from _own_weights(script)
    yield from _own_samples(script)
    yield from _rows_alike(script)
    yield from _own_generators(script)
    yield from _own_environments(script)
    leaves = {node for report in script.metrics.reports if report.is_of_some_batches for node in report.leaves}
    shown = tuple((script.path(node), node) for node in sorted(leaves, key=script.program.position))
    message = (
        "each process draws its own data: on N processes a step learns from N times as many samples. Consider a larger "
        "learning rate (often N times, with a warm-up), or a smaller batch"
    )
    if script.run.experience.asks:
        message += ". Rewards and losses that it shows are those of its own episodes"
    elif shown:
        message += ". Values shown ({0}) come from one process's own draws"
    in_turn = any(not each.at_times for each in script.seeds.rows_alike())
    if alike := alike or ("rows" if in_turn else ""):
        drawn = "the model draws" if alike == "data" else "the rest is drawn"
        message = (
            f"every process has the same {alike} here, and only {drawn} "
            "at random: a step averages over N draws, and more processes make it no faster"
        )
    shows = (*((script.path(node), node) for node in script.run.experience.shown), *shown)
    said = Remark(NAME, script.path(backward), backward, message, Tier.REVIEW, lines=(shown,), shows=shows)
    sized = {script.path(place) for place in script.batch_sizes.loaders or script.batch_sizes.loops}
    is_said = script.path(backward) in sized  # with the batch size, of all steps of this file
    yield from _asked_of_others(script, "random") or (() if early or (is_said and not alike) else (said,))


def _drawn_before(script: Script) -> Iterator[Remark]:
    """Threads that begin to draw the training data while all processes still draw the same random numbers."""
    for call, place in script.seeds.drawn_before():
        accelerator = script.reach.expression(script.program.frame(place)) or script.reach.name
        message = (
            f"this thread draws training data from before `{accelerator}.seed_by_rank()` (after {{0}}), so every "
            "process trains on the same data until it draws anew: start it after that call, or let each process take "
            f"other rows, `rows[{script.reach.name}.process_index :: {script.reach.name}.num_processes]`"
        )
        where = ((script.path(place), place),)
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, lines=(where,))


def _own_weights(script: Script) -> Iterator[Remark]:
    """Models that are made, or begun anew, when each process already draws random numbers of its own."""
    for statement in script.seeds.weights_apart():
        message = (
            "each process draws other weights here, as it draws its own data by now: draw them before the training, "
            "or pass the model to `prepare` at once, which makes the processes' weights equal"
        )
        yield Remark(NAME, script.path(statement), statement, message, Tier.REVIEW)


def _own_samples(script: Script) -> Iterator[Remark]:
    """Samples that are drawn once for all of a training, when each process already draws random numbers of its own."""
    for call in script.seeds.samples_apart():
        message = (
            "all of the training goes on with what is drawn here once, and each process draws another: give all of "
            f"them the same, `{script.reach.name}.broadcast(...)` of what is drawn"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _rows_alike(script: Script) -> Iterator[Remark]:
    """Rows that are taken in their turn, in an order that the processes draw for themselves only later."""
    for each in (e for e in script.seeds.rows_alike() if e.at_times):
        message = (
            "every process takes the same rows here until they are drawn anew ({0}), so that until then more processes "
            f"make it no faster: let each draw an order of its own before the loop, after "
            f"`{script.reach.name}.seed_by_rank()`"
        )
        anew = tuple((script.path(call), call) for call in each.at_times)
        yield Remark(NAME, script.path(each.rows), each.rows, message, Tier.REVIEW, lines=(anew,))


def _weights_in_rounds(script: Script) -> Iterator[Remark]:
    """Models that are begun anew while a loop trains them, of which each process sees its shard."""
    sharded = script.metrics.ranks.loops.intersection(d.loop for d in script.training.data if d.loop is not None)
    for statement in script.seeds.weights_in_rounds(sorted(sharded, key=script.program.position)):
        message = (
            "each process draws other weights here, with random numbers of its own: let all draw them at the same "
            f"step, and load one's into all, `model.load_state_dict({script.reach.name}.broadcast(model.state_dict()))`"
        )
        yield Remark(NAME, script.path(statement), statement, message, Tier.REVIEW)


def _given_alike(script: Script) -> str:
    """What the training loops give to models that is no process's own: `data` for all of it, or its first name."""
    loops = {loop for loops in script.training.loops.values() for loop in loops}
    called = [c for c in script.program.calls if any(script.program.inside(c, loop) for loop in loops)]
    calls = list(dict.fromkeys(_making_data(script, called)))
    fed = [c for c in calls if _feeds(script, c) and not _is_for_itself(script, c)]
    given, is_own = [a for c in fed for a in c.args], script.run.experience.holds
    if not given or any(map(is_own, given)):
        return ""
    if not any(_is_made_in(script, a, loops) for a in given):
        return "data"  # it was there before the loops
    if any(_may_draw_anything(script, c) for c in _making_data(script, [c for c in calls if c not in fed])):
        return ""
    alike = [a for a in given if not script.metrics.ranks.is_own(a)]
    if len(alike) == len(given):
        return "data"
    firsts = (c.args[0] for c in fed if c.args and without_gradients(script.program, c) is None)
    batches = (a for a in firsts if a in alike and isinstance(a, ast.Name) and _is_made_in(script, a, loops))
    return next((f"`{a.id}`" for a in batches), "")


def _feeds(script: Script, call: ast.Call) -> bool:
    """Whether a call runs a model, or a method that it has of the script's own: `model.train_step(x)`."""
    is_method = isinstance(call.func, ast.Attribute) and bool(script.program.flow.callees.get(call))
    run = [call.func, call.func.value] if is_method and isinstance(call.func, ast.Attribute) else [call.func]
    return any(script.roles.is_model(v) for node in run for v in script.program.values(node))


def _is_for_itself(script: Script, call: ast.Call) -> bool:
    """Whether a forward pass is run for what it changes in its model, as nothing reads its result."""
    is_pass = any(map(script.roles.is_model, script.program.values(call.func)))
    return is_pass and isinstance(script.program.parent(call), ast.Expr)


def _making_data(script: Script, calls: Sequence[ast.Call]) -> Iterator[ast.Call]:
    """Some calls, and those in the functions that they run, outside of the models."""
    yield from calls
    for frame in script.program.run_through(calls):
        cls = frame.parent if frame.is_method else None
        if cls is None or not script.program.flow.is_module_class(cls):
            yield from script.program.calls_in(frame)


def _may_draw_anything(script: Script, call: ast.Call) -> bool:
    """Whether a call is not known, or draws into what it is given: `random.shuffle(self.order)`."""
    rows = script.effects.kinds.called(call)
    if rows is None:
        return not script.program.flow.callees.get(call)
    return any(row.mutates and row.effects & DRAWS for row in rows)


def _is_made_in(script: Script, node: ast.expr, loops: Collection[ast.AST]) -> bool:
    """Whether a value is made in some loops, or in a function that may be called in them."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    found = {d.node for n in names for d in script.metrics.measured.chains.definitions(n)}
    frames = {script.program.frame(loop) for loop in loops}
    is_elsewhere = any(script.program.frame(d) not in frames for d in found)
    is_inside = any(script.program.inside(d, loop) for d in found for loop in loops if not is_elsewhere)
    return is_elsewhere or is_inside or not found or any(isinstance(n, ast.Call) for n in ast.walk(node))


def _own_generators(script: Script) -> Iterator[Change | Obstacle]:
    """Code that seeds the random numbers of steps, on its own or again in the loop, is seeded by rank."""
    generators = OwnGenerators(script.program, Loops(script.program, script.roles, script.tracer), script.training)
    found = [(seed, generator.is_shared) for generator in generators.find() for seed in generator.seeds]
    for seed, is_shared in dict.fromkeys([*found, *((seed, False) for seed in generators.seeded_again())]):
        accelerator, is_again = script.accelerator(seed), generators.is_round_a_step(seed)
        is_number = not isinstance(seed, ast.Constant) or isinstance(seed.value, int)
        if accelerator is None or is_shared or not is_number:
            message = (
                "every process would draw the same training data, as the generator has the same seed in all of "
                "them: let the steps draw from a generator of their own that is created after the accelerator"
            )
            yield Obstacle(NAME, script.path(seed), seed, message)
            continue
        yield _parted(script, seed, accelerator, "training data are drawn from this generator", is_again=is_again)
    for given in dict.fromkeys(Workers(script.program).seeds()):
        yield _parted_anywhere(script, given.node, _OF_WORKER, is_again=not given.is_drawn)


def _own_normalizers(script: Script) -> Iterator[Remark]:
    """Running statistics by which each process normalizes what its environments return, a note for all."""
    found = tuple((script.path(node), node) for node in script.run.experience.normalized())
    if found and not script.is_by_hand:
        message = (
            "this normalizes by running statistics of each process's own episodes{also}: the same observation or "
            "reward becomes another value in each process, while the model is one. Combine the statistics of all "
            "processes between updates, and save those with the model"
        ).replace("{also}", " (also {0})" if len(found) > 1 else "")
        yield Remark(NAME, *found[0], message, Tier.REVIEW, lines=(found[1:],))


def _own_environments(script: Script) -> Iterator[Change]:
    """What seeds the environments that training asks is seeded by rank."""
    nesting = Nesting(script.program, script.roles, script.tracer)
    for seed in EnvironmentSeeds(script.program, script.roles, nesting, script.training, script.run.beside).find():
        count = f" * {ast.unparse(seed.vector)}.num_envs" if seed.vector is not None and not seed.is_again else ""
        yield _parted_anywhere(script, seed.node, _OF_ENVIRONMENT, is_again=seed.is_again, count=count)


def _parted_anywhere(script: Script, seed: ast.expr, reason: str, *, is_again: bool, count: str = "") -> Change:
    """A seed of which each process gets another, also where the accelerator does not reach."""
    place = script.place(seed)
    change = _parted(script, seed, place, reason, is_again=is_again, count=count)
    library = script.library_import(seed, place)
    return replace(change, edits=(*change.edits, *library))


def _parted(script: Script, seed: ast.expr, state: str, reason: str, *, is_again: bool, count: str = "") -> Change:
    """A seed of which each process gets another; of several in a row, `is_again`, no two get the same.

    count: a factor for the seeds that a process takes from this one on.
    """
    code = f"{{seed}} * {state}.num_processes" if is_again else "{seed}"
    make = partial(_seeded, code=f"{code} + {state}.process_index{count}")
    edit = Replace(seed, make, keeps=(seed,), reads=(state.split(".")[0],))
    return Change(NAME, script.path(seed), seed.lineno, f"{reason}: {_OWN}", (edit,), Tier.REVIEW)


def _seeded(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    assert isinstance(node, cst.BaseExpression)
    return snippets.expression(code, seed=node)
