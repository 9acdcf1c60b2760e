"""Where do the tensors of an expression live: in the host's memory, on the accelerator's device, on another GPU?

Two answers at once, for a machine with a GPU: `where`, once the script is rewritten, and `was`, in the plain script.
What meets at an operation must be on one device in both; where it is so only in the plain script, the rewrite errs.

Sources: factories (`device=`, else the host's memory), moves, batches of prepared loaders, prepared models and what
they compute, NumPy. What a library's call makes of its arguments is said by the table of libraries. Names are followed
through the bindings that reach them, apart from those that do not run on a GPU; functions by what they return of their
arguments; attributes and containers by all that is ever put into them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from accelify.codemod.devices.destinations import Destination, Destinations, Named, Where, is_where_another_is
from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import Device
from accelify.codemod.preparing.prepared import brings_to_cpu
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.contents import Kept
from accelify.codemod.semantics.effects.kinds import Kinds, tells_about
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, gone_over, names_in, returned
from accelify.codemod.semantics.values import External, Instance, Made, ModuleValue, Parameters
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lives.

    origin: what put it there: the call that makes or moves it, the name that gets (a part of) a batch, the parameter.
    """

    where: Where
    was: Where
    origin: ast.AST | None = None
    is_batch: bool = False  # of a prepared loader, which brings it to the device
    is_named: bool = False  # the parameter says the device that the tensor is on, and is no tensor itself


Places = frozenset[Place]  # of all tensors that an expression may hold; empty: it holds none
NONE: Places = frozenset()
UNKNOWN: Places = frozenset({Place(Where.UNKNOWN, Where.UNKNOWN)})
BATCH: Places = frozenset({Place(Where.ACCELERATOR, Where.HOST, is_batch=True)})
_MOST = 20_000  # expressions that are looked at for one question, half as many after each that they did not answer
_DEPTH = 60
_NO_TENSORS = (names.is_module, names.is_loader, names.is_optimizer, names.is_scheduler, names.is_parser)


class Lattice:
    """Follow expressions back to what put their tensors where they are.

    plain: where the models that are prepared may have been in the plain script; named: where those were that some
    names mean, if that differs. holds: what a condition comes to on a machine with a GPU. replaced: the expressions
    that the accelerator's device takes the place of. is_early: whether a call runs a model where the model was made.
    """

    def __init__(
        self,
        program: Program,
        roles: Roles,
        tracer: Tracer,
        tensors: Tensors,
        *,
        plain: Collection[Where] = (Where.HOST,),
        named: Mapping[ast.expr, Collection[Where]] = MappingProxyType({}),
        holds: Callable[[ast.expr], bool | None] = lambda test: None,
        replaced: Iterable[ast.expr] = (),
        is_early: Callable[[ast.Call], bool] = lambda call: False,
    ) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.prepared = tensors.prepared
        self.tensors = tensors
        self.holds = holds
        self.is_early = is_early
        self.kept = program.once(Kept)
        self.is_plain_host = Where.ACCELERATOR not in plain
        self.named = named
        self.of_models = _on_accelerator({*plain, *(each for places in named.values() for each in places)})
        self.devices = Destinations(program, roles, tracer, set(replaced), holds, self._as_destinations)
        self._known: dict[ast.AST, Places] = {}
        self._resolved: dict[ast.AST, Places] = {}
        self._filled: dict[tuple[ast.arg, bool], Places] = {}
        self._open: list[ast.AST] = []
        self._gone_over: list[Scope] = []
        self._unpacked: set[tuple[ast.expr, tuple[int, ...]]] = set()  # calls whose results are just taken apart
        self._cut: set[object] = set()
        self._asked = 0
        self._most = _MOST

    # Questions.

    def of_model(self, model: ast.expr) -> Places:
        """The weights of a prepared model, or of a part of one, by the expression that means it."""
        while isinstance(model, ast.Attribute) and model not in self.named:
            model = model.value
        return _on_accelerator(self.named[model]) if model in self.named else self.of_models

    def of(self, node: ast.expr | None) -> Places:
        """The tensors of an expression, whoever calls its function."""
        if node is None:
            return NONE
        if node not in self._resolved:
            self._resolved[node] = self.resolved(self.symbolic(node))
        return self._resolved[node]

    def is_of_batches(self, node: ast.expr) -> bool:
        """Whether an expression is nothing but what prepared loaders bring to the device."""
        places = self.of(node)
        return bool(places) and all(p.is_batch and p.where is Where.ACCELERATOR for p in places)

    def at(self, node: ast.expr, calls: Sequence[ast.Call]) -> Places:
        """The tensors of an expression, its function entered through some calls, the innermost last."""
        return self.resolved(self.symbolic(node), calls)

    def resolved(self, places: Places, calls: Sequence[ast.Call] = (), depth: int = 6) -> Places:
        """Some places with those of arguments filled in, by some calls or by any."""
        found: set[Place] = set()
        for place in places:
            filled = self._filled_in(place, calls, depth) if place.where is Where.GIVEN else {place}
            found |= {replace(p, is_batch=True) for p in filled} if place.is_batch else filled
        return frozenset(found)

    def _filled_in(self, place: Place, calls: Sequence[ast.Call], depth: int) -> Places:
        assert isinstance(place.origin, ast.arg)
        key = (place.origin, place.is_named) if not calls else None
        if key is not None and key in self._filled:
            return self._filled[key]
        if key is not None:
            self._filled[key] = NONE  # of its own value, an argument adds nothing
        found = self._given_to(place.origin, calls, depth, is_named=place.is_named)
        if key is not None:
            self._filled[key] = found
        return found

    def _given_to(self, parameter: ast.arg, calls: Sequence[ast.Call], depth: int, *, is_named: bool) -> Places:
        """The places of a parameter, for some calls or for any."""
        owner = self.program.scope(parameter)
        entered = [c for c in calls[-1:] if owner in self.program.flow.callees.get(c, ())]
        if owner.kind == "lambda" or not depth:
            return UNKNOWN
        found: set[Place] = set()
        for call in entered or self.calls_of(owner):
            given = self.tracer.argument(call, owner, parameter.arg) or owner.defaults.get(parameter.arg)
            if given is None:
                return UNKNOWN
            outer = calls[:-1] if entered else ()
            if is_named:
                found |= self.resolved(self._on(self.devices.of(given), None), outer, depth - 1)
                continue
            known = self._resolved.get(given) if not outer else None
            found |= known if known is not None else self.resolved(self.symbolic(given), outer, depth - 1)
        return frozenset(found) or (UNKNOWN if not self.program.calls_of(owner) else NONE)

    def calls_of(self, function: Scope) -> list[ast.Call]:
        """The calls of a function, but for those of models that are not on the device yet: all is where they are."""
        return [c for c in self.program.calls_of(function) if not self.is_early(c)]

    def on_device(self, nodes: Iterable[ast.expr]) -> list[ast.expr]:
        """The expressions that may have tensors on the device."""
        return [n for n in nodes if any(p.where is Where.ACCELERATOR for p in self.of(n))]

    def symbolic(self, node: ast.expr | None) -> Places:
        """The tensors of an expression, in terms of what its function is given."""
        if node is None:
            return NONE
        if not self._open:
            self._most -= self._most // 2 * (self._asked > self._most)
            self._asked = 0
        self._asked += 1
        if node in self._known:
            return self._known[node]
        if node in self._open:
            self._cut.add(node)
            return NONE
        if len(self._open) > _DEPTH or self._asked > self._most:
            return UNKNOWN
        self._open.append(node)
        found = self._of(node)
        self._open.pop()
        self._cut.discard(node)
        if not self._cut:
            self._known[node] = found
        return found

    def _all(self, nodes: Iterable[ast.expr | None]) -> Places:
        return frozenset(p for n in nodes for p in self.symbolic(n))

    def _or_unknown(self, found: Places) -> Places:
        """The places that were found, or unknown where only a loop that builds on its last value hides them."""
        return found if found or self._cut else UNKNOWN

    def _as_destinations(self, node: ast.expr) -> Iterable[Destination]:
        """Where the tensors of `node` are, for `node.device`."""
        if any(map(self.roles.is_module, self.program.values(node))) and self.tensors.is_model(node):
            return [Destination(p.where, p.was) for p in self.of_model(node)]
        return [
            Destination(p.where, p.was, p.origin if isinstance(p.origin, ast.arg) else None)
            for p in self.symbolic(node)
        ]

    # Expressions.

    def _of(self, node: ast.expr) -> Places:
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Lambda)) or tells_about(node) or self.is_text(node):
            return NONE
        found = self._structural(node)
        if self.prepared.is_batch(node):
            return self._as_batch(found)
        return (
            self._as_left(found, node) if isinstance(node, ast.Attribute) and self.prepared.may_be_left(node) else found
        )

    def is_text(self, node: ast.expr) -> bool:
        """`"loss %.3f" % loss`, `"loss {}".format(loss)`"""
        text = node.left if isinstance(node, ast.BinOp) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            text = node.func.value
        return text is not None and self.program.once(Kinds).of(text) == {"string"}

    @staticmethod
    def _as_left(found: Places, node: ast.Attribute) -> Places:
        """The places of a tensor in an object of a batch, which may be left where it is."""
        return found | {Place(Where.HOST, Where.HOST, node)} if any(p.is_batch for p in found) else found

    def _as_batch(self, found: Places) -> Places:
        """The places of (a part of) a batch, of which it is known that a prepared loader yields it."""
        kept = {p for p in found if p.where in (Where.ACCELERATOR, Where.GIVEN)}
        was = {Where.HOST if p.was is Where.UNKNOWN else p.was for p in found - kept}
        kept = {replace(p, is_batch=True) if p.where is Where.GIVEN and not p.is_named else p for p in kept}
        return frozenset(kept | {Place(Where.ACCELERATOR, w, is_batch=True) for w in was}) or BATCH

    def _structural(self, node: ast.expr) -> Places:
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._item(node)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self.symbolic(node.elt)
        if isinstance(node, ast.DictComp):
            return self.symbolic(node.value)
        if isinstance(node, ast.IfExp):
            return self._all(self._chosen(node))
        if isinstance(node, ast.Dict):
            return self._all(node.values)
        if isinstance(node, ast.BinOp):
            return _mixed([self.symbolic(node.left), self.symbolic(node.right)])
        if isinstance(node, ast.Compare):
            return _mixed([self.symbolic(n) for n in (node.left, *node.comparators)])
        return self._all(n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))

    def _chosen(self, node: ast.IfExp) -> list[ast.expr]:
        """The branches of a choice that may be taken on a machine with a GPU."""
        held = self.holds(node.test)
        return [node.body] * (held is not False) + [node.orelse] * (held is not True)

    # Names.

    def _name(self, node: ast.Name) -> Places:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return NONE if hasattr(builtins, node.id) else UNKNOWN
        writes = self._reaching(node, owner)
        found = NONE if any(map(self._makes_one, writes)) else self._all(self.kept.in_name(owner, node.id))
        for write in writes:
            found |= self._written(owner, write)
        return found

    def _makes_one(self, write: ast.AST) -> bool:
        """Whether a binding gives a name a new tensor, into which values are copied: `x = torch.zeros(3)`."""
        value = self.tracer.assigned(write) if isinstance(write, ast.Name) else None
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not self.program.called(value):
            value = value.func.value
        return isinstance(value, ast.Call) and self.tensors.is_creator(value)

    def _reaching(self, node: ast.Name, owner: Scope) -> list[ast.AST]:
        """The bindings that a name may have its value from on a machine with a GPU."""
        writes = self.program.reaching(node, self.tracer.writes(owner, node.id))
        running = [w for w in writes if not self._does_not_run(w)]
        hidden: set[ast.AST] = set()
        for write in running:
            branching = self._taken_branch(write)
            if branching is not None and not self.program.inside(node, branching):
                hidden.update(w for w in running if self._is_above(w, branching))
        return [w for w in running if w not in hidden]

    def _is_above(self, write: ast.AST, branching: ast.AST) -> bool:
        """Whether a binding comes before an `if`, and not again after it."""
        if isinstance(write, ast.arg) or self.program.inside(write, branching):
            return isinstance(write, ast.arg)
        flow = self.program.control_flow(branching)
        return flow.before(write, branching) and not flow.before(branching, write)

    def _does_not_run(self, node: ast.AST) -> bool:
        """Whether a binding is in a branch that does not run on a machine with a GPU."""
        if isinstance(node, ast.arg):
            return False
        said = ((self.holds(b.test), is_body) for b, is_body in self.program.branches_round(node))
        if any(held is not None and held is not is_body for held, is_body in said):
            return True
        statement = self.program.statement(node)
        return isinstance(statement, ast.Return) and any(map(self._leaves, self._above_in_blocks(statement)))

    def _above_in_blocks(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements above a statement in its block, and in the blocks of its function that hold that."""
        while not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            block = self.program.block(statement)
            yield from block[: block.index(statement)]
            parent = self.program.parent(statement)
            if not isinstance(parent, ast.stmt):
                return
            statement = parent

    def _leaves(self, statement: ast.stmt) -> bool:
        """`if torch.cuda.is_available(): return x.cuda()`"""
        held = self.holds(statement.test) if isinstance(statement, ast.If) else None
        if not isinstance(statement, ast.If) or held is None:
            return False
        block = statement.body if held else statement.orelse
        return bool(block) and isinstance(block[-1], (ast.Return, ast.Raise))

    def _taken_branch(self, write: ast.AST) -> ast.AST | None:
        """The outermost `if` that a binding always runs under: `if torch.cuda.is_available(): x = x.cuda()`."""
        if isinstance(write, ast.arg):
            return None
        statement = self.program.statement(write)
        found: ast.AST | None = None
        for branching, is_body in self.program.branches_round(write):
            if not isinstance(branching, ast.If) or self.holds(branching.test) is None:
                break
            if statement not in (branching.body if is_body else branching.orelse):
                break
            found = statement = branching
        return found

    def before(self, statement: ast.AugAssign) -> Places:
        """The places of the target of `total += x` until then."""
        target = statement.target
        if not isinstance(target, ast.Name):
            return self.of(target)
        owner = self.program.scope(target).owner(target.id)
        if owner is None:
            return NONE
        writes = self.program.reaching(target, self.tracer.writes(owner, target.id))
        running = [w for w in writes if w is not target and not self._does_not_run(w)]
        return frozenset(place for write in running for place in self.written(owner, write))

    def written(self, owner: Scope, write: ast.AST) -> Places:
        """The places that a binding gives a name, whoever calls its function."""
        return self.resolved(self._written(owner, write))

    def _written(self, owner: Scope, write: ast.AST) -> Places:
        if isinstance(write, ast.arg):
            return self._parameter(owner, write)
        if isinstance(write, ast.alias):
            return self._imported(write)
        if not isinstance(write, ast.Name):
            return NONE
        path, holder = self.program.binding(write)
        if isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)):
            return self._element(holder.iter, path, write)
        if isinstance(holder, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            return self._part(holder.value, path, write)
        return NONE

    def _parameter(self, owner: Scope, parameter: ast.arg) -> Places:
        if owner.is_method and owner.parameters and parameter is owner.parameters[0]:
            return NONE
        if owner.kind == "lambda":
            call = self.program.parent(owner.node)
            is_mapped = isinstance(call, ast.Call) and "map" in self.program.called(call) and len(call.args) == 2
            return self.symbolic(call.args[1]) if is_mapped else UNKNOWN  # type: ignore[union-attr]  # checked
        return frozenset({Place(Where.GIVEN, Where.GIVEN, parameter)})

    def _imported(self, alias: ast.alias) -> Places:
        statement = self.program.statement(alias)
        if not isinstance(statement, ast.ImportFrom):
            return NONE
        path, package, named = self.program.path(alias), statement.module or "", self.program.flow.module_named
        if named(path, f"{package}.{alias.name}".lstrip("."), statement.level) is not None:
            return NONE  # a module: `from . import datasets` in the package's own `__init__`
        root = named(path, package, statement.level)
        return self._variable(root, alias.name) if root is not None else NONE

    def _variable(self, root: Scope, name: str) -> Places:
        """The places of a module's variable."""
        found = self._all(self.kept.in_name(root, name))
        for write in self.tracer.writes(root, name):
            found |= self._written(root, write)
        return found

    # Attributes and parts.

    def _attribute(self, node: ast.Attribute) -> Places:
        if self.program.externals(node):
            return NONE
        held = self.program.values(node.value)
        modules = [v.root for v in held if isinstance(v, ModuleValue)]
        if modules:
            return frozenset(p for root in modules for p in self._variable(root, node.attr))
        if methods.is_parameter(node.attr) and any(map(self.roles.is_module, held)):
            return self.of_model(node.value)
        named = self.program.attribute_writes.get(node.attr, ())
        written = [w for w in named if w is not node and self.program.may_be_same(w.value, node.value)]
        found = self.symbolic(node.value) | self._elsewhere(self._all(self.kept.in_attribute(node)))
        for write in self._last(written, node) if isinstance(node.value, (ast.Name, ast.Attribute)) else ():
            value = self.tracer.assigned(write)
            statement = self.program.statement(write)
            given = value if value is not None else getattr(statement, "value", None)
            found |= self._elsewhere(self.symbolic(given))
        classes = [c for v in held if isinstance(v, Instance) for c in (v.cls, *self.program.flow.ancestors(v.cls))]
        own = [(c, w) for c in classes for w in c.writes.get(node.attr, ())]
        for cls, variable in own:
            found |= self._written(cls, variable)
        is_known = bool(found or written or own) or self.tensors.is_in_model(self.program.frame(node))
        return found if is_known or any(map(self.roles.is_module, held)) else self._or_unknown(found)

    def _last(self, writes: Sequence[ast.Attribute], node: ast.Attribute) -> list[ast.Attribute]:
        """The assignments that may be the last ones of their functions, for a read in another."""
        running = [w for w in writes if not self._does_not_run(w)]
        return [w for w in running if not any(self._is_replaced(w, by, node) for by in running)]

    def _is_replaced(self, write: ast.Attribute, by: ast.Attribute, node: ast.Attribute) -> bool:
        frame = self.program.frame(write)
        if write is by or self.program.frame(by) is not frame or self.program.frame(node) is frame:
            return False
        if ast.unparse(write) != ast.unparse(by):
            return False
        statement = self._taken_branch(by) or self.program.statement(by)
        if self.program.inside(write, statement):
            return False
        flow = self.program.control_flow(write)
        return flow.before(write, statement) and flow.post_dominates(statement, write)

    def _elsewhere(self, places: Places) -> Places:
        """The places that another function puts into an attribute, where its caller does not matter."""
        return self.resolved(places) if any(p.where is Where.GIVEN for p in places) else places

    def _item(self, node: ast.Subscript) -> Places:
        """A part of a batch came to be where it is taken out."""
        whole = self.symbolic(node.value)
        held = [v.cls for v in self.program.values(node.value) if isinstance(v, Instance)]
        if any(self.program.flow.method(cls, "__getitem__") is not None for cls in held):
            return UNKNOWN
        return frozenset(self._taken_at(p, node) if isinstance(node.slice, ast.Constant) else p for p in whole)

    def _taken_at(self, place: Place, node: ast.AST) -> Place:
        return replace(place, origin=node) if self.is_batch(place.origin) else place

    def is_batch(self, origin: ast.AST | None) -> bool:
        """Whether something is all of what a loader that is not prepared yields at a time."""
        if not isinstance(origin, ast.Name):
            return False
        path, holder = self.program.binding(origin)
        if isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)):
            return self._is_all_of_an_item(holder.iter, path)
        value = holder.value if isinstance(holder, ast.Assign) else None
        following = self.program.iterator(value)
        return following is not None and self._is_all_of_an_item(following, path)

    def _is_all_of_an_item(self, node: ast.expr, path: tuple[int, ...]) -> bool:
        """Whether a position in what iteration yields is all of an item: `batch` of `i, batch in enumerate(rows)`."""
        if isinstance(node, ast.Name) and (iterators := self._iterators(node)):
            return any(self._is_all_of_an_item(i, path) for i in iterators)
        over = self.gone_over_by(node, path) if isinstance(node, ast.Call) else (node, path)
        return over is not None and (self._is_all_of_an_item(*over) if over[0] is not node else not path)

    def _part(self, node: ast.expr | None, path: tuple[int, ...], write: ast.Name) -> Places:
        """The places of a part of a value that `write` gets."""
        if isinstance(node, (ast.Tuple, ast.List)) and path and len(node.elts) > path[0]:
            return self._part(node.elts[path[0]], path[1:], write)
        if isinstance(node, ast.IfExp):
            return self._parts(self._chosen(node), path, write)
        if isinstance(node, ast.Call):
            following, callees = self.program.iterator(node), self.program.flow.callees.get(node)
            if following is not None and (
                not callees or any(map(self.roles.is_loader, self.program.values(following)))
            ):
                return self._element(following, path, write)
            if callees and path and not any(c.generates for c in callees):
                return self._part_of_result(node, path, write)
            if "map" in self.program.called(node) and path:
                return frozenset(
                    replace(p, origin=write) if isinstance(p.origin, ast.Call) else p for p in self.symbolic(node)
                )
        whole = self.symbolic(node)
        return frozenset(self._taken_at(p, write) if path else p for p in whole)

    def _part_of_result(self, call: ast.Call, path: tuple[int, ...], write: ast.Name) -> Places:
        """What a part of the tuple that a function returns holds; one that returns its own result adds nothing."""
        part = (call, path)
        if part in self._unpacked:
            self._cut.add(part)
            return NONE
        self._unpacked.add(part)
        returned = self._returned(self.program.flow.callees[call])
        found = self._at_call(call, self._parts(returned, path, write))
        self._unpacked.discard(part)
        self._cut.discard(part)
        return found

    def _parts(self, nodes: Iterable[ast.expr | None], path: tuple[int, ...], write: ast.Name) -> Places:
        return frozenset(p for n in nodes for p in self._part(n, path, write))

    def _element(self, node: ast.expr, path: tuple[int, ...], write: ast.Name) -> Places:
        """The places of the elements that iteration yields, at one position of each."""
        if isinstance(node, ast.Call):
            over = self.gone_over_by(node, path)
            if over is None:
                return NONE
            if over[0] is not node:
                return self._element(*over, write)
        if any(self.roles.is_loader(v) for v in self.program.values(node)):
            return self._yielded(node, write)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._parts(node.elts, path, write)
        if isinstance(node, ast.Name) and (iterators := self._iterators(node)):
            return frozenset(p for i in iterators for p in self._element(i, path, write))
        callees = self.program.flow.callees.get(node) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and callees and all(c.generates for c in callees):
            yields = [n.value for c in callees for n in ast.walk(c.node) if isinstance(n, ast.Yield)]
            return self._at_call(node, self._parts(yields, path, write))
        classes = [v.cls for v in self.program.values(node) if isinstance(v, Instance)]
        items = [places for cls in classes if (places := self._own_items(cls, path, write)) is not None]
        return frozenset().union(*items) if items else self._part(node, path, write)

    def _own_items(self, cls: Scope, path: tuple[int, ...], write: ast.Name) -> Places | None:
        """The places of what a class of the project gives a loop over its objects; None if it says nothing of that."""
        methods = [self.program.flow.method(cls, name) for name in ("__iter__", "__next__", "__getitem__")]
        iterates, item = methods[0], next(filter(None, methods[1:]), None)
        if (iterates is None and item is None) or cls in self._gone_over:
            return None
        self._gone_over.append(cls)
        if iterates is not None and (iterates.generates or item is None):
            yields = [n.value for n in ast.walk(iterates.node) if isinstance(n, ast.Yield)]
            others = [
                n.value for n in ast.walk(iterates.node) if isinstance(n, (ast.YieldFrom, ast.Return)) and n.value
            ]
            found = self._parts(yields, path, write).union(*(self._element(n, path, write) for n in others))
        else:
            found = self._parts(self._returned([item]), path, write) if item is not None else NONE
        self._gone_over.pop()
        return self.resolved(found)

    def _yielded(self, loader: ast.expr, write: ast.Name) -> Places:
        """The places of a loader's batches: on the device if it is prepared; if it may be, both."""
        own = on_host(write)
        if self.prepared.yields_objects(loader):
            return own
        if self.prepared.is_loader(loader):
            return BATCH
        return own | BATCH if self.prepared.may_be_loader(loader) else own

    def gone_over_by(self, node: ast.Call, path: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]] | None:
        """The iterable whose items a call passes on, and their position in each; None for items that are no tensors."""
        called = self.program.called(node)
        if "enumerate" in called and node.args:
            return (node.args[0], path[1:]) if not path or path[0] else None
        if "zip" in called and path and path[0] < len(node.args) and not is_open(node):
            return node.args[path[0]], path[1:]
        if "range" in called:
            return None
        if gone_over(node) and (any(names.iteration(n) == "same" for n in called) or self.tracer.is_progress(node)):
            return gone_over(node)[0], path
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys", "values") and not node.args:
            if node.func.attr == "keys" or (node.func.attr == "items" and path and not path[0]):
                return None
            if node.func.attr == "items":
                return node.func.value, path[1:]
        return node, path

    def _iterators(self, node: ast.Name) -> list[ast.Call]:
        """The calls that make what a name holds, if each makes an iterator; one that starts anew has two."""
        values = self._values(node)
        made = [v for v in values if isinstance(v, ast.Call) and node.id not in names_in(v)]
        is_iterator = all(any(names.iteration(n) for n in self.program.called(v)) for v in made)
        return made if is_iterator and len(made) == len(values) else []

    def _only_value(self, node: ast.Name) -> ast.expr | None:
        values = self._values(node)
        return values[0] if len(values) == 1 else None

    def _values(self, node: ast.Name) -> list[ast.expr | None]:
        """The expressions that the bindings of a name assign; None for bindings that assign none."""
        owner = self.program.scope(node).owner(node.id)
        writes = [] if owner is None else self.program.reaching(node, self.tracer.writes(owner, node.id))
        return [self.tracer.assigned(w) if isinstance(w, ast.Name) else None for w in writes]

    # Calls.

    def _call(self, node: ast.Call) -> Places:
        called = self.program.called(node)
        if self.is_early(node) or self.tensors.is_model_call(node):
            return self._of_run(node)
        if (moved := self._moved(node)) is not None:
            return moved
        if self.tensors.is_creator(node) or self._maps_to_tensors(node):
            return self._made(node)
        if brings_to_cpu(node):
            assert isinstance(node.func, ast.Attribute)
            held = self.symbolic(node.func.value)
            return on_host(node) if held else NONE
        callees = self.program.flow.callees.get(node)
        if callees:
            return self._at_call(node, self._all(self._returned(callees)))
        if self.program.iterator(node) is not None:
            return UNKNOWN
        if isinstance(node.func, ast.Attribute) and not called and methods.gives_no_tensor(node.func.attr):
            return NONE
        if any(self.roles.is_module(v) for v in self.program.values(node.func)):
            inside = self.tensors.is_in_model(self.program.frame(node))
            return self.of_models if inside else self._or_unknown(_mixed([self.symbolic(g) for g in _given(node)]))
        if isinstance(node.func, ast.Attribute) and not called:
            return self._method(node, node.func)
        if any(map(names.gives_an_array, called)):
            return self._hosted(node)
        if any(n.startswith("torch.utils.data.") for n in called):
            return UNKNOWN
        if any(map(names.gives_on, called)):
            mapped = [g.body if isinstance(g, ast.Lambda) else g for g in _given(node)]
            return self._all(mapped[:1] if "map" in called and mapped[0] is not node.args[0] else mapped)
        if any(map(_makes_no_tensor, called)):
            return NONE
        if any(n.startswith("torch.") or names.stays_with_arguments(n) for n in called):
            return _mixed([self.symbolic(g) for g in _given(node)])
        return self._handed_on(node)

    def _of_run(self, call: ast.Call) -> Places:
        if self.is_early(call):
            return on_host(call)
        return self.of_model(call.func)

    def _hosted(self, call: ast.Call) -> Places:
        """The places of what NumPy makes of tensors: an array, or a tensor as well, in the host's memory."""
        return on_host(call) if self.resolved(self._all(_given(call))) - UNKNOWN else NONE

    def _returned(self, callees: Iterable[Scope]) -> list[ast.expr | None]:
        """The expressions that some functions return on a machine with a GPU."""
        found = returned(callees)
        return [node for node in found if node is None or not self._does_not_run(node)]

    def _at_call(self, call: ast.Call, places: Places) -> Places:
        """The places of a function's result, in terms of the parameters of the caller's own function."""
        callees = self.program.flow.callees.get(call, set())
        found: set[Place] = set()
        for place in places:
            owner = self.program.scope(place.origin) if isinstance(place.origin, ast.arg) else None
            if owner is None or owner not in callees:
                found.add(place)
                continue
            assert isinstance(place.origin, ast.arg)
            given = self.tracer.argument(call, owner, place.origin.arg) or owner.defaults.get(place.origin.arg)
            if place.is_named and given is not None:
                found |= self._on(self.devices.of(given), None)
            else:
                found |= UNKNOWN if given is None else self.symbolic(given)
        return frozenset(found)

    def _handed_on(self, node: ast.Call) -> Places:
        """The places of the result of unknown code: in the host's memory if all its arguments are there."""
        if not self.is_plain_host:
            return UNKNOWN
        return self._or_unknown(self._all(_given(node)))

    def _made(self, node: ast.Call) -> Places:
        """The places of a factory's result: on the device that it is given, or in the host's memory."""
        if self.tensors.is_kept(node) and self.tensors.is_in_model(self.program.frame(node)):
            return self.of_models
        device = next((k.value for k in node.keywords if k.arg == "device"), None)
        if device is None:
            return self._of_type(node.func, node) or on_host(node)
        beside = self._other_tensor(device) if is_where_another_is(device) else NONE
        return frozenset(replace(p, is_batch=False) for p in beside) or self._on(self.devices.of(device), node)

    def _of_type(self, kind: ast.expr, origin: ast.Call) -> Places:
        """Where a type of tensors has them: `torch.cuda.FloatTensor if cuda else torch.FloatTensor`, by any name."""
        if isinstance(kind, ast.IfExp):
            return frozenset(p for each in self._chosen(kind) for p in self._of_type(each, origin))
        value = self._only_value(kind) if isinstance(kind, ast.Name) else None
        if value is not None and self.program.externals(kind):
            return self._of_type(value, origin)
        memories = {names.memory_of_type(n) for n in self.program.externals(kind)} - {None}
        where = {Where.ACCELERATOR if m is Device.ACCELERATOR else Where.HOST for m in memories}
        return frozenset(Place(w, w, origin) for w in where)

    @staticmethod
    def _on(devices: Named, origin: ast.AST | None) -> Places:
        """The places of tensors that `origin` puts on a device."""
        return frozenset(Place(d.now, d.was, d.given or origin, is_named=d.given is not None) for d in devices)

    def _moved(self, node: ast.Call) -> Places | None:
        """The places of `x.to(device)`, `x.cuda()`, `x.type_as(y)` and `x.to(y)`; None for any other call."""
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "type" and node.args:
            return self._of_type(node.args[0], node) or None if self.symbolic(function.value) else NONE
        if not isinstance(function, ast.Attribute) or not methods.moves_to_device(function.attr):
            return None
        held = self.program.values(function.value)
        if self.program.flow.callees.get(node) or (held and all(isinstance(v, External) for v in held)):
            return None
        keyword = next((k.value for k in node.keywords if k.arg == "device"), None)
        first = node.args[0] if node.args else keyword
        before = self.symbolic(function.value)
        if not before:
            return NONE
        if methods.names_accelerator(function.attr):
            return self._moved_to(node, self.devices.of(first), before)
        if first is None or isinstance(first, ast.Starred):
            return before
        if other := self._other_tensor(first):
            return frozenset(replace(p, is_batch=False) for p in other)
        if brings_to_cpu(node) or not self._is_device(first):
            return None if brings_to_cpu(node) else before
        return self._moved_to(node, self.devices.of(first), before)

    def _other_tensor(self, node: ast.expr) -> Places:
        """The tensors of `y` in `x.to(y)` and `x.to(y.device)`."""
        if isinstance(node, ast.Attribute) and node.attr == "device":
            holder = node.value
            if any(map(self.roles.is_module, self.program.values(holder))):
                return NONE
            return NONE if isinstance(holder, ast.Name) and holder.id == "self" else self.symbolic(holder) - UNKNOWN
        held = self.program.values(node)
        return NONE if any(map(self.roles.is_device, held)) else self.symbolic(node) - UNKNOWN

    def _is_device(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return vocabulary.is_device_text(node.value) or type(node.value) is int
        if any(map(self.roles.is_device, self.program.values(node))):
            return True
        last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        return vocabulary.is_device_name(last) or (
            isinstance(node, (ast.Subscript, ast.Call, ast.IfExp)) and not self._is_type(node)
        )

    def _is_type(self, node: ast.expr) -> bool:
        return any(n.startswith("torch.") for n in self.program.externals(node))

    def _moved_to(self, node: ast.Call, devices: Named, before: Places) -> Places:
        """A move of what is there goes, whatever it says; it has been brought nearer, or stays what it is."""
        if not all(p.where is Where.ACCELERATOR for p in before):
            return self._on(devices, node)
        moved = {p.was for p in self.resolved(self._on(devices, node))}
        if Where.HOST in moved:
            return self._on(devices, node)
        return frozenset(Place(Where.ACCELERATOR, Where.ACCELERATOR, node, p.is_batch) for p in before)

    def _method(self, node: ast.Call, function: ast.Attribute) -> Places:
        row = table.member("tensor", function.attr)
        if methods.gives_nothing(function.attr):
            return NONE
        if any(isinstance(v, Parameters) for v in self.program.values(node)):
            return self.of_model(function.value)
        made = [v for v in self.program.values(function.value) if isinstance(v, Made)]
        if row is None and made and all(table.kind_made_by(v.name) == "distribution" for v in made):
            row = table.member("distribution", function.attr)
            of_numbers = row is not None and row.draws and not self.symbolic(function.value)
            return on_host(node) if of_numbers else self._all([function.value, *_given(node)])
        if row is None and not self.is_plain_host:
            return UNKNOWN
        if row is not None and row.returns == "self" and "self" in row.mutates:
            return self._or_unknown(self.symbolic(function.value))
        return self._or_unknown(_mixed([self.symbolic(n) for n in (function.value, *_given(node))]))

    def _maps_to_tensors(self, node: ast.Call) -> bool:
        """`map(torch.LongTensor, rows)`"""
        if "map" not in self.program.called(node) or not node.args:
            return False
        return any(n.startswith("torch.") and n.endswith("ensor") for n in self.program.externals(node.args[0]))


def asks_no_value(node: ast.Compare) -> bool:
    """`x is None`, `"y" in batch`: wherever that is."""
    return all(isinstance(o, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for o in node.ops)


def is_open(call: ast.Call) -> bool:
    """Whether a call is given what is in a container, `f(*items)`."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def _on_accelerator(plain: Collection[Where]) -> Places:
    """What `prepare` brings to the device, from where the plain script had it."""
    return frozenset(Place(Where.ACCELERATOR, each) for each in plain)


def _mixed(parts: list[Places]) -> Places:
    """The places of an operation's result: on the device if one operand is; only numbers can stay behind then."""
    there = [part for part in parts if part and all(p.where is Where.ACCELERATOR for p in part)]
    found = frozenset(p for part in parts for p in part)
    if any(part and all(p.was is Where.ACCELERATOR for p in part) for part in parts):
        found = frozenset(replace(p, was=Where.ACCELERATOR) for p in found)
    if not there or len(there) == sum(map(bool, parts)):
        return found
    return frozenset(p for p in found if p.where is Where.ACCELERATOR)


def on_host(origin: ast.AST) -> Places:
    """The places of what something makes, or brings back, in the host's memory."""
    return frozenset({Place(Where.HOST, Where.HOST, origin)})


def _given(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(k.value for k in node.keywords)]


def _makes_no_tensor(name: str) -> bool:
    if vocabulary.is_on_host(name) or any(is_one(name) for is_one in _NO_TENSORS):
        return True
    return "." not in name and hasattr(builtins, name) and not names.gives_on(name)
