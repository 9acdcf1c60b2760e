"""Where are a program's tensors, through calls?"""

from __future__ import annotations

import ast
import builtins

from accelify.codemod.devices.origins import NONE, THERE, UNKNOWN, Places
from accelify.codemod.devices.parts import Portions
from accelify.codemod.libraries import names
from accelify.codemod.preparing.prepared import brings_to_cpu
from accelify.codemod.semantics.scopes import returned
from accelify.codemod.semantics.values import Parameters

_TELLS = ("numpy", "tolist", "item", "size", "dim", "numel", "nelement", "stride", "backward", "append", "extend")
_HANDS_ON = {"sum", "max", "min", "abs", "pow", "round", "list", "tuple", "sorted", "reversed", "set", "filter", "zip"}
_HANDS_ON |= {"enumerate", "iter", "dict", "map"}


class Whereabouts(Portions):
    """What calls make of tensors: models what is on the device, creators what is on the CPU, others what they get."""

    def _call(self, node: ast.Call) -> Places:
        called = self.program.called(node)
        if self.tensors.is_model_call(node):
            return THERE
        if self.tensors.is_creator(node) or self._maps_to_tensors(node):
            return THERE if self._moves_with_a_model(node) else frozenset({node})
        if brings_to_cpu(node):
            return self._brought_to_cpu(node)
        callees = self.program.flow.callees.get(node)
        if callees:
            return self.all_of(returned(callees))
        if self.following(node) is not None:
            return UNKNOWN
        if any(self.roles.is_module(v) for v in self.program.values(node.func)):
            inside = self.tensors.is_in_model(self.program.frame(node))
            return THERE if inside else self._handed_on(node)
        if isinstance(node.func, ast.Attribute) and not called:
            return self._method(node, node.func)
        if "numpy.squeeze" in called:
            return self.all_of(_given(node))  # NumPy leaves it to the tensor
        if any(n.startswith("torch.utils.data.") for n in called):
            return UNKNOWN
        if any(map(_makes_no_tensor, called)):
            return NONE
        if any(n in _HANDS_ON or n.startswith("torch.") for n in called):
            return self.all_of(_given(node))
        return self._handed_on(node)

    def _handed_on(self, node: ast.Call) -> Places:
        return self.or_unknown(self.all_of(_given(node)))

    def _method(self, node: ast.Call, function: ast.Attribute) -> Places:
        if function.attr in _TELLS:
            return NONE
        if any(isinstance(v, Parameters) for v in self.program.values(node)):
            return THERE
        if function.attr == "type_as":
            return self.all_of(node.args)
        return self.or_unknown(self.of(function.value) | self.all_of(_given(node)))

    def _brought_to_cpu(self, node: ast.Call) -> Places:
        """`x.cpu()`; `x.type(torch.FloatTensor)` leaves there what was on the CPU before."""
        assert isinstance(node.func, ast.Attribute)
        held = self.of(node.func.value)
        return frozenset({node}) if held else NONE

    def _maps_to_tensors(self, node: ast.Call) -> bool:
        """`map(torch.LongTensor, rows)`"""
        if "map" not in self.program.called(node) or not node.args:
            return False
        return any(n.startswith("torch.") and n.endswith("ensor") for n in self.program.externals(node.args[0]))

    def _moves_with_a_model(self, node: ast.Call) -> bool:
        return self.tensors.is_kept(node) and self.tensors.is_in_model(self.program.frame(node))


def _given(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(k.value for k in node.keywords)]


def _makes_no_tensor(name: str) -> bool:
    if name.startswith(("numpy.", "torch.optim.", "argparse.")) or names.is_loader(name):
        return True
    if names.is_module(name):
        return True
    return "." not in name and hasattr(builtins, name) and name not in _HANDS_ON
