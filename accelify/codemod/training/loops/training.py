"""The training code of a program: its backward passes and steps, the loops round them, and what these learn from."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accelify.codemod.semantics.call_conditions import Way
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.made_anew import Nested
from accelify.codemod.training.phases import Phase


@dataclass(frozen=True)
class Data:
    """The data that one training loop learns from.

    kind: `loaders`; `sequence`, a loop over indices, slices or items of the script's own; `random`, drawn anew in each
    step; `pass`, asked for batch by batch from one pass over all data, in an order drawn before; `given`, passed by
    callers that are not known; `full`, the same data in every step, or on all processes. sources: the loaders, the
    sequence, the pass; for `full`, iterators of libraries that are not known. state: what a model hands on from one
    batch to the next, which has to be the one that follows. taken_by: what decides about steps by what rows hold.
    """

    kind: str
    loop: Loop | None = None
    sources: tuple[ast.expr, ...] = ()
    state: ast.expr | None = None
    taken_by: ast.AST | None = None

    @property
    def sharded_loop(self) -> Loop | None:
        """The loop each of whose rounds learns from other data, where the script has one."""
        return self.loop if self.kind in ("loaders", "sequence") else None


@dataclass(frozen=True, slots=True)
class Training:
    """The training code of a program.

    backwards, steps: the calls. loops: those round each backward pass, through callers, from the inside out. data: what
    they learn from. frames: the functions on the way to the backward passes. ways: the ways on from each of them, with
    what depends on its parameters. phases: the loops that do more than train, with what tells when they do. nested: the
    backward passes that train something for one batch alone; those within another training are not among `backwards`.
    for_inputs: the passes for the gradients of tensors of a batch, with these, or of layers, which hooks take, or
    outside of all loops for those of tensors that the script makes itself; not among `backwards` either, unless there
    are no others.
    """

    backwards: tuple[ast.Call, ...]
    steps: tuple[ast.Call, ...]
    loops: Mapping[ast.Call, tuple[Loop, ...]]
    data: tuple[Data, ...]
    frames: frozenset[Scope]
    ways: Mapping[Scope, frozenset[Way]]
    phases: Mapping[ast.AST, Phase] = field(default_factory=dict)
    nested: tuple[Nested, ...] = ()
    for_inputs: Mapping[ast.Call, tuple[ast.expr, ...]] = field(default_factory=dict)

    @property
    def rounds(self) -> frozenset[Loop]:
        """The loops over data."""
        return frozenset(d.loop for d in self.data if d.loop is not None)

    def left_whole(self, loops: Mapping[Loop, ast.AST]) -> Training:
        """With loops none of which is sharded, each with the condition that ranks would come to apart."""
        given = ((d, loops.get(d.loop) if d.loop is not None else None) for d in self.data)
        data = (d if test is None else Data("full", d.loop, taken_by=test) for d, test in given)
        return replace(self, data=tuple(dict.fromkeys(data)))
