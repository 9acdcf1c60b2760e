"""The loaders below generators: `prepare` refuses a generator, so that what it takes its batches from is prepared."""

from __future__ import annotations

import ast

from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.optimizer_models import is_plain
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Generated
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.roles import Roles

UNKNOWN_LOADER = "these batches come from a generator, and cannot tell from which loader it takes them"


class Generators:
    """Find what generator functions of the script take their batches from."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, bindings: Bindings) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.bindings = bindings

    def is_made_by(self, binding: Binding) -> bool:
        """Whether a name is given what a call of a generator function gives, which `prepare` refuses."""
        value = binding.node if binding.kind == "inline" else binding.value
        callees = self.program.flow.callees.get(value, ()) if isinstance(value, ast.Call) else ()
        return bool(callees) and all(c.generates for c in callees)

    def loaders_inside(self, source: ast.expr) -> list[ast.expr]:
        """The loaders that generator functions build themselves or are given, and whose batches a source yields.

        Prepared where they are built: a generator is no loader, and what it yields is not for `prepare` to move.
        """
        iterables = Iterables(self.program, self.roles, self.tracer)
        found = [(g.scope, list(iterables.yielded_from(g.scope))) for g in iterables.generators(source)]
        if not all(listed for _, listed in found):
            return []
        return [given for scope, listed in found for loader in listed for given in self._given(scope, loader, source)]

    def is_of_a_loader(self, way: Chain) -> bool:
        """Whether a source is, by one of the ways back from it, a loader or an iterator over one, and no generator."""
        held = [self.program.values(n) for n in map(self.bindings.named, way) if n is not None and not is_plain(n)]
        made = {v for values in held for v in values}
        return any(map(self.roles.is_loader, made)) and not any(isinstance(v, Generated) for v in made)

    def _given(self, generator: Scope, loader: ast.expr, source: ast.expr) -> list[ast.expr]:
        """The arguments that a source's calls pass to a generator for a loader; else the loader itself."""
        name = self.tracer.inside(loader)
        if not isinstance(name, ast.Name) or not any(p.arg == name.id for p in generator.parameters):
            return [loader]
        calls: list[ast.Call] = []
        for way in self.tracer.chains(source):
            named = [n for n in (self.tracer.inside(source), *map(self.bindings.named, way)) if n is not None]
            made = [c for n in named for c in self._calls_of(generator, n)]
            others = [n for n in named if not is_plain(n) and Generated(generator) not in self.program.values(n)]
            if not made and not others and not way[-1].is_none:
                return [loader]  # from any of the generator's callers
            calls += [c for c in made if c not in calls]
        given = [self.tracer.argument(c, generator, name.id) for c in calls]
        known = [g for g in given if g is not None]
        return known if known and len(known) == len(given) else [loader]

    def _calls_of(self, generator: Scope, node: ast.expr, seen: tuple[Scope, ...] = ()) -> list[ast.Call]:
        """The calls of a generator function that make what an expression is, also inside the functions it calls."""
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return [c for part in parts for c in self._calls_of(generator, part, seen)]
        callees = self.program.flow.callees.get(node, ()) if isinstance(node, ast.Call) else ()
        if generator in callees:
            assert isinstance(node, ast.Call)
            return [node]
        makers = [c for c in callees if c not in seen and not c.generates]
        inner = [r for r in returned(makers) if r is not None and Generated(generator) in self.program.values(r)]
        named = [n for r in inner for n in (r, *(b.value for way in self.tracer.chains(r) for b in way))]
        return [c for n in named if n is not None for c in self._calls_of(generator, n, (*seen, *makers))]
