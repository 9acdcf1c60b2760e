"""A loader that gives every process all of the data.

    loader = DataLoader(data, shuffle=True)    ->    loader = DataLoader(data, sampler=DistributedSampler(data))

Why: each process iterates over the whole data in an order of its own, so that an epoch sees each sample N times, and N
processes are no faster than one.
Left alone: programs that shard their data anywhere, by a sampler, by rank or by `prepare`; data that nothing is
trained on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.loaders import Loaders
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import vocabulary

NAME = "missing_sampler"
_MESSAGE = "every process trains on all of the data: this loader has no `DistributedSampler`"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each shuffling loader that a wrapped model is trained on."""
    trained = processes.once(Trained)
    if not processes.is_distributed or not trained.wraps or trained.prepares:
        return
    if any(
        "ampler" in p.text or "split_dataset_by_node" in p.text or "shard" in p.text for p in processes.program.files
    ):
        return
    loaders = processes.program.once(Loaders)
    for call in sorted(loaders.calls_of_loaders, key=processes.program.position):
        loops = [loop for loop in loaders.loops_over_loaders if call in loaders.over(loop) and loaders.trains(loop)]
        if loops and _shuffles(call) and not _may_be_own(trained, call):
            yield Finding(NAME, call, _MESSAGE)


def _shuffles(call: ast.Call) -> bool:
    given = {k.arg: k.value for k in call.keywords}
    shuffle = given.get("shuffle", call.args[2] if len(call.args) > 2 else None)
    is_plain = None not in given and len(call.args) < 4
    return is_plain and isinstance(shuffle, ast.Constant) and shuffle.value is True


def _may_be_own(trained: Trained, call: ast.Call) -> bool:
    """Whether the data may be a part that the rank decides on."""
    data = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "dataset"), None)
    return data is None or any(vocabulary.may_be_one_ranks_path(ast.unparse(s)) for s in trained.sources(data))
