"""Which loaders are sharded by a sampler, and in which loop over epochs are they trained on?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.roles import Roles

Loop = ast.For | ast.AsyncFor


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sampler that shards data, with the loaders that use it and the loops over these."""

    sampler: ast.Call
    loaders: tuple[ast.Call, ...]
    loops: tuple[Loop, ...]
    shuffles: bool


class Loaders:
    """Find the samplers of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.iterables = Iterables(program, program.once(Roles), program.once(Tracer))

    @cached_property
    def sampled(self) -> tuple[Sampled, ...]:
        """Each call that makes a sampler which shards, in the order of the text."""
        made = [c for c in self.program.calls if any(map(names.is_distributed_sampler, self.program.called(c)))]
        return tuple(map(self._sampled, sorted(made, key=self.program.position)))

    def _sampled(self, sampler: ast.Call) -> Sampled:
        loaders = tuple(c for c in self.calls_of_loaders if self._uses(c, sampler))
        loops = tuple(loop for loop in self.loops_over_loaders if self.over(loop) & set(loaders))
        given = {k.arg: k.value for k in sampler.keywords}
        shuffle = given.get("shuffle", sampler.args[3] if len(sampler.args) > 3 else None)
        is_open = any(isinstance(a, ast.Starred) for a in sampler.args) or None in given
        shuffles = not is_open and (shuffle is None or (isinstance(shuffle, ast.Constant) and bool(shuffle.value)))
        return Sampled(sampler, loaders, loops, shuffles)

    @cached_property
    def calls_of_loaders(self) -> list[ast.Call]:
        """The calls that make a loader of torch's."""
        return [c for c in self.program.calls if any(map(names.is_torch_loader, self.program.called(c)))]

    def _uses(self, loader: ast.Call, sampler: ast.Call) -> bool:
        given = [k.value for k in loader.keywords if k.arg == "sampler"] + loader.args[3:4]
        return any(isinstance(v, Made) and v.node is sampler for g in given for v in self.program.values(g))

    @cached_property
    def loops_over_loaders(self) -> list[Loop]:
        """The loops whose items are batches."""
        nodes = (n for parsed in self.program.files for n in parsed.nodes)
        return [n for n in nodes if isinstance(n, (ast.For, ast.AsyncFor)) and self.over(n)]

    def over(self, loop: Loop) -> set[ast.AST]:
        """The calls whose loaders a loop iterates over."""
        made = {v.node for v in self.iterables.owners(loop.iter) if isinstance(v, Made)}
        return made.intersection(self.calls_of_loaders)

    def trains(self, loop: Loop) -> bool:
        """Whether a loop makes backward passes, itself or through what it calls."""
        return self._trains([n for s in loop.body for n in ast.walk(s)], depth=0)

    def _trains(self, nodes: list[ast.AST], depth: int) -> bool:
        for node in nodes:
            if isinstance(node, ast.Call):
                if method_of_call(node) == "backward":
                    return True
                for callee in self.program.flow.callees.get(node, ()) if depth < 4 else ():
                    if self._trains([n for s in callee.body for n in ast.walk(s)], depth + 1):
                        return True
        return False

    def epochs_round(self, loop: Loop) -> list[ast.For | ast.AsyncFor | ast.While]:
        """The loops that run a loop over batches again: those round it, or round the calls of its function."""
        found: list[ast.For | ast.AsyncFor | ast.While] = []
        queue: list[tuple[ast.AST, int]] = [(loop, 0)]
        while queue:
            node, depth = queue.pop()
            around = self.program.loops_round(node)
            found += around
            if not around and depth < 4:
                callers = self.program.flow.callers.get(self.program.frame(node), ())
                queue += [(call, depth + 1) for call in callers]
        return found
