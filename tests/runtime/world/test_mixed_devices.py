"""Operations that take tensors of two memories, on a pretend GPU: what is moved, where it comes, what stays refused."""

from __future__ import annotations

import pytest
import torch

from accelify.runtime.world.mixed_devices import MixedDevices
from tests import pretend_gpu

pytestmark = pretend_gpu.NEEDED

# Snippets in which `net` and `out` are on the device, `x`, `y` and `rows` in the CPU's memory; what each prints.
MIXES = {
    "print(out.device, net[0](x).device)": "cuda:0 cuda:0",
    "F.cross_entropy(out, y).backward(); print(net[0].weight.grad.device)": "cuda:0",
    "w = torch.ones(2, 3, requires_grad=True); (out @ w).sum().backward(); print(w.grad.device)": "cpu",
    "print((out.argmax(1) == y).device, torch.cat([rows, out]).device, torch.stack([y, y.cuda()]).device)": (
        "cuda:0 cuda:0 cuda:0"
    ),
    "print(type(out.detach().numpy()).__name__, np.asarray(out.detach()).shape, np.stack([out[0].detach()]).shape)": (
        "ndarray (6, 2) (1, 2)"
    ),
    "o, a = out.detach(), np.zeros((6, 2)); print((a == o).device, (o == a).device)": "cuda:0 cuda:0",
    "print(np.exp(out.detach()).device, np.ones(2)[y.cuda()].shape)": "cpu (6,)",
    "total = torch.zeros(1); total += out.sum().detach(); print(total.device)": "cpu",
    "rows[:2] = out[:2].detach(); rows.mul_(torch.ones(2).cuda()); print(rows.device)": "cpu",
    "print(rows[out.argmax(1)].device, out[y].device)": "cpu cuda:0",
    "net[0].weight.data = torch.ones(8, 4); print(net[0].weight.device)": "cuda:0",
    "torch.add(rows, out.detach(), out=rows); print(rows.device)": "cpu",
    "print(torch.distributions.Normal(torch.zeros(2), torch.ones(2)).log_prob(out).device)": "cuda:0",
    "p = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 4), torch.tensor([3, 2]).cuda(), True)\n"
    "print(nn.LSTM(4, 5).cuda()(p)[0].data.device)": "cuda:0",
    "print(nn.GRU(4, 5).cuda()(torch.ones(3, 2, 4), torch.zeros(1, 2, 5))[0].device)": "cuda:0",
    "q = torch.ones(3, 2, 4); print(nn.MultiheadAttention(4, 2).cuda()(q, q, q)[0].device)": "cuda:0",
    "print(x.to(out).device, out.to(x).device, out.type_as(x).device)": "cuda:0 cpu cpu",
}
# Snippets that fail on one device, too, and what the error says.
FAILS = {
    "net(torch.ones(3, 5))": "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x8)",
    "out.numpy()": "Can't call numpy() on Tensor that requires grad",
    "mixed.leave(); net(x)": "cuda:0 and cpu",
}
STEPS = {
    "optimizer = torch.optim.Adam(net.parameters()); mixed.skip_steps(optimizer)\n"
    "optimizer.register_step_pre_hook(lambda *_: print(mixed.is_entered))\n"
    "F.cross_entropy(net(x), y).backward(); optimizer.step(); print(mixed.is_entered, net(x).device)": (
        "False\nTrue cuda:0"
    ),
    "optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2); mixed.skip_steps(optimizer)\n"
    "def closure():\n"
    "    loss = F.cross_entropy(net(x), y)\n    loss.backward()\n    return loss\n"
    "print(optimizer.step(closure).device)": "cuda:0",
}
BEFORE = """
import numpy as np
from torch.nn import functional as F
from accelify.runtime.world.mixed_devices import MixedDevices
mixed = MixedDevices(torch.device("cuda", 0))
mixed.enter()
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).cuda()
x, y, rows = torch.ones(6, 4), torch.tensor([0, 1] * 3), torch.zeros(6, 2)
out = net(x)
"""


def test_what_is_refused_is_moved_and_done_again() -> None:
    expected = {**MIXES, **STEPS}
    answers = pretend_gpu.answers([*expected, *FAILS], gpus=1, before=BEFORE, after="mixed.leave()")
    assert dict(zip(expected, answers, strict=False)) == expected
    for text, answer in zip(FAILS, answers[len(expected) :], strict=True):
        assert FAILS[text] in answer, text


def test_data_come_to_their_parameter_though_a_gpu_would_take_them_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(MixedDevices, "_together")  # what moves after a refusal
    mixed, parameter = MixedDevices(torch.device("meta")), torch.nn.Parameter(torch.ones(2, device="meta"))
    mixed.enter()
    try:
        parameter.data = torch.ones(2)
    finally:
        mixed.leave()
    assert parameter.device.type == "meta"


class Moved(torch.Tensor):
    def to(self, *args: object, **kwargs: object) -> torch.Tensor:
        raise AssertionError("it is where its module moves it")


def test_modules_move_their_parameters() -> None:
    mixed, layer = MixedDevices(torch.device("cpu")), torch.nn.Linear(2, 1)
    mixed.enter()
    try:
        layer._apply(lambda parameter: (parameter.detach() + 1).as_subclass(Moved))
        with pytest.raises(AssertionError, match="where its module moves it"):
            layer.weight.data = torch.ones(1, 2).as_subclass(Moved)
    finally:
        mixed.leave()


def test_on_the_cpu_nothing_is_entered() -> None:
    from accelify.runtime import Accelerator, Environment

    Accelerator(cpu=True, mixed_devices=True, environment=Environment())
    assert torch.overrides._len_torch_function_stack() == 0


@pytest.mark.parametrize("as_list", [False, True])
def test_a_graph_keeps_its_tensors(as_list: bool) -> None:
    """The pretend GPU has no gradients across devices; what is moved can be seen without."""
    mixed = MixedDevices(torch.device("meta"))
    out, x, given = torch.ones(2, device="meta"), torch.ones(2, requires_grad=True), torch.ones(2)
    outputs, inputs = ([out], [x]) if as_list else (out, x)
    (kept_out, kept, moved), _ = mixed._together(torch.autograd.grad, ((outputs, inputs, given), {}))
    assert (kept_out, kept, moved.device.type) == (outputs, inputs, "meta")
    named = {"outputs": outputs, "inputs": inputs, "grad_outputs": given}
    _, together = mixed._together(torch.autograd.grad, ((), named))
    assert together["inputs"] is inputs
    assert together["grad_outputs"].device.type == "meta"
    _, together = mixed._together(torch.Tensor.backward, ((out,), {"gradient": given, "inputs": inputs}))
    assert together["inputs"] is inputs
    assert together["gradient"].device.type == "meta"


def test_what_is_refused_for_another_reason_is_not_moved() -> None:
    mixed = MixedDevices(torch.device("meta"))
    assert mixed._together(torch.Tensor.view, ((torch.ones(3), 2), {})) is None
    assert mixed._together(torch.matmul, ((torch.ones(3), torch.ones(2)), {})) is None
    assert mixed._together(torch.Tensor.numpy, ((torch.ones(3, requires_grad=True),), {})) is None


def test_weights_and_statistics_are_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pretend GPU has no tensors that a CPU's could become."""
    mixed, layer = MixedDevices(torch.device("cpu")), torch.nn.BatchNorm1d(2)
    rows = torch.zeros(4, 2)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, place: tensor + 5)
    given = (rows, layer.running_mean, layer.running_var), {"weight": layer.weight, "bias": layer.bias}
    mixed._bring_for_good("batch_norm", given, torch.device("meta"))
    assert layer.bias.sum() == 0
    mixed._bring_for_good("batch_norm", given, mixed.device)
    assert [t.mean().item() for t in (layer.running_mean, layer.running_var, layer.weight, rows)] == [5, 6, 6, 0]
