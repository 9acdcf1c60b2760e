"""Which values are model, optimizer, scheduler, loader, loss, device or scaler?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeGuard

from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    Argument,
    ClassValue,
    Collection,
    Constant,
    Element,
    External,
    Generated,
    Instance,
    Made,
    Member,
    Parameters,
    Value,
    Values,
    View,
)

_PLAIN_BASES = {External("object"), External("abc.ABC")}
# What has one of these may be taken for a loader or a scheduler.
_OTHER_METHODS = ("__iter__", "__getattr__", "step")


def stepped(call: ast.Call) -> ast.expr:
    """The optimizer of `optimizer.step()` and of `scaler.step(optimizer)`."""
    assert isinstance(call.func, ast.Attribute)
    by_scaler = (
        len(call.args) == 1
        and isinstance(call.args[0], (ast.Name, ast.Attribute))
        and "scaler" in ast.unparse(call.func.value).lower()
    )
    return call.args[0] if by_scaler else call.func.value


class Roles:
    """The roles of values, by how they are built and by how they are used."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.flow = program.flow
        self._weighted: dict[Scope, bool] = {}

    # Built as.

    def is_optimizer(self, value: Value) -> bool:
        """An optimizer by its constructor: a library's, or a class of the project's that inherits from one."""
        if isinstance(value, Made):
            return names.is_optimizer(value.name) or value in self.optimizers_by_use
        if isinstance(value, Instance):
            return any(
                b == "torch.optim.Optimizer" or names.is_optimizer(b) for b in self.flow.external_bases(value.cls)
            )
        return value in self.optimizers_by_use

    def is_built_optimizer(self, value: Value) -> bool:
        """An optimizer of which it is known where it is made, and so of which parameters."""
        is_known = isinstance(value, Instance) or (isinstance(value, Made) and names.is_optimizer(value.name))
        return is_known and self.is_optimizer(value)

    def is_scheduler(self, value: Value) -> bool:
        if isinstance(value, Made):
            return names.is_scheduler(value.name)
        return isinstance(value, Instance) and any(names.is_scheduler(b) for b in self.flow.external_bases(value.cls))

    def is_loader(self, value: Value) -> bool:
        """Something that yields batches: a `DataLoader`, a subclass, or a loader of a known library.

        So is each of those that its class makes: `train, test = Loader.splits(...)`.
        """
        if isinstance(value, Made):
            return names.is_loader(value.name)
        if isinstance(value, Member) and isinstance(value.owner, Made) and value.name.startswith("["):
            return names.is_loader((value.owner.name or "").rpartition(".")[0])
        return isinstance(value, Instance) and any(names.is_loader(b) for b in self.flow.external_bases(value.cls))

    def is_nothing_to_prepare(self, value: Value) -> bool:
        """What `prepare` refuses: numbers, mocks, classes, objects of plain ones (not iterated, no steps)."""
        if isinstance(value, Constant):
            return value.value is not None
        if isinstance(value, (ClassValue, External)):
            return isinstance(value, ClassValue) or names.is_optimizer(value.name)
        if isinstance(value, Made):
            return names.is_mock(value.name)
        return self.is_plain_object(value) and not any(self.flow.method(value.cls, name) for name in _OTHER_METHODS)

    def is_plain_object(self, value: Value) -> TypeGuard[Instance]:
        """An object of the project's own class, all of whose bases are in sight and none a library's: no module."""
        if not isinstance(value, Instance) or self.flow.method(value.cls, "__new__"):
            return False
        classes = [value.cls, *self.flow.ancestors(value.cls)]
        bases = [base for cls in classes for base in getattr(cls.node, "bases", ())]
        held = {v for base in bases for v in self.program.values(base) or {None}}
        return all(isinstance(v, ClassValue) or v in _PLAIN_BASES for v in held)

    def is_torch_loader(self, value: Value) -> bool:
        """A loader that is a `torch.utils.data.DataLoader`."""
        if isinstance(value, Made):
            return names.is_torch_loader(value.name)
        return isinstance(value, Instance) and any(
            names.is_torch_loader(b) for b in self.flow.external_bases(value.cls)
        )

    def is_other_loader(self, value: Value) -> bool:
        """A library's loader that is none of torch's, or one of those that its class makes: `Loader.splits(...)[0]`."""
        root = value.root if isinstance(value, Member) else value
        if not isinstance(root, Made) or root.name is None:
            return False
        made = (root.name, root.name.rpartition(".")[0])
        return any(names.is_loader(n) and not names.is_torch_loader(n) for n in made)

    def is_stream(self, value: Value) -> bool:
        """A data set that is iterated over without positions."""
        if isinstance(value, Made):
            return names.is_stream(value.name)
        return isinstance(value, Instance) and any(map(names.is_stream, self.flow.external_bases(value.cls)))

    def is_module(self, value: Value) -> bool:
        """An `nn.Module`."""
        if isinstance(value, Made):
            return names.is_module(value.name)
        return isinstance(value, Instance) and self.flow.is_module_class(value.cls)

    def is_loss(self, value: Value) -> bool:
        return isinstance(value, Made) and names.is_loss(value.name)

    def is_device(self, value: Value) -> bool:
        """A `torch.device`, or text that names one."""
        if isinstance(value, Made):
            return names.is_device(value.name)
        return isinstance(value, Constant) and vocabulary.is_device_text(value.value)

    def is_cuda_test(self, value: Value) -> bool:
        return isinstance(value, Made) and names.is_cuda_test(value.name)

    def is_part_of_a_batch(self, node: ast.expr) -> bool:
        """Whether an expression holds a loader's batches."""
        return any(isinstance(v, Element) and self.is_loader(v.owner) for v in self.program.values(node))

    def adds_up_itself(self, metric: ast.expr) -> bool:
        """Whether a metric, asked for its value, adds up over the processes by itself."""
        return any(isinstance(v, Made) and names.adds_up_itself(v.name) for v in self.program.values(metric))

    # Used as.

    @cached_property
    def optimizers_by_use(self) -> set[Value]:
        """Unknown values whose `zero_grad` and `step` are both called, and that are no model."""
        zeroed: set[Value] = set()
        taken: set[Value] = set()
        for call in self.program.calls:
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("zero_grad", "step"):
                continue
            into = zeroed if call.func.attr == "zero_grad" else taken
            into |= {v for v in self.program.values(stepped(call)) if isinstance(v, (Made, Argument, Member))}
        taken &= zeroed | self._stepped_after_backward()
        others = (names.is_scheduler, names.is_module, names.is_mock)
        return {v for v in taken if not (isinstance(v, Made) and any(is_other(v.name) for is_other in others))}

    def _stepped_after_backward(self) -> set[Value]:
        """Unknown values named for an optimizer whose `step` is called in a function that runs a backward pass."""
        frames = {
            self.program.frame(c)
            for c in self.program.calls
            if isinstance(c.func, ast.Attribute) and c.func.attr == "backward"
        }
        found: set[Value] = set()
        for call in self.program.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == "step" and self.program.frame(call) in frames:
                optimizer = stepped(call)
                if "opt" in ast.unparse(optimizer).rpartition(".")[2].lower():
                    found |= {v for v in self.program.values(optimizer) if isinstance(v, (Made, Argument, Member))}
        return found

    @cached_property
    def networks_by_use(self) -> set[Value]:
        """Unknown values that are run, and asked for parameters or switched to a mode, as only networks are."""
        run = self._called(lambda f: not _is_asked(f) and not _is_loss(f))
        asked = self._asked(_tells_a_network)
        return {v for v in run & asked if v not in self.optimizers_by_use}

    @cached_property
    def modules_by_use(self) -> set[Value]:
        """Unknown values that a script calls, or uses as modules are used: losses as well, which have no parameters."""
        return self._called(lambda f: True) | self._asked(_tells_a_module)

    def _called(self, is_one: Callable[[ast.expr], bool]) -> set[Value]:
        return {v for c in self.program.calls if is_one(c.func) for v in self._unknown(c.func)}

    def _asked(self, tells: Callable[[str], bool]) -> set[Value]:
        """The unknown values of which such methods are called."""
        functions = (c.func for c in self.program.calls if isinstance(c.func, ast.Attribute))
        return {v for f in functions if tells(f.attr) for v in self._unknown(f.value)}

    def _unknown(self, node: ast.expr) -> set[Value]:
        """The values of an expression of which nothing is known but what a script does with them."""
        held = {v for v in self.program.values(node) if isinstance(v, (Made, Argument, Member))}
        return {v for v in held if not isinstance(v, Made) or table.kind_made_by(v.name) is None}

    @cached_property
    def trained(self) -> set[Value]:
        """Values whose parameters are handed to an optimizer."""
        found: set[Value] = set()
        for call in self.program.calls:
            if any(
                self.is_optimizer(v)
                for v in self.program.values(call)
                if isinstance(v, (Made, Instance)) and self._made_at(v, call)
            ):
                found |= self._given_weights(call)
        return found

    def stepped_by(self, optimizer: Value) -> set[Value]:
        """The models whose parameters an optimizer was made with."""
        made = (c for c in self.program.calls if optimizer in self.program.values(c) and self._made_at(optimizer, c))
        return {model for call in made for model in self._given_weights(call)}

    def _given_weights(self, call: ast.Call) -> set[Value]:
        given = (self.program.values(a) for a in (*call.args, *(k.value for k in call.keywords)))
        return {model for values in given for model in self.parameter_owners(values)}

    @staticmethod
    def _made_at(value: Value, call: ast.Call) -> bool:
        return not isinstance(value, Made) or value.node is call

    def parameter_owners(self, values: Values, depth: int = 4) -> set[Value]:
        """The models whose parameters are somewhere in some values: `m.parameters()`, a list of them, `m.weight`."""
        found: set[Value] = set()
        for value in values:
            if isinstance(value, Parameters) or (isinstance(value, Member) and self.is_module(value.owner)):
                owner = self.container(value.owner)
                found |= set() if self.learns_from_arrays(owner) else {owner}
            elif isinstance(value, Element):
                found |= self.asked_for_parts(value.owner)
            elif depth and isinstance(value, Generated):
                found |= self.parameter_owners(frozenset(self.flow.elements(value)), depth - 1)
            elif depth and isinstance(value, (Collection, View)):
                found |= self.parameter_owners(self.inside(value), depth - 1)
        return found

    def container(self, model: Value) -> Value:
        """The network that a network is a part of, by its name, its number or by going over it: `net` of `net[0]`."""
        while isinstance(model, (Element, Member)) and self.is_module(model.owner):
            model = model.owner
        return model

    def asked_for_parts(self, value: Value) -> set[Value]:
        """The networks of which a call gives the parts: `model.modules()`; `m.weight` is a part of what it gives."""
        function = value.node.func if isinstance(value, Made) and isinstance(value.node, ast.Call) else None
        if not isinstance(function, ast.Attribute) or not methods.gives_parts(function.attr):
            return set()
        return set(filter(self.is_module, self.program.values(function.value)))

    def wholes(self, model: Value) -> set[Value]:
        """A model, and the models that it is a part of."""
        found, queue = {model}, [model]
        while queue:
            part = queue.pop()
            asked = self.asked_for_parts(part.owner) if isinstance(part, (Element, Member)) else set()
            owned = {self.container(part)} | asked
            queue.extend(new := (self._holders.get(part, set()) | owned) - found)
            found |= new
        return found

    @cached_property
    def _holders(self) -> dict[Value, set[Value]]:
        """Which networks keep, or give, each network, or were made of it: `nn.Sequential(body, head)`."""
        found: dict[Value, set[Value]] = {}
        for call in self.program.calls:
            receivers = self.program.values(call.func.value) if isinstance(call.func, ast.Attribute) else frozenset()
            for whole in (v for v in self.program.values(call) if self._is_made_of_parts(v, call)):
                found.setdefault(whole, set()).update(filter(self.is_model, receivers))
                given = [*call.args, *(k.value for k in call.keywords)] if self.is_module(whole) else []
                held = {v for a in given for v in self.program.values(a)}
                inner = {i for v in held if isinstance(v, Collection) for i in self.inside(v)}
                for part in filter(self._may_be_part, held | inner):
                    found.setdefault(part, set()).add(whole)
        for write in (w for written in self.program.attribute_writes.values() for w in written):
            for part in filter(self._may_be_part, self.program.values(write)):
                found.setdefault(part, set()).update(filter(self._may_be_whole, self._values_round(write)))
        return found

    def _may_be_part(self, value: Value) -> bool:
        """Whether a value is a network, or what unknown code makes: `zoo.__dict__[name]()`."""
        is_unknown = isinstance(value, Made) and table.function(value.name) is None
        return is_unknown or self.is_module(value)

    def _may_be_whole(self, value: Value) -> bool:
        return self.is_model(value) or self._may_be_part(value)

    def _is_made_of_parts(self, value: Value, call: ast.Call) -> bool:
        """Whether a call of a library makes a value, or one of an own class that is a container of a library."""
        if not isinstance(value, Instance):
            return isinstance(value, Made) and value.node is call
        made = ClassValue(value.cls) in self.program.values(call.func)
        return made and any(table.kind_made_by(base) == "container" for base in self.flow.external_bases(value.cls))

    def _values_round(self, attribute: ast.Attribute) -> Iterator[Value]:
        """What an attribute belongs to, and what that belongs to: `self.body`, and `self`, for `self.body.head`."""
        node: ast.expr = attribute
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
            yield from self.program.values(node)

    def inside(self, value: Collection | View) -> Values:
        """Everything that a container holds."""
        cells = self.flow._cells
        keys = [k.value for k in cells.get(("keys", value.node), ()) if isinstance(k, Constant)]
        found: set[Value] = set()
        for key in [*keys, "*", "elements"]:
            found |= cells.get(("item", value.node, key), set())
        return frozenset(found)

    def is_model(self, value: Value) -> bool:
        """An `nn.Module`, anything whose parameters an optimizer gets, or that is used as only networks are."""
        is_built = self.is_module(value) and not self.is_loss(value)
        return is_built or value in self.trained or value in self.networks_by_use

    @staticmethod
    def learns_from_arrays(value: Value) -> bool:
        """Whether an object has no weights of torch's: `KNeighborsClassifier()`, in a list with networks."""
        return isinstance(value, Made) and vocabulary.takes_arrays(value.name or "")

    def learns(self, value: Value) -> bool:
        """Whether a value is a network, an optimizer or weights, or an agent of the project's own that holds some."""
        if isinstance(value, Parameters) or self.is_module(value) or self.is_optimizer(value):
            return True
        return isinstance(value, Instance) and value.cls in self._learners

    def has_weights(self, cls: Scope) -> bool:
        """Whether a module of the project's own has weights, or parts that have some, as far as can be seen."""
        if cls not in self._weighted:
            self._weighted[cls] = self._find_weights(cls)
        return self._weighted[cls]

    def _find_weights(self, cls: Scope) -> bool:
        queue, seen = [cls], {cls}
        kept = [w for ws in self.program.attribute_writes.values() for w in ws]
        while queue:
            family = [(one := queue.pop()), *self.flow.ancestors(one)]
            calls = [c for each in family for s in each.walk() for c in self.program.calls_in(s)]
            values = {v for c in calls for v in self.program.values(c)}
            values |= {v for w in kept if self.program.frame(w).parent in family for v in self.program.values(w)}
            made = {n for c in calls for n in self.program.called(c)} | {v.name for v in values if isinstance(v, Made)}
            if any(n is not None and (n.endswith("Parameter") or names.has_weights(n)) for n in made):
                return True
            if any(base != "torch.nn.Module" for base in self.flow.external_bases(one)):
                return True  # a library's network
            parts = {v.cls for v in values if isinstance(v, Instance) and self.is_module(v)} - seen
            seen |= parts
            queue += parts
        return False

    @cached_property
    def _learners(self) -> set[Scope]:
        """The classes whose methods keep an optimizer."""
        found: set[Scope] = set()
        for written in self.program.attribute_writes.values():
            for node in written:
                if any(self.is_optimizer(v) for v in self.program.values(node)):
                    found |= {v.cls for v in self.program.values(node.value) if isinstance(v, Instance)}
        return found


def _is_loss(function: ast.expr) -> bool:
    return vocabulary.is_name_of_a_loss(ast.unparse(function).rpartition(".")[2])


def _is_asked(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and _tells_a_network(function.attr)


def _tells_a_network(method: str) -> bool:
    """Whether only networks have a method: it gives parameters or parts, or switches them to a mode."""
    return methods.gives_parameters(method) or methods.gives_parts(method) or methods.switches_mode(method)


def _tells_a_module(method: str) -> bool:
    """Whether modules have a method that other objects with a `cuda()` hardly have."""
    is_move = methods.moves_to_device(method) and not methods.names_accelerator(method)
    return _tells_a_network(method) or methods.gives_state(method) or method == "load_state_dict" or is_move
