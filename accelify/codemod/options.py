"""What a user may ask of a rewrite."""

from __future__ import annotations

from dataclasses import dataclass

from accelify.codemod.libraries.runtimes import ACCELIFY, Runtime


@dataclass(frozen=True, slots=True)
class Options:
    """How to rewrite.

    follow: the project's own files that a script imports are read, and changed with it.
    keep_global_batch: write `Accelerator(split_batches=True)`, so that N processes share the script's own batch.
    runtime: the library that the migrated script runs on.
    """

    follow: bool = True
    keep_global_batch: bool = False
    runtime: Runtime = ACCELIFY
