"""Records the lines that a script prints or logs, and whether they tell of an evaluation."""

from __future__ import annotations

import logging
import sys
from typing import IO, Any  # streams pass on whatever they have

import torch
from torch import nn

from accelify.verify.inside.reach import EVALUATION, Reach
from accelify.verify.inside.record import Recorder


class Evaluations:
    """Whether the script has evaluated since its last backward pass: `model.eval()`, or `no_grad` entered by itself."""

    def __init__(self, recorder: Recorder, reach: Reach) -> None:
        self._recorder = recorder
        self._reach = reach
        self._is_switched = False  # by `model.eval()`
        self.is_on = False

    def told(self) -> bool:
        """The same, of a line that is printed."""
        if self._is_switched:
            self._reach.came_to(EVALUATION)
        return self.is_on

    def watch(self) -> None:
        """Notice evaluations from here on."""
        train, backward = nn.Module.train, torch.autograd.backward
        recorder = self._recorder

        def switch(module: nn.Module, mode: bool = True) -> nn.Module:
            if not mode:
                self.is_on = self._is_switched = True
            return train(module, mode)

        def again(*given: Any, **options: Any) -> None:
            self.is_on = self._is_switched = False
            backward(*given, **options)

        nn.Module.train = switch  # type: ignore[method-assign, assignment]
        torch.autograd.backward = again
        for kind in (torch.no_grad, torch.inference_mode):
            self._watch_entry(kind, recorder)

    def _watch_entry(self, kind: Any, recorder: Recorder) -> None:
        enter = kind.__enter__

        def entered(context: Any) -> Any:
            caller = sys._getframe(1)
            code = caller.f_code
            # As a decorator, torch's own wrapper enters it; then the user's function is called from there.
            if recorder.owns(code.co_filename) or (code.co_name == "decorate_context" and _decorates(caller, recorder)):
                self.is_on = True
            return enter(context)

        kind.__enter__ = entered


def _decorates(frame: Any, recorder: Recorder) -> bool:
    function = frame.f_locals.get("func")
    return recorder.owns(getattr(getattr(function, "__code__", None), "co_filename", ""))


class Lines:
    """A stream that records each whole line and hands everything on."""

    def __init__(self, stream: IO[str], recorder: Recorder, evaluations: Evaluations) -> None:
        vars(self).update(_stream=stream, _recorder=recorder, _evaluations=evaluations, _begun="", _stack=[])

    def write(self, text: str) -> int:
        """Hand the text on; record the lines that it completes."""
        own = vars(self)
        if text and not own["_begun"]:
            own["_stack"] = own["_recorder"].stack()
        *lines, own["_begun"] = (own["_begun"] + text).split("\n")
        for line in lines:
            # A line that was drawn over is a progress bar's.
            if line.strip() and own["_stack"] and "\r" not in line:
                own["_recorder"].write("print", text=line, stack=own["_stack"], evaluation=own["_evaluations"].told())
            own["_stack"] = own["_recorder"].stack()
        return own["_stream"].write(text)  # type: ignore[no-any-return]

    def writelines(self, lines: Any) -> None:
        """As a stream does."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Any:
        return iter(vars(self)["_stream"])

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_stream"], name)


def install(recorder: Recorder, reach: Reach) -> None:
    """Record what is printed and logged from here on."""
    evaluations = Evaluations(recorder, reach)
    evaluations.watch()
    lines: Any = Lines(sys.stdout, recorder, evaluations)
    sys.stdout = lines
    handle = logging.Logger.handle

    def logged(logger: logging.Logger, record: logging.LogRecord) -> None:
        stack = recorder.stack()
        if recorder.owns(record.pathname) and not logger.disabled:
            recorder.write("print", text=record.getMessage(), stack=stack, evaluation=evaluations.told())
        handle(logger, record)

    logging.Logger.handle = logged  # type: ignore[method-assign, assignment]
