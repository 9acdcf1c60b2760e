"""Which backward passes are for the gradients of a batch alone, and those of the weights are cleared unread?

An attack, or a perturbation from which a loss is made, runs the model backwards to learn how its input should change.
What the weights get from that, `zero_grad` clears before any step: each process needs the gradients of its rows only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from accelify.codemod.libraries import methods
from accelify.codemod.semantics.flow_graph import Loop
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Made, Value
from accelify.codemod.training.gradients.round_tensors import RoundTensors
from accelify.codemod.training.losses import is_by_function
from accelify.codemod.training.roles import Roles, stepped


class InputGradients:
    """Find them, with the tensors whose gradients are read.

    steps: of the optimizers that train weights. loops: those over data; only what a round of them makes is an input.
    """

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, steps: Sequence[ast.Call], loops: Iterable[Loop]
    ) -> None:
        self.program = program
        self.steps = steps
        self.tracer = tracer
        self.tensors = RoundTensors(program, roles, tracer, loops)
        self.cleared = [_Cleared(program, roles, step, self._of_weights) for step in steps] or [
            _Cleared(program, roles, None, self._of_weights)
        ]

    def of(self, backward: ast.Call) -> tuple[ast.expr, ...] | None:
        """The tensors of whose gradients alone something comes, as they are named where a backward pass is run.

        Empty where hooks take the gradients of layers, and nothing reads others. None where weights' gradients may be
        read as well, or where another function reads those of the batch.
        """
        if is_by_function(self.program, backward) or self._is_scaled(backward):
            return None
        asked = next((k.value for k in backward.keywords if k.arg == "inputs"), None)
        if asked is not None:
            listed = asked.elts if isinstance(asked, (ast.List, ast.Tuple)) else [asked]
            return tuple(listed) if listed and all(map(self.tensors.holds, listed)) else None
        named = {ast.unparse(n): n for n in self._read_after(backward)}
        if any(self._is_read_elsewhere(n, backward) for n in self._of_inputs):
            return None
        is_wanted = bool(named) or (self._has_hooks and bool(self.steps))
        is_plain = all(self._has_gradient(n, backward) for n in named.values())
        return tuple(named.values()) if is_wanted and is_plain and not self._are_others_read(backward) else None

    def _are_others_read(self, backward: ast.Call) -> bool:
        return any(c.is_read(backward) for c in self.cleared)

    @cached_property
    def _has_hooks(self) -> bool:
        """Whether functions get the gradients of layers or tensors as a backward pass comes to them: Grad-CAM's."""
        called = (c.func for c in self.program.calls if isinstance(c.func, ast.Attribute))
        return any(methods.hooks_a_backward_pass(f.attr) for f in called)

    def _is_scaled(self, backward: ast.Call) -> bool:
        """`scaler.scale(loss).backward()`"""
        loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
        function = loss.func if isinstance(loss, ast.Call) else None
        return isinstance(function, ast.Attribute) and function.attr == "scale"

    @cached_property
    def _gradients(self) -> list[ast.Attribute]:
        """The gradients that are read, and not only cleared or asked for."""
        found = (n for n in self.program.attribute_reads.get("grad", ()) if self.program.is_run(n))
        return [n for n in found if not self._is_clearing(n)]

    def _is_clearing(self, gradient: ast.Attribute) -> bool:
        """`p.grad.zero_()`, `p.grad.data.mul_(2)`, `p.grad is not None`: nothing else gets the gradient by that."""
        parent = self.program.parent(gradient)
        if isinstance(parent, ast.Attribute) and parent.attr == "data":
            parent = self.program.parent(parent)
        if isinstance(parent, ast.Attribute) and methods.changes_in_place(parent.attr):
            call = self.program.parent(parent)
            return isinstance(call, ast.Call) and isinstance(self.program.parent(call), ast.Expr)
        return isinstance(parent, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)

    @cached_property
    def _of_inputs(self) -> list[ast.expr]:
        """`x` of `x.grad`, for tensors that a round of a loop over data makes for itself.

        Where a function reads it of a parameter alone, what each of its calls gives that.
        """
        return [each for n in self._gradients if self.tensors.holds(n.value) for each in self._given(n.value, ())]

    @cached_property
    def _of_weights(self) -> list[ast.expr]:
        return [n.value for n in self._gradients if not self.tensors.holds(n.value)]

    def _given(self, node: ast.expr, seen: tuple[Scope, ...]) -> list[ast.expr]:
        """What a function's calls give a parameter; an expression itself that is no parameter."""
        frame, bound = self.program.frame(node), self._bound(node)
        calls = self.program.calls_of(frame) if frame not in seen else ()
        if not calls or len(bound) != 1 or not isinstance(bound[0], ast.arg):
            return [node]
        given = [self.tracer.argument(call, frame, bound[0].arg) for call in calls]
        if not all(isinstance(g, ast.Name) for g in given):
            return [node]
        return [each for g in given if g is not None for each in self._given(g, (*seen, frame))]

    def _read_after(self, backward: ast.Call) -> Iterator[ast.expr]:
        """The inputs whose gradients are read after a backward pass that they went into, and not another tensor's."""
        flow, frame = self.program.control_flow(backward), self.program.frame(backward)
        for node in self._of_inputs:
            if self.program.frame(node) is frame and flow.reaches(backward, node, without=self._bound(node)):
                yield node

    def _bound(self, node: ast.expr) -> list[ast.AST]:
        """Where a variable gets its tensor."""
        return [d.node for d in self.program.definitions(node).definitions(node)]

    def _has_gradient(self, node: ast.expr, backward: ast.Call) -> bool:
        """Whether a tensor is there and requires a gradient: its gradient is read in any case, or it was made so."""
        flow, name = self.program.control_flow(backward), ast.unparse(node)
        reads = [n for n in self._of_inputs if ast.unparse(n) == name]
        if any(flow.post_dominates(read, backward) for read in reads):
            return True
        places = [n for n in ast.walk(self.program.frame(backward).node) if _requires(n, name)]
        return flow.is_covered(places, backward)

    def _is_read_elsewhere(self, node: ast.expr, backward: ast.Call) -> bool:
        """Whether another function, which this one calls or is called by, may read the gradient of its tensor."""
        frame, other = self.program.frame(backward), self.program.frame(node)
        is_called = other in self.program.run_from([frame])
        if frame is other or not (is_called or frame in self.program.run_from([other])):
            return False
        is_given = any(isinstance(p, ast.arg) or self.program.frame(p) is not other for p in self._bound(node))
        return is_given or self._is_handed_on(node)

    def _is_handed_on(self, node: ast.expr) -> bool:
        """Whether the function in which a tensor is made gives it to others."""
        calls = (c for c in self.program.calls_in(self.program.frame(node)) if self.program.flow.callees.get(c))
        return any(ast.unparse(a) == ast.unparse(node) for c in calls for a in _arguments(c))


class _Cleared:
    """Follow the weights that one optimizer steps from a backward pass on: are their gradients read, or cleared first?

    step: that of the optimizer; None for the weights that none steps. read: what else gradients are read of.
    """

    def __init__(self, program: Program, roles: Roles, step: ast.Call | None, read: Sequence[ast.expr]) -> None:
        self.program = program
        self.roles = roles
        self.read = [*read, *([] if step is None else [step])]
        self.optimizers = {v for v in self.program.values(stepped(step)) if roles.is_optimizer(v)} if step else set()
        made = (v.node for v in self.optimizers if isinstance(v, Made) and isinstance(v.node, ast.Call))
        given = [a for call in made for a in _arguments(call)]
        self.models = {owner for a in given for owner in roles.parameter_owners(program.values(a))}
        self._nodes: dict[Scope, tuple[list[ast.AST], list[ast.AST]]] = {}
        self._later: dict[ast.AST, list[ast.Call] | None] = {}

    def is_read(self, node: ast.AST) -> bool:
        """Whether a path leads from a node, in its function and its callers', to where gradients are read uncleared."""
        queue, seen = [node], set[ast.AST]()
        while queue:
            later = self._leads_to(queue.pop())
            if later is None:
                return True
            queue += [call for call in later if call not in seen]
            seen.update(later)
        return False

    def _leads_to(self, node: ast.AST) -> list[ast.Call] | None:
        """The calls behind which a path goes on from a node; None where it comes to a read, or to what is not known."""
        if node not in self._later:
            self._later[node] = self._calls_behind(node)
        return self._later[node]

    def _calls_behind(self, node: ast.AST) -> list[ast.Call] | None:
        frame, flow = self.program.frame(node), self.program.control_flow(node)
        clearing, reading = self._within(frame)
        if any(flow.reaches(node, read, without=clearing) for read in reading):
            return None
        if not frame.is_function or not flow.gets_out(node, clearing):
            return []
        if any(function is frame for _, function in self.program.flow.handed_on):
            return None
        return self.program.calls_of(frame) or None

    def _within(self, frame: Scope) -> tuple[list[ast.AST], list[ast.AST]]:
        """Where a function clears the gradients, and where it reads them; itself, or in what it calls."""
        if frame not in self._nodes:
            self._nodes[frame] = ([], [])  # of a function that calls itself
            clearing: list[ast.AST] = [n for n in self._clearing if self.program.frame(n) is frame]
            reading: list[ast.AST] = [n for n in self.read if self.program.frame(n) is frame]
            for call in self.program.calls_in(frame):
                for callee in self.program.flow.callees.get(call, ()):
                    if self._reads_first(callee):
                        reading.append(call)
                    elif self._clears(callee):
                        clearing.append(call)
            self._nodes[frame] = (clearing, reading)
        return self._nodes[frame]

    def _reads_first(self, function: Scope) -> bool:
        clearing, reading = self._within(function)
        return any(not self.program.control_flow(n).is_covered(clearing, n) for n in reading)

    def _clears(self, function: Scope) -> bool:
        clearing, _ = self._within(function)
        return bool(clearing) and not self.program.control_flow(function.node).gets_out(function.node, clearing)

    @cached_property
    def _clearing(self) -> list[ast.AST]:
        """`optimizer.zero_grad()`, `model.zero_grad()`, and the weights over which a loop goes that clears each."""
        calls = (c for c in self.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "zero_grad")
        found: list[ast.AST] = [c for c in calls if self._is_of_own(c.func.value)]  # type: ignore[attr-defined]
        loops = (n for parsed in self.program.files for n in parsed.parents if isinstance(n, ast.For))
        return found + [n.iter for n in loops if _clears_each(n) and self._are_own_weights(n.iter)]

    def _is_of_own(self, owner: ast.expr) -> bool:
        held = self.program.values(owner)
        return bool(self.optimizers) and (self.optimizers <= held or self._are_own(held))

    def _are_own_weights(self, node: ast.expr) -> bool:
        asked = node.func if isinstance(node, ast.Call) else None
        is_all = isinstance(asked, ast.Attribute) and methods.gives_parameters(asked.attr)
        return is_all and isinstance(asked, ast.Attribute) and self._are_own(self.program.values(asked.value))

    def _are_own(self, held: Iterable[Value]) -> bool:
        """Whether some values are the models whose weights the optimizer steps, or hold them."""
        return bool(self.models) and all(not self.roles.wholes(m).isdisjoint(held) for m in self.models)


def _requires(node: ast.AST, name: str) -> bool:
    """`x.requires_grad_()`, `x.requires_grad = True`, `x = f(..., requires_grad=True)`, `x = y.requires_grad_()`"""
    if isinstance(node, ast.Call) and _asks_for_gradient(node):
        return isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == name
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
        return ast.unparse(target.value) == name and isinstance(value, ast.Constant) and value.value is True
    return ast.unparse(target) == name and _is_leaf(value)


def _asks_for_gradient(call: ast.Call) -> bool:
    """Whether a call is `x.requires_grad_()`, or `x.requires_grad_(True)`."""
    given = _arguments(call)
    is_asked = isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_"
    return is_asked and all(isinstance(g, ast.Constant) and g.value is True for g in given)


def _is_leaf(value: ast.expr) -> bool:
    """Whether an expression is a tensor that requires a gradient."""
    if not isinstance(value, ast.Call):
        return False
    if _asks_for_gradient(value):
        return True
    given = {k.arg: k.value for k in value.keywords}
    asked = given.get("requires_grad")
    return isinstance(asked, ast.Constant) and asked.value is True


def _clears_each(loop: ast.For) -> bool:
    """`for p in net.parameters(): p.grad = None`"""
    if not isinstance(loop.target, ast.Name) or len(loop.body) != 1:
        return False
    statement = loop.body[0]
    if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
        test, statement = statement.test, statement.body[0]
        if f"{loop.target.id}.grad" not in (ast.unparse(test), ast.unparse(test).removesuffix(" is not None")):
            return False
    done = ast.unparse(statement)
    cleared = f"{loop.target.id}.grad"
    return done in (f"{cleared} = None", f"{cleared}.zero_()", f"{cleared}.data.zero_()")


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]
