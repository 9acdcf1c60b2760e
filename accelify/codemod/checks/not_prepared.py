"""An optimizer, a model or a loader that is trained with beside the accelerator.

    model, loader = accelerator.prepare(model, loader)
    ->
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

Why: the accelerator does not know of it. Of an optimizer the gradients are not unscaled in fp16, it steps in each of
several accumulated passes, and its state is not in the checkpoints that the accelerator saves. Of a model the gradients
are not averaged across processes. A loader gives every process all of the data.
Left alone: scripts that prepare a list which is filled elsewhere; models that are a part of a prepared one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.loaders import Loaders
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries.row import Role
from accelify.codemod.semantics.values import Instance, Made
from accelify.codemod.training.roles import Roles

NAME = "not_prepared"
_OPTIMIZER = (
    "this optimizer is stepped but never prepared, so the accelerator neither unscales its gradients nor "
    "saves it: pass it to `prepare`"
)
_MODEL = "this model is trained and never prepared: its gradients are not averaged across processes"
_LOADER = "this loader is trained on and never prepared: every process goes over all of the data"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each optimizer that takes steps, model and loader that is not given to `prepare`."""
    trained = processes.once(Trained)
    if not trained.prepares or not trained.is_prepared_as_listed:
        return
    for made in sorted(trained.made_by(Role.OPTIMIZER), key=processes.program.position):
        if trained.steps(made) and not trained.is_given_to_prepare(made):
            yield Finding(NAME, made, _OPTIMIZER)
    if trained.wraps:
        return
    for made in sorted(_models(processes, trained), key=processes.program.position):
        yield Finding(NAME, made, _MODEL)
    for made in sorted(_loaders(processes, trained), key=processes.program.position):
        yield Finding(NAME, made, _LOADER)


def _models(processes: Processes, trained: Trained) -> Iterator[ast.Call]:
    """The calls that make a model whose `parameters()` a stepped optimizer gets, and that no `prepare` does."""
    program, roles = processes.program, processes.program.once(Roles)
    prepared = {v for call in trained.prepares for given in call.args for v in program.values(given)}
    built = [v.node for v in filter(roles.is_module, prepared) if isinstance(v, Made)]
    parts = {v for call in built for n in ast.walk(call) if isinstance(n, ast.expr) for v in program.values(n)}
    for optimizer in trained.made_by(Role.OPTIMIZER):
        if not trained.steps(optimizer) and not trained.is_given_to_prepare(optimizer):
            continue
        owners = filter(None, map(_owner_of_parameters, optimizer.args[:1]))
        given = (v for owner in owners for v in program.values(owner))
        for model in (before for v in given for before in trained.before_prepare(v)):
            if isinstance(model, (Made, Instance)) and roles.wholes(model).isdisjoint(prepared | parts):
                yield from (made for made in trained.made(model) if not processes.frame(made).is_method)


def _owner_of_parameters(given: ast.expr) -> ast.expr | None:
    """`model` of `model.parameters()`."""
    is_call = isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and not given.args
    return given.func.value if is_call and given.func.attr == "parameters" else None  # type: ignore[attr-defined]


def _loaders(processes: Processes, trained: Trained) -> set[ast.Call]:
    """The calls that make a loader whose batches an accelerator's backward pass is computed from."""
    loaders, found = processes.program.once(Loaders), set()
    for backward in trained.backwards:
        assert isinstance(backward.func, ast.Attribute)
        loop = trained.loop(backward)
        if isinstance(loop, (ast.For, ast.AsyncFor)) and processes.is_accelerator(backward.func.value):
            over = loaders.iterables.owners(loop.iter)
            made = {v.node for v in over if isinstance(v, Made)}
            if all(isinstance(v, Made) for v in over) and made <= set(loaders.calls_of_loaders):
                found |= {c for c in loaders.over(loop) if isinstance(c, ast.Call)}
    return {c for c in found if not trained.is_given_to_prepare(c) and _is_plain(c)}


def _is_plain(loader: ast.Call) -> bool:
    """Whether a loader iterates over its data in the usual way, with no sampler that may shard them."""
    return not any(k.arg in (None, "sampler", "batch_sampler") for k in loader.keywords) and len(loader.args) < 4
