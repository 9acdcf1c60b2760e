"""A GPU that is not present: what it does as one does, and the device mistakes that it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelify.verify.judging.devices import devices as judged
from accelify.verify.trace import End, Run
from accelify.verify.verdict import Row, Status, Verdict, Which
from tests import pretend_gpu
from tests.verify import scripts
from tests.verify.conftest import LIMITS, Prove
from tests.verify.test_judge import evidence, traced

CLASSIFIER, MIGRATED = scripts.CLASSIFIER, scripts.CLASSIFIER_MIGRATED
FEW = replace(LIMITS, steps=3)

pytestmark = pretend_gpu.NEEDED

# Snippets that a GPU runs, all in one process; what each prints.
RUNS = {
    "m = nn.Linear(4, 2).cuda(); w = m.weight; m(torch.ones(3, 4, device='cuda')).sum().backward(); "
    "print(w.device, w.grad.device, isinstance(w, nn.Parameter))": "cuda:0 cuda:0 True",
    "m = nn.Linear(4, 2); o = torch.optim.Adam(m.parameters()); m.to('cuda'); m(torch.ones(3, 4).cuda()).sum()"
    ".backward(); o.step(); print(len(o.state))": "2",
    "m = nn.LSTM(4, 5).cuda(); print(m(torch.ones(2, 3, 4).cuda())[0].device)": "cuda:0",
    "p = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 4).cuda().requires_grad_(), torch.tensor([3, 2]), True); "
    "y = nn.GRU(4, 5).cuda()(p)[0]; y.data.sum().backward(); "
    "print(y.data.device, y.batch_sizes.device, nn.utils.rnn.pad_packed_sequence(y)[0].device)": "cuda:0 cpu cuda:0",
    "p = nn.utils.rnn.pack_sequence([torch.ones(3, 4).cuda(), torch.ones(1, 4).cuda()]); "
    "print(p.data.device, p.batch_sizes.tolist(), nn.LSTM(4, 5).cuda()(p)[1][0].device)": "cuda:0 [2, 1, 1] cuda:0",
    "x = torch.arange(9, device='cuda'); print(x[torch.tensor([1, 2])].tolist(), f'{x[2]:d}')": "[1, 2] 2",
    "with torch.autocast('cuda'):\n y = nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda())\n"
    " print(y.dtype, nn.functional.mse_loss(y, y).dtype)": "torch.float16 torch.float32",
    "m = nn.Linear(2, 1).cuda(); o = torch.optim.SGD(m.parameters(), 0.1); s = torch.amp.GradScaler('cuda'); "
    "s.scale(m(torch.ones(1, 2).cuda()).sum()).backward(); s.unscale_(o); s.step(o); s.update(); "
    "print(s.get_scale(), m.weight.grad.device)": "65536.0 cuda:0",
    "print(torch.randn(2, device='cuda', generator=torch.Generator('cuda').manual_seed(1)).device)": "cuda:0",
    "print(torch.ones(2).pin_memory().is_pinned(), torch.ones(2).type(torch.cuda.FloatTensor).type())": (
        "True torch.cuda.FloatTensor"
    ),
    "s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(s): pass\n"
    "torch.cuda.synchronize(); print(torch.cuda.get_device_name(0), torch.cuda.device_count())": "pretend GPU 2",
    "m = nn.Linear(2, 2).cuda(); torch.save(m.state_dict(), b := io.BytesIO()); b.seek(0); "
    "print(torch.load(b, map_location='cuda')['weight'].device, copy.deepcopy(m).weight.device)": "cuda:0 cuda:0",
}
# Snippets that a GPU refuses, and what the error says.
REFUSED = {
    "a = torch.ones(2)\nb = torch.ones(2).cuda()\na + b": (
        "cuda:0 and cpu: add of a tensor of shape [2] on cuda:0 (made at s.py:2 moved there at s.py:2) and a tensor of "
        "shape [2] on cpu (made at s.py:1 and never moved to the GPU)"
    ),
    "m = nn.Linear(4, 2)\nm(torch.ones(3, 4, device='cuda'))": "`bias` of Linear on cpu (made at s.py:1",
    "nn.LSTM(4, 5).cuda()(torch.ones(2, 3, 4).cuda(), (torch.zeros(1, 3, 5), torch.zeros(1, 3, 5)))": "lstm of ",
    "nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 4).cuda(), torch.tensor([3, 2]).cuda(), True)": (
        "'lengths' argument should be a 1D CPU int64 tensor"
    ),
    "nn.CrossEntropyLoss(torch.ones(2))(torch.ones(1, 2).cuda(), torch.tensor([0]).cuda())": "`weight` of CrossEnt",
    "torch.ones(2).cuda().numpy()": "can't convert cuda:0 device type tensor to numpy",
    "torch.arange(9)[torch.tensor([1]).cuda()]": "index of ",
    "torch.ones(1, device='cuda:0') + torch.ones(1, device='cuda:1')": "cuda:0 and cuda:1",
    "torch.randperm(4, device='cuda', generator=torch.Generator())": "Expected a 'cuda' device type for generator",
    "torch.randperm(4, generator=torch.Generator('cuda'))": "Expected a 'cpu' device type for generator",
    "torch.ones(2).cuda().pin_memory()": "only dense tensors on the CPU can be pinned",
    "torch.ones(2, device='cuda:7')": "invalid device ordinal",
}


def test_it_does_what_a_gpu_does_and_refuses_what_a_gpu_refuses() -> None:
    answers = pretend_gpu.answers([*RUNS, *REFUSED], gpus=2)
    for text, expected, answer in zip(RUNS, RUNS.values(), answers, strict=False):
        assert answer == expected, text
    for text, expected, answer in zip(REFUSED, REFUSED.values(), answers[len(RUNS) :], strict=True):
        assert answer.startswith(("WrongDevice: ", "NotOnTheHost: ")), (text, answer)
        assert expected in answer, text


def devices(verdict: Verdict) -> Row:
    return next(row for row in verdict.rows if row.run is Which.PRETEND)


def line_of(text: str, part: str) -> str:
    number = next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
    return f"train_many.py:{number}"


def test_two_ranks_train_each_on_a_gpu_of_its_own(proving: Prove) -> None:
    verdict = proving(scripts.RANDOM_BY_NATURE, limits=FEW, on_gpus=True)
    assert verdict.status == 0
    assert devices(verdict).words.startswith("2 steps, in which no operation mixes devices")


MISTAKES = {
    "a tensor of the script's own": ("        loss = ", "        x = x + torch.ones(6)\n        loss = ", "x = x + "),
    "a model that is not prepared": (
        "encoder, head = accelerator.prepare(encoder, head)",
        "encoder = accelerator.prepare(encoder)",
        "loss = nn",
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_device_mistake_is_found_with_its_line(kind: str, proving: Prove) -> None:
    old, new, part = MISTAKES[kind]
    text = MIGRATED.replace(old, new, 1)
    found = devices(proving(CLASSIFIER, text, FEW, on_gpus=True))
    assert found.status is Status.DIFFERS, found.words
    assert found.at == line_of(text, part)


def test_a_script_is_run_to_its_evaluation(proving: Prove) -> None:
    text = MIGRATED.replace("            correct += ", "            y = y.cpu()\n            correct += ")
    found = devices(proving(CLASSIFIER, text, on_gpus=True))
    assert (found.status, found.at) == (Status.DIFFERS, line_of(text, "correct += "))


@pytest.mark.parametrize(
    "loaded",
    [
        "torch.load(file, map_location='cuda:0' if torch.cuda.is_available() else 'cpu')",
        "torch.load(file).to('cuda:0' if torch.cuda.is_available() else 'cpu')",
    ],
)
def test_a_rank_that_takes_the_memory_of_another_ones_gpu_is_found(loaded: str, proving: Prove) -> None:
    line = f"import io\nfile = io.BytesIO()\ntorch.save(torch.ones(2), file)\nfile.seek(0)\nstart = {loaded}\nfor epoch"
    text = MIGRATED.replace("for epoch", line, 1)
    found = devices(proving(CLASSIFIER, text, FEW, on_gpus=True))
    assert (found.status, found.at) == (Status.DIFFERS, line_of(text, "start = "))
    assert found.words.startswith("rank 1 puts a tensor on cuda:0, the GPU of another rank")


def test_a_mistake_of_the_originals_own_is_not_the_rewrites() -> None:
    def ended(message: str) -> Run:
        return Run("on pretend GPUs", (replace(traced(), end=End("error", 1, message, "train.py:7")),))

    wrong = ended("accelify.verify.inside.pretend.tensors.WrongDevice: cuda:0 and cpu: add of a and b")
    run = replace(evidence(traced(), traced()), on_gpus=wrong)
    row = judged(run)
    assert (row.status, row.words, row.at) == (Status.DIFFERS, "cuda:0 and cpu: add of a and b", "train.py:7")
    assert judged(replace(run, original_on_gpu=wrong)).status is Status.NATURE
    odd = judged(replace(run, on_gpus=ended("NotImplementedError: no kernel")))
    assert (odd.status, odd.words) == (Status.NOTHING, "cannot be emulated: NotImplementedError: no kernel")
