"""Notes on what each process draws, or seeds, by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import DRAWS, Effect, Role, Trait
from accelify.codemod.metrics.own_seeds import own_seeds
from accelify.codemod.result import Tier
from accelify.codemod.rules.notes.remarks import NAME, review
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.randomness.kept_iterators import KeptIterators
from accelify.codemod.training.weights import draws_weights, late_parameters

_COMMON = DRAWS - {Effect.DRAWS_GIVEN}  # drawn from the random states that all code shares
_GENERATORS = {
    Effect.DRAWS_NUMPY: "`rng = np.random.default_rng(seed)`",
    Effect.DRAWS_PYTHON: "`rng = random.Random(seed)`",
    Effect.DRAWS_TORCH: "`generator=torch.Generator().manual_seed(seed)`",
}
_OF_SYSTEM = (
    "each process draws something else here, from the operating system, which no seed repeats: where all processes "
    "need the same, draw it from a generator with a seed"
)


def seeded_apart(script: Script) -> Iterator[Remark]:
    """Seeds of the clock or the system, of which each process has another."""
    seeds = own_seeds(script.metrics) if not script.is_by_hand and not script.seeds.is_by_rank else ()
    for seed in seeds:
        is_global = any(map(names.is_seed, script.program.called(seed.call)))
        if is_global and script.accelerator(seed.call) is None and not (seed.orders or seed.is_again):
            continue  # whose creation makes the processes' random states equal
        message = (
            "each process takes another seed here, so what is drawn by it before the training (a split, an order, a "
            "setting) differs between processes: give all of them one seed"
        )
        if seed.is_again:
            message = (
                "each process takes another seed here, so what is drawn by it for an epoch (rows, an order, a split) "
                "differs between processes, and each takes its shard of its own: give all of them one seed"
            )
        if seed.orders:
            message = (
                "each process takes another seed here, so each draws another order of the data and takes its shard of "
                "that: some items come several times in an epoch, and others not at all: give all of them one seed"
            )
        rows = script.effects.kinds.called(seed.call) or ()
        message = _OF_SYSTEM if any(row.has(Trait.NO_SEED) for row in rows) else message
        yield review(script, seed.call, message)


def _draws_of_system(script: Script, call: ast.Call) -> bool:
    """Whether a call draws from the operating system itself, which seeds do not change: `secrets.token_hex(4)`."""
    return any(Effect.DRAWS_SYSTEM in row.effects for row in script.effects.kinds.called(call) or ())


def _makes_text(script: Script, call: ast.Call) -> bool:
    """Whether a statement only makes a text of what a call draws, a name that does not decide what is trained."""
    value = getattr(script.program.statement(call), "value", None)
    return isinstance(value, ast.expr) and script.effects.kinds.of(value) == {"string"}


def drawn_early(script: Script) -> Iterator[Remark]:
    """What is drawn without a seed before the accelerator: only our launcher has processes begin with equal states."""
    program, early = script.program, script.access.early
    seeds = [c for c in program.calls if any(map(names.is_seed, program.called(c)))]
    found: dict[Scope, ast.Call] = {}
    for call in (c for c in program.calls if not script.is_by_hand and early.holds(c)):
        frame = program.frame(call)
        rows = script.effects.kinds.called(call) or ()
        is_generator = any(row.role is Role.GENERATOR for row in rows)  # said of its seed, where it has none
        draws = bool(rows) and not is_generator and not script.effects.of_call(call).effects.isdisjoint(_COMMON)
        made_in = next((f.node.body for f in program.lambdas(call) if isinstance(f.node, ast.Lambda)), None)
        makes_weights = draws_weights(program, made_in or program.statement(call))
        is_of_items = frame.is_method or frame in script.written.meetings.items or frame in script.run.beside
        is_name = draws and _draws_of_system(script, call) and _makes_text(script, call)
        if (
            draws
            and not (makes_weights or is_of_items or is_name)
            and not any(program.may_follow(call, seed) for seed in seeds)
        ):
            found[frame] = min(call, found.get(frame, call), key=program.position)
    for call in found.values():
        launch = script.options.runtime.launch
        message = "this is drawn without a seed, so each process draws something else: seed all of them alike first"
        if script.options.runtime.has("seed_by_rank"):  # of which the launcher has all processes begin alike
            message = (
                f"this is drawn without a seed before `{script.reach.name}` is created: `{launch}` seeds all processes "
                f"alike, but under `torchrun` each draws something else. Use `{launch}`, or seed them all alike first"
            )
        message = _OF_SYSTEM if _draws_of_system(script, call) else message
        yield Remark(NAME, script.path(call), call, message, Tier.ADVICE)


def drawn_beside_kept_iterators(script: Script) -> Iterator[Remark]:
    """What decides what is trained, and is drawn while an iterator that is kept leaves its loop over the data open."""
    ranks = script.metrics.ranks
    if script.is_by_hand or ranks.shards.draws or not script.options.runtime.has("seed_by_rank"):
        return
    iterators = KeptIterators(script.program, ranks.shards.is_loader, ranks.draws.is_in_a_round, script.seeds.trains)
    for drawn in iterators.draws():
        kept = tuple((script.path(node), node) for node in drawn.kept)
        effects = script.effects.of_call(drawn.call).effects
        generator = next((text for effect, text in _GENERATORS.items() if effect in effects), "a generator")
        message = (
            f"`{ast.unparse(drawn.kept[0])}` is kept ({{0}}), so its loop over the data stays open, and each process "
            f"draws another here and trains something else: draw from a generator of its own, seeded alike, {generator}"
            f", or let process 0 draw for all, `{script.reach.name}.broadcast_object_list([...])[0]`"
        )
        yield Remark(NAME, script.path(drawn.call), drawn.call, message, Tier.REVIEW, lines=(kept,))


def late_weights(script: Script) -> Iterator[Remark]:
    """Weights that are made in the first forward pass."""
    for call in late_parameters(script.program) if not script.is_by_hand else ():
        message = (
            "this is made in the first forward pass, from random numbers of each process's own: call the model once "
            "before `prepare`, which makes all processes' weights equal"
        )
        yield review(script, call, message)
