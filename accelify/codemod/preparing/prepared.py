"""Which expressions of a script are prepared objects: loaders, the batches that they yield, models."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property, partial

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.preparing.batch_objects import Batch, Batches
from accelify.codemod.preparing.grouping import Group, Item
from accelify.codemod.preparing.handed_back import handed_back
from accelify.codemod.preparing.objects.preparation import Preparation
from accelify.codemod.semantics.call_conditions import Ways
from accelify.codemod.semantics.conditions import WORLDS
from accelify.codemod.semantics.effects.kinds import tells_about
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, code
from accelify.codemod.semantics.values import Collection, Constant, Element, Generated, Instance, Made, Value, View


class Prepared:
    """Tells what is prepared, wherever it has gone since."""

    def __init__(self, program: Program, tracer: Tracer, preparation: Preparation) -> None:
        self.program = program
        self.tracer = tracer
        self.preparation = preparation
        self._batches: dict[ast.expr, bool] = {}
        self._yielded = Batches(program)
        self._ways = Ways(program, tracer)

    # Loaders.

    @cached_property
    def loops(self) -> set[ast.AST]:
        """The loops over loaders that are prepared."""
        return {
            node
            for parsed in self.program.files
            for node in parsed.parents
            if isinstance(node, (ast.For, ast.AsyncFor))
            and self.program.values(node.iter)
            and self.is_loader(node.iter)
        }

    def is_loader(self, node: ast.expr) -> bool:
        """Whether an expression is always a prepared loader, or a view of one."""
        if isinstance(node, ast.Call) and "zip" in self.program.called(node):
            return bool(node.args) and all(self.is_loader(a) for a in node.args)
        found = [chain for chain in self._chains(node) if not chain[-1].is_none]
        chains = [c for chain in found for c in handed_back(self.program, self.tracer, chain)]
        is_bound = bool(chains) and all(
            any(self._is_binding(b) for b in chain) or self._is_at_key(node, chain) for chain in chains
        )
        return is_bound or self._is_prepared_where_made(node) or self._is_prepared_there(node)

    def _is_prepared_there(self, node: ast.expr) -> bool:
        """Whether a loader is prepared in the expression itself, for the loop alone that goes over it."""
        return any(self.tracer.inside(node) is n for kind, n in self.preparation.wrapped if kind == "loader")

    def _is_prepared_where_made(self, node: ast.expr) -> bool:
        """Whether all that an expression may be are passes over loaders that are prepared where they are made."""
        wrapped = {n for kind, n in self.preparation.wrapped if kind == "loader"}
        held = self.program.values(node) if wrapped else ()
        made = {n for v in held if not isinstance(v, Constant) for n in self._below(v)}
        return bool(made) and made <= wrapped

    def _below(self, value: Value, depth: int = 4) -> set[ast.AST | None]:
        """The calls that make the loaders over which an iterator goes; None for anything else."""
        if isinstance(value, View) and depth:
            inner = self.program.flow.view_source(value)
            below = (v for v in inner if not isinstance(v, Constant))  # `[None] * 2`, which loaders are put into
            return {n for v in below for n in self._below(v, depth - 1)} or {None}
        return {value.node if isinstance(value, Made) else None}

    def _chains(self, node: ast.expr) -> list[Chain]:
        """The ways back from an expression, through calls that may get as far as the expression."""
        found = self.tracer.chains(node)
        return [c for c in found if self._ways.is_open((node, *self.tracer.calls(c, node)), WORLDS)]

    def _is_at_key(self, node: ast.expr, chain: Chain) -> bool:
        """Whether an expression, or what it is given, is the one place of a container where a loader is prepared.

        `loaders["train"]`, `loaders[TRAIN]`, and `loader` of `def train(loader):`, which is called with that.
        """
        places = [self.tracer.inside(node), *(b.node for b in chain if b.kind == "item")]
        keys = [self._constant(p.slice) for p in places if isinstance(p, ast.Subscript)]
        return any(self.key_of(chain) == repr(key.value).replace("'", '"') for key in keys if key is not None)

    def _constant(self, key: ast.expr) -> ast.Constant | None:
        """The one constant that a key is, by whatever name; None where it may be another, or is not known."""
        ends = [key] if isinstance(key, ast.Constant) else [c[-1].value if c else None for c in self.tracer.chains(key)]
        known = [end for end in ends if isinstance(end, ast.Constant)]
        return known[0] if len(known) == len(ends) and len({repr(k.value) for k in known}) == 1 else None

    def _is_binding(self, binding: Binding) -> bool:
        if any(binding.node is node for kind, node in self.preparation.wrapped if kind == "loader"):
            return True
        for item in self.preparation.items:
            if item.kind != "loader" or item.frame is not binding.scope:
                continue
            if item.text.split("[")[0] == binding.text and self._is_one_of_its_branches(item, binding):
                return "[" not in item.text  # of a container, only one place is prepared
        return False

    def _is_one_of_its_branches(self, item: Item, binding: Binding) -> bool:
        """Whether a binding is the one that is prepared, or another branch's of the same condition."""
        if item.statement is None or item.statement is binding.statement:
            return True
        if binding.statement is None:
            return False
        here, there = (dict(self.program.branches_round(s)) for s in (item.statement, binding.statement))
        return any(there.get(condition, is_body) is not is_body for condition, is_body in here.items())

    def is_sharded_sequence(self, loop: ast.AST) -> bool:
        """Whether a loop iterates over data of the script's own, sharded by `accelerator.shard`."""
        return any(data.loop is loop for data, _ in self.preparation.sharded)

    def has_no_length(self, loop: ast.AST | None) -> bool:
        """Whether a sharded loop goes over a generator or iterator, whose incomplete last round is left out."""
        values = (v for data, of in self.preparation.sharded if data.loop is loop for v in self.program.values(of))
        return any(isinstance(value, Generated) or self._only_iterates(value) for value in values)

    def _only_iterates(self, value: Value) -> bool:
        """Whether this has neither a length nor items: a library's iterator, `chain(a, b)`, or an object of our own."""
        if isinstance(value, View) and isinstance(value.node, ast.Call):
            return any(map(names.gives_iterator, self.program.called(value.node)))
        method = partial(self.program.flow.method, value.cls) if isinstance(value, Instance) else None
        return method is not None and bool(method("__iter__")) and not (method("__len__") or method("__getitem__"))

    def key_of(self, chain: Chain) -> str | None:
        """The one key of a container of loaders under which the loader is prepared, as it is written there."""
        for binding in chain:
            items = [i for i in self.preparation.items if i.kind == "loader" and i.frame is binding.scope]
            keys = {k for name, _, k in (i.text.partition("[") for i in items) if k and name == binding.text}
            if keys:
                return keys.pop()[:-1] if len(keys) == 1 else None
        return None

    def is_loader_for_some(self, node: ast.expr) -> bool:
        """Whether an expression is a prepared loader for some callers."""
        chains = self._chains(node)
        return any(self._is_at_key(node, c) or any(self._is_binding(b) for b in c) for c in chains)

    def may_be_loader(self, node: ast.expr) -> bool:
        """Whether an expression is a prepared loader for some callers, at some keys, or in some rounds of a loop."""
        if self.is_loader_for_some(node) or self.program.values(node) & self._loaders:
            return True
        place = self.tracer.inside(node)
        is_open = isinstance(place, ast.Subscript) and not isinstance(place.slice, ast.Constant)
        return is_open and any(self.key_of(chain) is not None for chain in self.tracer.chains(node))

    @cached_property
    def _loaders(self) -> frozenset[Value]:
        """The loaders that are prepared under names of their own."""
        items = [(i, i.frame.owner(i.text)) for i in self.preparation.items if i.kind == "loader"]
        return frozenset(
            v for i, owner in items if owner is not None for v in self.program.flow.variable(owner, i.text)
        )

    # Batches.

    def is_batch(self, node: ast.expr, depth: int = 4) -> bool:
        """Whether an expression is always (a part of) a batch of a prepared loader, which brings it to the device."""
        if node not in self._batches:
            self._batches[node] = self._is_batch_now(node, depth)
        return self._batches[node]

    def may_be_left(self, node: ast.expr) -> bool:
        """Whether (a part of) a batch is maybe that of an object whose tensors no loader brings anywhere."""
        found = {self._yielded.of(v.owner) for v in self.program.values(node) if isinstance(v, Element)}
        return Batch.LEFT in found or (Batch.UNKNOWN in found and _is_in_an_object(node))

    def has_method(self, node: ast.expr, name: str) -> bool:
        """Whether a batch is maybe such an object, with a method of the script's own: `batch.cuda()`."""
        is_left = self.may_be_left(node)
        return is_left and any(self.program.flow.method(c, name) is not None for c in self._yielded.classes)

    def yields_objects(self, loader: ast.expr) -> bool:
        """Whether a loader yields objects of a class whose tensors no loader brings anywhere."""
        return any(self._yielded.of(v) is Batch.LEFT for v in self.program.values(loader))

    def _is_batch_now(self, node: ast.expr, depth: int) -> bool:
        values = self.program.values(node)
        if not depth or _is_no_tensor(node) or not any(isinstance(v, Element) for v in values):
            return False
        if self.may_be_left(node):
            return False
        root = self._root(node)
        if not all(isinstance(v, (Element, Collection, View)) for v in values) and not self._is_told_apart(root):
            return False
        parts = _parts(root)
        if parts is not None:
            return bool(parts) and all(self.is_batch(p, depth - 1) for p in parts)
        if isinstance(root, ast.Call):
            asked = self.program.iterator(root)
            return asked is not None and self.is_loader(asked)
        if not isinstance(root, ast.Name):
            return False
        owner = self.program.scope(root).owner(root.id)
        if owner is None:
            return False
        writes = self._reaching(owner, root)[0]
        return bool(writes) and all(self._is_batch_write(owner, w, depth) for w in writes)

    def _reaching(self, owner: Scope, read: ast.Name) -> tuple[list[ast.AST], bool]:
        """Where a name's value comes from, through `x = x.to(device)`; and whether that leaves places out."""
        writes = self.tracer.writes(owner, read.id)
        found: list[ast.AST] = []
        seen: set[ast.AST] = set()
        queue = [read]
        while queue:
            for write in self.program.reaching(queue.pop(), writes):
                if write not in seen:
                    seen.add(write)
                    kept = self._made_from(write)
                    queue.extend(kept)
                    found += [] if kept else [write]
        return found, len(seen) < len(writes)

    def _made_from(self, write: ast.AST) -> list[ast.Name]:
        """The reads of a variable that gets a part or another form of what it held: `x = x.to(device)`."""
        if not isinstance(write, ast.Name):
            return []
        value, parent = self.tracer.assigned(write), self.program.parent(write)
        if value is None and isinstance(parent, (ast.Tuple, ast.List)):
            outer = self.program.parent(parent)
            value = outer.value if isinstance(outer, ast.Assign) else None
        return self._reads_in(value, write.id) if value is not None else []

    def _reads_in(self, value: ast.expr, name: str) -> list[ast.Name]:
        """The reads of a variable of which an expression is a part, another form, or a container; none if of others."""
        if _is_no_tensor(value):
            return []
        root = self._root(value)
        if isinstance(root, ast.Name):
            return [root] if root.id == name else []
        parts = [self._reads_in(p, name) for p in _parts(root) or ()]
        return [read for part in parts for read in part] if all(parts) else []

    def _is_told_apart(self, node: ast.expr) -> bool:
        """Whether it is known from which place a name got its value: from one of several, or from a prepared loader."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if owner is None or not isinstance(node, ast.Name):
            return False
        writes, leaves_out = self._reaching(owner, node)
        bound = (self.program.binding(w)[1] if isinstance(w, ast.Name) else None for w in writes)
        return leaves_out or all(statement in self.loops for statement in bound)

    def _root(self, node: ast.expr) -> ast.expr:
        while True:
            if isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            elif brings_to_cpu(node) or self.program.iterator(node) is not None:
                return node
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                node = node.func.value
            elif isinstance(node, ast.Call) and node.args and any("Variable" in n for n in self.program.called(node)):
                node = node.args[0]
            else:
                return node

    def _is_batch_write(self, owner: Scope, write: ast.AST, depth: int) -> bool:
        if isinstance(write, ast.arg) and owner.kind == "lambda":
            call = self.program.parent(owner.node)
            is_mapped = isinstance(call, ast.Call) and "map" in self.program.called(call) and len(call.args) == 2
            return is_mapped and self.is_batch(call.args[1], depth - 1)  # type: ignore[union-attr]  # checked above
        if isinstance(write, ast.arg):
            arguments = [
                self.tracer.argument(c, owner, write.arg)
                for c in self.program.flow.callers.get(owner, ())
                if self.program.frame(c) in self.program.reachable
            ]
            return bool(arguments) and all(a is not None and self.is_batch(a, depth - 1) for a in arguments)
        if not isinstance(write, ast.Name):
            return False
        _, parent = self.program.binding(write)
        if isinstance(parent, ast.comprehension):
            return self.is_batch(parent.iter, depth - 1) or self.is_loader(parent.iter)
        if isinstance(parent, (ast.For, ast.AsyncFor)):
            return parent in self.loops or self.is_batch(parent.iter, depth - 1)
        value = self.tracer.assigned(write)
        if value is None and isinstance(parent, ast.Assign):
            value = parent.value
        if value is None:
            return False
        return self.is_batch(value, depth - 1)

    # Models.

    def is_model(self, node: ast.expr) -> bool:
        """Whether an expression names a prepared model, or makes one that gets such a name."""
        names = self._model_names.get(self.program.frame(node))
        if not names or self.is_another_model(node):
            return False
        if not isinstance(node, ast.Call) and code(node) in names:  # a call may be a chain of thousands
            return True
        values = self.program.values(node)
        if not values or not values <= self.preparation.models:
            return False
        statement = self.program.statement(node)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return ast.unparse(statement.targets[0]) in names
        return False

    def is_another_model(self, node: ast.expr, depth: int = 3) -> bool:
        """Whether a prepared model's name holds a new model where it is read, which stays where it is made."""
        if isinstance(node, ast.Attribute):
            return any(self.program.control_flow(node).dominates(write, node) for write in self._made_anew(node))
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) and depth else None
        if owner is None or not isinstance(node, ast.Name) or not self._other_models:
            return False
        writes = self.program.reaching(node, self.tracer.writes(owner, node.id))
        return bool(writes) and all(self._gives_another(owner, write, depth) for write in writes)

    def _made_anew(self, node: ast.Attribute) -> Iterator[ast.Attribute]:
        """Where a function that prepares none gives an object a new model, and moves none: `self.net = Net()`."""
        frame = self.program.frame(node)
        own = [w for w in self.program.attribute_writes.get(node.attr, ()) if self.program.frame(w) is frame]
        if not own:
            return
        text = ast.unparse(node)
        items = [i for i in self.preparation.items if i.kind == "model" and i.text == text]
        others = [i for i in items if i.frame is not frame and i.frame.parent is frame.parent]
        is_prepared = len(others) != len(items) or not others
        if is_prepared or not all(ast.unparse(w) == text and self._is_made_there(w) for w in own):
            return
        reads = (n for n in ast.walk(frame.node) if isinstance(n, ast.Attribute) and ast.unparse(n) == text)
        if not any(isinstance(n.ctx, ast.Load) and self.may_move(n) for n in reads):
            yield from own

    def left_to_others(self) -> Iterator[ast.Attribute]:
        """Where a function gives an object a new model that only other functions run: `self.net = Net()` of `load`."""
        texts = {i.text for i in self.preparation.items if i.kind == "model"}
        for write in (w for t in texts for w in self.program.attribute_writes.get(t.rpartition(".")[2], ())):
            calls = self.program.calls_in(self.program.frame(write))
            is_run = any(ast.unparse(c.func) == ast.unparse(write) for c in calls)
            if isinstance(write, ast.Attribute) and not is_run and any(self._made_anew(write)):
                yield write

    def _gives_another(self, owner: Scope, write: ast.AST, depth: int) -> bool:
        if not isinstance(write, ast.arg):
            return write in self._other_models
        given = [self.tracer.argument(call, owner, write.arg) for call in self.program.calls_of(owner)]
        return bool(given) and all(g is not None and self.is_another_model(g, depth - 1) for g in given)

    @cached_property
    def _other_models(self) -> frozenset[ast.AST]:
        """Where prepared models' names get new ones, which no preparation finds there, and which nothing moves."""
        bare = {(item.frame, item.text) for item in self.preparation.bare_models}
        items = {(i.frame, i.text) for i in self.preparation.items if i.kind == "model"} - bare
        found: set[ast.AST] = set()
        for frame, text in items:
            writes, reads = self.tracer.writes(frame, text), self.program.reads_of(frame, text)
            groups = [g for g in self.preparation.groups if g.frame is frame and text in {i.text for i in g.items}]
            at = [[r for r in reads if g.anchor and self.program.inside(r, g.anchor)] for g in groups]
            prepared = {w for each in at for read in each for w in self.program.reaching(read, writes)}
            for write in writes if len(writes) > 1 and all(at) else ():
                if write not in prepared and self._is_made_there(write):
                    held = [read for read in reads if write in self.program.reaching(read, writes)]
                    found |= set() if any(map(self.may_move, held)) else {write}
        return frozenset(found)

    def _is_made_there(self, write: ast.AST) -> bool:
        """Whether a name gets a model that a call makes, and out of no other model: `net = Net()`."""
        value = self.tracer.assigned(write) if isinstance(write, (ast.Name, ast.Attribute)) else None
        if not isinstance(value, ast.Call):
            return False
        parts = [*value.args, *(k.value for k in value.keywords)]
        parts += [value.func.value] if isinstance(value.func, ast.Attribute) else []
        made = self.program.values(value)
        is_made = bool(made) and all(map(self._is_module, made))
        return is_made and not any(self._is_module(v) for part in parts for v in self.program.values(part))

    def _is_module(self, value: Value) -> bool:
        if isinstance(value, Instance):
            return self.program.flow.is_module_class(value.cls)
        return isinstance(value, Made) and names.is_module(value.name)

    @cached_property
    def _model_names(self) -> dict[Scope, set[str]]:
        """The names of the prepared models in each function that has them."""
        found: dict[Scope, set[str]] = {}
        for item in (*self.preparation.items, *self.preparation.bare_models):
            if item.kind == "model":
                found.setdefault(item.frame, set()).add(item.text)
        return found

    def prepares_too(self, node: ast.AST, text: str) -> Group | None:
        """The group that prepares `text` after a node, or before it with nothing that moves it between."""
        frame = self.program.frame(node)
        for group in self.preparation.groups:
            if group.frame is frame and group.anchor is not None and any(i.text == text for i in group.items):
                is_later = self.program.is_after(node, group.anchor)
                return None if is_later and self._is_moved_between(group.anchor, node, text) else group
        return None

    def _is_moved_between(self, anchor: ast.stmt, node: ast.AST, text: str) -> bool:
        """Whether something that may bring a model to another device runs after a statement and before a node."""
        frame, own = self.program.frame(node), self.program.statement(node)
        for read in self.program.flow.values:
            if not isinstance(read, (ast.Name, ast.Attribute)) or ast.unparse(read) != text:
                continue
            is_other = self.program.frame(read) is frame and not self.program.inside(read, own)
            is_between = is_other and self.program.reaches(anchor, read) and self.program.reaches(read, node)
            if is_between and self.may_move(read):
                return True
        return False

    def _may_be_moved_by(self, call: ast.Call, model: ast.expr, depth: int) -> bool:
        """Whether a function that is given a model may bring it to another device."""
        rows = [table.function(name) for name in self.program.called(call)]
        if rows and all(row is not None and not row.mutates for row in rows):
            return False
        callees = self.program.flow.callees.get(call, set())
        taking = [(c, p.arg) for c in callees for p in c.parameters if self.tracer.argument(call, c, p.arg) is model]
        known = len(taking) == len(callees) > 0
        reads = [read for callee, name in taking for read in self.program.reads_of(callee, name)]
        return not known or any(self.may_move(read, depth) for read in reads)

    def may_move(self, model: ast.expr, depth: int = 3) -> bool:
        """Whether what is done with a model may bring it to another device."""
        user = self.program.parent(model)
        while isinstance(user, (ast.Subscript, ast.keyword)):
            user = self.program.parent(user)
        if isinstance(user, ast.Call) and user.func is model:
            return False
        if not isinstance(user, ast.Attribute):
            return not depth or not isinstance(user, ast.Call) or self._may_be_moved_by(user, model, depth - 1)
        row, call = table.member("module", user.attr), self.program.parent(user)
        is_own = isinstance(call, ast.Call) and bool(self.program.flow.callees.get(call))
        return is_own if row is None else row.device is not None


def _is_in_an_object(node: ast.expr) -> bool:
    """Whether a part is taken out by an attribute that no tensor has: `batch.text`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            node = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else node.func
        elif isinstance(node, ast.Attribute) and not methods.is_attribute(node.attr):
            return True
        else:
            node = node.value
    return False


def brings_to_cpu(node: ast.expr) -> bool:
    """`x.cpu()`, `x.to("cpu")`, `x.type(torch.FloatTensor)`: what was on the device is there no more."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr not in ("to", "type"):
        return node.func.attr == "cpu"
    told = ast.unparse(node.args[0]) if len(node.args) == 1 else ""
    if node.func.attr == "to":
        return told in ("'cpu'", "torch.device('cpu')")
    kind = told.strip("'")
    return kind.startswith("torch.") and kind.endswith("Tensor") and "cuda" not in kind


def _is_no_tensor(node: ast.expr) -> bool:
    """`x.size(0)`, `x.numpy().copy()`: what a tensor says of itself, or became."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if tells_about(node) or (isinstance(node, ast.Attribute) and methods.gives_no_tensor(node.attr)):
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """The parts that a container is made from; None for any other node."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return list(node.elts)
    if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
        return [node.generators[0].iter]
    if isinstance(node, ast.Dict):
        return list(node.values)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and names.is_copy(node.func.id)
        and len(node.args) == 1
    ):
        return list(node.args)
    return None
