"""Facts about whose device a move goes to."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.destinations import gpu_texts, is_by_number, is_where_another_is, sets_default_gpu
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import training


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("f('cuda:0')", ["'cuda:0'"]),
        ("f('cuda:' + str(gpu))", ["'cuda:' + str(gpu)"]),
        ("f('cuda')", []),
        ("f('cpu')", []),
        ("f('model:0')", []),
        ("f({'cuda:1': 'cpu'})", []),
        ("f({'cuda:%d' % gpu: 'cuda:0'})", ["'cuda:0'"]),
        ("f(torch.device('cuda', gpu))", ["torch.device('cuda', gpu)"]),
        ("f(torch.device(0))", ["torch.device(0)"]),
        ("f(torch.device(int(gpu)))", ["torch.device(int(gpu))"]),
        ("f(torch.device(gpu))", []),
        ("f(torch.cuda.device(0))", []),
    ],
)
def test_gpus_by_their_number(code: str, found: list[str]) -> None:
    facts = Facts(f"import torch\n{code}\n")
    assert texts(gpu_texts(facts.program, facts.call("f"))) == found


@pytest.mark.parametrize(("device", "is_other"), [("y.device", True), ("device", False), ("'cuda'", False)])
def test_where_another_value_is(device: str, is_other: bool) -> None:
    assert is_where_another_is(ast.parse(device, mode="eval").body) is is_other
    assert not is_where_another_is(None)


@pytest.mark.parametrize(
    ("move", "by_number"), [("cuda(1)", True), ("cuda(gpu)", True), ("cuda()", False), ("to(device)", False)]
)
def test_a_move_to_one_gpu(move: str, by_number: bool) -> None:
    facts = training(before="device, gpu = torch.device('cuda'), 2\n", end=f"z = torch.zeros(3).{move}\n")
    (found,) = facts.script.devices.moves
    assert is_by_number(facts.program, found.device) is by_number


@pytest.mark.parametrize(
    ("call", "is_gpu"),
    [
        ("set_default_tensor_type('torch.cuda.FloatTensor')", True),
        ("set_default_tensor_type(torch.cuda.FloatTensor if c else torch.FloatTensor)", True),
        ("set_default_tensor_type(t=kind)", True),
        ("set_default_tensor_type('torch.DoubleTensor')", False),
        ("set_default_tensor_type(torch.DoubleTensor)", False),
        ("set_default_device('cuda')", True),
        ("set_default_device(torch.device('cuda' if c else 'cpu'))", True),
        ("set_default_device(kind)", True),
        ("set_default_device('cpu')", False),
        ("set_default_dtype(torch.float64)", False),
    ],
)
def test_what_makes_all_on_a_gpu(call: str, is_gpu: bool) -> None:
    facts = Facts(f"import sys, torch\nkind, c = sys.argv[1], torch.cuda.is_available()\ntorch.{call}  # <- here")
    assert isinstance(facts.here, ast.Call)
    assert sets_default_gpu(facts.program, facts.here) is is_gpu
