"""State that must begin alike on all processes, drawn after each was given a seed of its own.

    torch.manual_seed(seed + rank)                   torch.manual_seed(seed)
    train, val = random_split(data, [n, m])    ->    train, val = random_split(data, [n, m])
                                                     torch.manual_seed(seed + rank)

Why: each process draws another split, so that one trains on what the others evaluate on, and the shards are those of
different data. A model that is not wrapped begins with other weights in each process, and averaging the gradients does
not make them equal.
Left alone: models that are wrapped or prepared, which begin with the main process's weights; programs that broadcast;
draws with a generator of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import vocabulary
from accelify.codemod.libraries.row import Effect, Role, Row
from accelify.codemod.semantics.values import Instance, Made
from accelify.codemod.training.roles import Roles

NAME = "seeded_by_rank"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each split, and each model that is trained without a wrapper, drawn after a seed by rank."""
    trained = processes.once(Trained)
    seeds = [c for c in processes.program.calls if any(map(_seeds, processes.rows(c))) and processes.is_run(c)]
    if not processes.is_distributed or not seeds:
        return
    if not all(_is_of_rank(processes, trained, seed) for seed in seeds):
        return
    splits = [(c, "another split") for c in processes.program.calls if any(map(_splits, processes.rows(c)))]
    drawn = [(c, what) for c, what in splits if _has_no_generator(c)]
    drawn += [(c, "other weights") for c in _bare_models(processes, trained)]
    for call, what in sorted(drawn, key=lambda each: processes.program.position(each[0])):
        before = [seed for seed in seeds if _is_before(processes, seed, call)]
        if before and processes.is_everywhere(call):
            line = processes.program.line(before[-1])
            yield Finding(NAME, call, f"each process draws {what} here, as each has a seed of its own (line {line})")


def _seeds(row: Row) -> bool:
    return Effect.SEEDS_TORCH in row.effects


def _is_of_rank(processes: Processes, trained: Trained, seed: ast.Call) -> bool:
    """Whether a seed is surely worked out from the rank."""
    ask = processes.conditions.outcome
    parts = (n for given in seed.args for source in trained.sources(given) for n in ast.walk(source))
    return any(isinstance(n, (ast.Name, ast.Attribute, ast.Call)) and ask(n, MAIN) != ask(n, OTHER) for n in parts)


def _splits(row: Row) -> bool:
    return row.role is Role.DATASET and Effect.DRAWS_TORCH in row.effects


def _has_no_generator(call: ast.Call) -> bool:
    return not any(k.arg in (None, "generator") for k in call.keywords) and len(call.args) < 3


def _bare_models(processes: Processes, trained: Trained) -> list[ast.Call]:
    """Where the models are made whose gradients the script averages itself, without ever sending weights."""
    program = processes.program
    if trained.wraps or trained.prepares or any(vocabulary.may_send_weights(p.text) for p in program.files):
        return []
    if not any(row.role is Role.COLLECTIVE for call in program.calls for row in processes.rows(call)):
        return []
    models = (v for v in program.once(Roles).trained if isinstance(v, (Made, Instance)))
    return [call for model in models for call in trained.made(model)]


def _is_before(processes: Processes, seed: ast.Call, call: ast.Call) -> bool:
    """Whether a seed is always set before a call in its function."""
    if processes.frame(seed) is not processes.frame(call):
        return False
    return processes.program.control_flow(call).dominates(seed, call)
