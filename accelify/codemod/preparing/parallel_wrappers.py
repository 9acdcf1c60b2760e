"""Which calls wrap a model for several GPUs, by the library's classes or by plain ones of the project's own?"""

from __future__ import annotations

import ast
from collections.abc import Set

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import wrapped_by
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Value


class Wrappers:
    """Find them in the changed files, and in what builds the models that are prepared."""

    def __init__(self, program: Program, files: Set[str], run: Set[Scope], models: Set[Value]) -> None:
        self.program = program
        self.files = files
        self.run = run
        self.models = models

    def find(self) -> list[ast.Call]:
        """All of them."""
        return [
            call
            for call in self.program.calls
            if wrapped_by(call) is not None
            and (self.program.path(call) in self.files or self._wraps_what_trains(call))
            and (any(names.is_wrapper(n) for n in self.program.called(call)) or self._makes_a_plain_wrapper(call))
        ]

    def _wraps_what_trains(self, call: ast.Call) -> bool:
        """Whether the training code gets to a call that wraps one of its models."""
        if self.program.frame(call) not in self.run:
            return False
        return bool(self.program.values(wrapped_by(call)) & self.models)

    def _makes_a_plain_wrapper(self, call: ast.Call) -> bool:
        """Whether a call makes a wrapper of the project's own that only hands on the attributes of what it wraps."""
        classes = [v.cls for v in self.program.values(call) if isinstance(v, Instance)]
        for cls in classes:
            own = {f.name for f in cls.walk() if f.is_method and f.parent is cls}
            bases = self.program.flow.external_bases(cls)
            if not any(map(names.is_wrapper, bases)) or not own <= {"__init__", "__getattr__"}:
                return False
        return bool(classes)
