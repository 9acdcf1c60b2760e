"""Which samplers deal a script's data out to its processes, and for which loaders?"""

from __future__ import annotations

import ast

from accelify.codemod.distributed.found import Distribution, Place
from accelify.codemod.libraries import names
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.loops import Data, Loops, Training


class Samplers:
    """Find the samplers, their loaders, and where they are told of a new epoch."""

    def __init__(self, place: Place, found: Distribution) -> None:
        self.place = place
        self.program = place.program
        self.found = found

    def add(self, call: ast.Call) -> None:
        """A sampler, with the loaders that it is for."""
        self.found.knows(call)
        self._named(call.func)
        given = {k.arg: k.value for k in call.keywords}
        shuffle = given.get("shuffle", call.args[3] if len(call.args) > 3 else ast.Constant(True))
        users = [n for n in self.program.flow.values if self._holds(n, call) and n is not call]
        branches = self.place.branches(call)
        is_always = all(branches <= self.place.branches(n) for n in users)
        if not isinstance(shuffle, ast.Constant) or (branches and not is_always):
            self.found.refuse(
                call, "how the data are shared out depends on a condition: use the sampler always, or never"
            )
            return
        statement = self.program.statement(call)
        if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
            self.found.remove(statement)
        elif not isinstance(self.program.parent(call), ast.keyword):
            self.found.refuse(call, "cannot tell which loader this sampler is for")
        for user in [call, *users]:
            self._user(user, bool(shuffle.value))

    def _named(self, function: ast.expr) -> None:
        """`make = DistributedSampler` goes where `make` is only called."""
        owner = self.program.scope(function).owner(function.id) if isinstance(function, ast.Name) else None
        if owner is None or not isinstance(function, ast.Name):
            return
        writes = [self.program.statement(w) for w in owner.writes_of(function.id)]
        reads = self.program.reads_of(owner, function.id)
        are_calls = all(isinstance(c := self.program.parent(r), ast.Call) and c.func is r for r in reads)
        if are_calls and all(isinstance(w, ast.Assign) and len(w.targets) == 1 for w in writes):
            for write in writes:
                self.found.remove(write)

    def _holds(self, node: ast.AST, sampler: ast.Call) -> bool:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return False
        return any(isinstance(v, Made) and v.node is sampler for v in self.program.values(node))

    def _user(self, node: ast.AST, shuffle: bool) -> None:
        parent = self.program.parent(node)
        loader = self.program.parent(parent) if isinstance(parent, ast.keyword) and parent.arg == "sampler" else None
        if isinstance(loader, ast.Call) and any(map(names.is_torch_loader, self.program.called(loader))):
            self.found.samplers[loader] = shuffle
            return
        is_told = isinstance(parent, ast.Attribute) and parent.attr == "set_epoch"
        is_asked = isinstance(parent, (ast.Compare, ast.Assign))
        if not is_told and not is_asked:
            self.found.refuse(node, "a sampler is used for more than one loader's `sampler=`")

    def uses(self) -> None:
        """`sampler.set_epoch(epoch)`: a loader that shuffles draws each epoch anew."""
        for node in self.place.nodes():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_epoch":
                if self.place.is_alone(node) and ast.unparse(node.func.value).endswith("sampler"):
                    self.found.remove(self.program.statement(node))
                else:
                    self.found.refuse(node, f"cannot tell what `{ast.unparse(node)}` is for")

    def data(self, loops: Loops, training: Training) -> list[Data]:
        """The loops over loaders whose sampler shared the data out: they must be prepared, to evaluate on too.

        Not those that also go over a loader without one, if training prepares what they share.
        """
        trained_on = {v for data in training.data for source in data.sources for v in loops.owners(source)}
        found = []
        for node in self.place.nodes():
            if isinstance(node, (ast.For, ast.AsyncFor)) and self.place.holds(node):
                owners = loops.owners(node.iter)
                dealt = {v for v in owners if isinstance(v, Made) and v.node in self.found.samplers}
                others = {v for v in owners if isinstance(v, Made)} - dealt
                if dealt and not (others and dealt <= trained_on):
                    found.append(Data("loaders", node, (node.iter,)))
        return found
