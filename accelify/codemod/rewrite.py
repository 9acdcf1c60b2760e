"""The pipeline: source -> parse -> analysis -> Script -> rules -> Plan -> apply -> gates -> Result."""

from __future__ import annotations

from dataclasses import dataclass

from accelify.codemod.result import FileResult


@dataclass(frozen=True, slots=True)
class Options:
    """How to rewrite.

    follow: the project's own files that a script imports are read, and changed with it.
    keep_global_batch: write `Accelerator(split_batches=True)`, so that N processes share the script's own batch.
    runtime: the library that the rewritten script imports, `accelify` or `accelerate`.
    """

    follow: bool = True
    keep_global_batch: bool = False
    runtime: str = "accelify"


def rewrite_together(paths: tuple[str, ...], options: Options) -> tuple[FileResult, ...]:
    """Rewrite files that belong to one program; other files of the project that had to change with them follow."""
    raise NotImplementedError


def rewrite_source(path: str, data: bytes, options: Options) -> FileResult:
    """Rewrite one file given as bytes; `path` only names it."""
    raise NotImplementedError
