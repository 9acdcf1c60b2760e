"""Reach the model inside its wrapper, for a runtime that wraps it (`--runtime accelerate`).

    torch.save(model.state_dict(), path)    ->    accelerator.save(accelerator.unwrap_model(model).state_dict(), path)
    model.sample(8)                         ->    accelerator.unwrap_model(model).sample(8)

Why: over many processes Accelerate's `prepare` gives back a wrapper, which has none of the model's own attributes and
methods, and whose state has other keys. Called as `model(x)`, the wrapper averages the gradients across processes.
Left alone: calls of the model, and what the wrapper answers as the model does; code that reads the model from before it
was prepared. Training past the wrapper, through a method of the model's own, is declined. Where Accelerate's processes
or its loaders draw other random numbers than ours would, a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Obstacle, Remark, Replace
from accelify.codemod.libraries import names
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "unwrap"


def find(script: Script) -> Iterator[Change | Remark | Obstacle]:
    """A change for each place where the model itself is meant."""
    for node in script.wrapping.unwrapped if script.wrapping is not None else ():
        accelerator, path = script.accelerator(node), script.path(node)
        if accelerator is None:
            yield Obstacle(
                NAME, path, node, "the accelerator does not reach here, where the wrapped model itself is meant"
            )
            continue
        make = partial(snippets.passed_to, function=f"{accelerator}.unwrap_model")
        edit = Replace(node, make, keeps=(node,), reads=(accelerator.split(".")[0],))
        yield Change(NAME, path, node.lineno, "the model itself is meant, not its wrapper", (edit,))
    if script.options.runtime.wraps_models:
        yield from _random_numbers(script)


def _random_numbers(script: Script) -> Iterator[Remark]:
    """Differences that Accelerate leaves to the script, or makes in another order."""
    backward = script.training.backwards[0]
    if not any(names.is_seed(name) for call in script.program.calls for name in script.program.called(call)):
        message = "nothing seeds torch: a split or a permutation that the script draws differs between processes"
        yield Remark(NAME, script.path(backward), backward, f"{message}; `accelerate.utils.set_seed`", Tier.REVIEW)
    zipped = {c for c in script.program.calls if script.program.called(c) == {"zip"} and script.prepared.is_loader(c)}
    for call in sorted(zipped, key=script.program.position):
        message = (
            "loaders side by side start later here, so shuffled ones draw other orders than before, each a fair one"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
    if script.run.draws_in_its_data:
        message = "a batch is fetched before the one before it is used, so random numbers come in another order"
        yield Remark(NAME, script.path(backward), backward, message, Tier.REVIEW)
