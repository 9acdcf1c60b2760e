"""What to say of what a script does by hand to run on several processes, where that is not understood."""

from __future__ import annotations

import ast

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import External

_START = "starts the processes: call the function itself, and start the script by `accelify launch`"
_WAYS_OUT = {
    "all_reduce": "`accelerator.reduce(x)` is the same, in one process too",
    "reduce": "`accelerator.reduce(x)` is the same, in one process too",
    "all_gather": "`accelerator.gather(x)` is the same, in one process too",
    "all_gather_into_tensor": "`accelerator.gather(x)` is the same, in one process too",
    "all_gather_object": "`gather_object(x)` of the runtime is the same, in one process too",
    "gather": "`accelerator.gather(x)` is the same, in one process too",
    "broadcast": "`broadcast(x)` of the runtime is the same, in one process too",
    "broadcast_object_list": "`accelerator.broadcast_object_list(x)` is the same, in one process too",
    "DistributedDataParallel": "take the wrapper out, `prepare` does its part",
    "DistributedSampler": "take the sampler out, `prepare` deals the data out",
    "get_rank": "`accelerator.process_index` is the same, in one process too",
    "get_world_size": "`accelerator.num_processes` is the same, in one process too",
    "barrier": "`accelerator.wait_for_everyone()` is the same, in one process too",
}
_OTHERWISE = "take this out, or leave the script as it is: `torchrun` starts it"


def reason_for(name: str) -> str:
    """Why a script that uses this name is left alone, and what can be done."""
    last = name.rpartition(".")[2]
    if last in ("spawn", "Process"):
        return f"`{name}`: {_START}"
    return f"`{name}`: the script already distributes itself; {_WAYS_OUT.get(last, _OTHERWISE)}"


def is_part_of_a_name(program: Program, node: ast.AST) -> bool:
    """Whether a name is only the beginning of another that is told: `dist` of `dist.all_reduce`."""
    parent = program.parent(node)
    held = program.flow.values.get(parent, frozenset()) if isinstance(parent, ast.Attribute) else ()
    return any(isinstance(v, External) and names.is_distributed(v.name) for v in held)
