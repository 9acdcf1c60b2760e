"""The libraries that a migrated script may run on, in the terms in which the analysis and the rules ask."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runtime:
    """One such library.

    name: what users call it. module: where `Accelerator` comes from. functions: where the functions come from that need
    none. launch: the command that starts many processes.
    wraps_models: `prepare(model)` gives back another object, which takes the model's place and hides its own attributes
    and methods; else it gives back the model. sharing: how `Accelerator` is told that all processes share a batch, and
    which names of the library that takes. shared_size: what a batch needs to be shared.
    lacks: the calls of ours that it has no counterpart for; `reduce` is that of
    numbers, `save_options` are those of `torch.save`.
    """

    name: str
    module: str
    functions: str
    launch: str
    wraps_models: bool = False
    sharing: str = "split_batches=True"
    names_for_sharing: tuple[str, ...] = ()
    shared_size: str = "at least one sample for each process"
    lacks: frozenset[str] = frozenset()

    def has(self, call: str) -> bool:
        """Whether its accelerator can do something."""
        return call not in self.lacks


ACCELIFY = Runtime("accelify", "accelify.runtime", "accelify.runtime", "accelify launch")
ACCELERATE = Runtime(
    "accelerate",
    "accelerate",
    "accelerate.utils",
    "accelerate launch",
    wraps_models=True,
    sharing="dataloader_config=DataLoaderConfiguration(split_batches=True)",
    names_for_sharing=("DataLoaderConfiguration",),
    shared_size="a size that is a multiple of the number of processes",
    lacks=frozenset({"shard", "seed_by_rank", "reduce", "save_options", "broadcast_object_list"}),
)
RUNTIMES = {runtime.name: runtime for runtime in (ACCELIFY, ACCELERATE)}
