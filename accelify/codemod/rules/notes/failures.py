"""Notes on errors that one process alone may have, and on what is saved after Ctrl-C."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.metrics.decisions import skipped_apart
from accelify.codemod.rules.notes.remarks import review
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import code


def caught_apart(script: Script) -> Iterator[Remark]:
    """Errors that one process alone may have in its training, and gets over."""
    found = skipped_apart(script.metrics) if not script.is_by_hand else {}
    for node, is_step in found.items():
        message = (
            "a process that fails here leaves out its step and goes on, while the others wait for its gradients: let "
            "the error end the run, or find bad batches before the step, in all processes"
            if is_step
            else "a process that fails here leaves its training and begins anew, while the others wait for its "
            "gradients: let the error end the run, and start it again"
        )
        yield review(script, node, message)


def stopped_by_hand(script: Script) -> Iterator[Remark]:
    """What saves after Ctrl-C, where a process may still wait for the others."""
    tried = (n for path in sorted(script.files) for n in script.program.flow.parsed_of[path].parents)
    for node in (n for n in tried if isinstance(n, ast.Try) and any(map(script.seeds.trains, n.body))):
        for handler in node.handlers:
            if handler.type is None or "KeyboardInterrupt" not in code(handler.type):
                continue
            if _saves_after(script, node, handler):
                message = (
                    "Ctrl-C stops each process at another place, and the launcher ends them a few seconds later: the "
                    "main process may wait for another's gradients until then, and not come to save anything here. "
                    "Save at fixed steps of the training, too"
                )
                yield review(script, handler, message)


def _saves_after(script: Script, tried: ast.Try, handler: ast.ExceptHandler) -> bool:
    """Whether a handler writes a file, or a checkpoint is saved once it is through."""
    program, frame = script.program, script.program.frame(tried)
    if script.effects.of(*handler.body).files_written:
        return True
    later = (s.call for s in script.written.saves if program.frame(s.call) is frame and program.is_after(s.call, tried))
    return program.control_flow(handler).completes(handler.body[-1]) and next(later, None) is not None
