"""What a user may ask of a rewrite."""

from __future__ import annotations

from dataclasses import dataclass

from accelify.codemod.libraries.runtimes import ACCELIFY, Runtime
from accelify.codemod.patterns import Patterns


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
    """

    follow: bool = True
    keep_global_batch: bool = False
    runtime: Runtime = ACCELIFY
    selection: Selection = Selection()
