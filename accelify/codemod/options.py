"""The options of a rewrite, and the libraries that the migrated script may run on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from accelify.codemod.patterns import Patterns


@dataclass(frozen=True, slots=True)
class Runtime:
    """One such library.

    name: what users call it. module: where `Accelerator` comes from. functions: where the functions come from that need
    none. launch: the command that starts many processes.
    wraps_models: `prepare(model)` gives back another object, which takes the model's place and hides its own attributes
    and methods; else it gives back the model. sharing: the argument by which `Accelerator` lets all processes share a
    batch, and which names of the library that takes. shared_size: what a batch needs to be shared. lacks: the calls of
    ours that it has no counterpart for; `reduce` is that of numbers, `save_options` are those of `torch.save`.
    """

    name: str
    module: str
    functions: str
    launch: str
    wraps_models: bool = False
    sharing: str = "split_batches=True"
    names_for_sharing: tuple[str, ...] = ()
    shared_size: str = "at least one sample for each process (two, if the model has BatchNorm layers)"
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
    lacks=frozenset(
        {
            *("shard", "seed_by_rank", "reduce", "save_options", "broadcast_object_list", "Environment"),
            *("mixed_devices", "current"),
        }
    ),
)
RUNTIMES = {runtime.name: runtime for runtime in (ACCELIFY, ACCELERATE)}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rules may change which files.

    select: the rules that may, all of them if it is None. ignore: those that may not. per_file_ignores: those that
    may not in the files that a pattern means. excluded: files that stay as they are, though others import them, unless
    they are named.
    """

    select: frozenset[str] | None = None
    ignore: frozenset[str] = frozenset()
    per_file_ignores: tuple[tuple[Patterns, frozenset[str]], ...] = ()
    excluded: tuple[Patterns, ...] = ()
    named: frozenset[str] = frozenset()

    def moved(self, before: Path, after: Path) -> Selection:
        """The same selection where one folder is copied to another."""
        return replace(
            self,
            per_file_ignores=tuple((files.moved(before, after), rules) for files, rules in self.per_file_ignores),
            excluded=tuple(files.moved(before, after) for files in self.excluded),
        )

    def leaves_out(self, rule: str, path: str) -> str | None:
        """The setting that leaves a rule out in a file; None where the rule applies."""
        if self.select is not None and rule not in self.select:
            return "`select`"
        if rule in self.ignore:
            return "`ignore`"
        if any(rule in rules and files.match(path) for files, rules in self.per_file_ignores):
            return "`per-file-ignores`"
        if path not in self.named and any(files.match(path) for files in self.excluded):
            return "`exclude`"
        return None


@dataclass(frozen=True, slots=True)
class Options:
    """How to rewrite.

    follow: the project's own files that a script imports are read, and changed with it.
    keep_global_batch: write `Accelerator(split_batches=True)`, so that N processes share the script's own batch.
    runtime: the library that the migrated script runs on.
    selection: the rules that may change a file.
    called_outside: the paths and names of functions and classes that other files of the repository call as they are.
    """

    follow: bool = True
    keep_global_batch: bool = False
    runtime: Runtime = ACCELIFY
    selection: Selection = Selection()
    called_outside: frozenset[tuple[str, str]] = frozenset()
