"""Shapes that other tools are known to have broken, each rewritten or left alone."""

from __future__ import annotations

import pytest

from accelify.codemod.result import Status
from tests.codemod.pairs import changed, left_alone, rewritten, run, script

# Moves of the model, and what stands round them.


def test_comments_round_a_removed_move_stay_or_are_listed() -> None:
    result = changed(
        "-model.to(device)  # to the GPU",
        model="# A block of its own.\n\n# about the move\nmodel.to(device)  # to the GPU",
    )
    assert "# A block of its own." in result.after.decode()
    listed = " ".join(c.reason for c in result.changes)
    assert "# to the GPU" in listed
    assert "# about the move" in result.after.decode() or "# about the move" in listed


def test_a_guard_that_held_only_moves_goes() -> None:
    changed("-if use_cuda:", "-model.to(device)", model="if use_cuda:\n    model.to(device)")


def test_a_guard_that_held_more_keeps_the_rest() -> None:
    changed("-model.cuda()", model="if use_cuda:\n    model.cuda()\n    print('GPU')")


def test_a_guard_on_one_line() -> None:
    result = changed(
        "-if torch.cuda.is_available(): model.cuda(); criterion.cuda()",
        model="criterion = nn.MSELoss()\nif torch.cuda.is_available(): model.cuda(); criterion.cuda()",
        end="print(criterion)",
    )
    assert result.status is Status.MIGRATED


def test_a_guard_with_an_else_keeps_what_the_else_does() -> None:
    changed(
        "-if use_cuda:",
        "-model.cuda()",
        "-else:",
        "+if not use_cuda:",
        model="if use_cuda:\n    model.cuda()\nelse:\n    print('slow')",
    )


@pytest.mark.parametrize(
    "move", ["model.to(torch.bfloat16)", "model.double()", "model.to(dtype=torch.float64)", "model.cpu()"]
)
def test_what_is_no_move_to_the_training_device_stays(move: str) -> None:
    assert move in run(script(model=move)).after.decode()


def test_a_move_that_is_also_a_cast_keeps_the_cast() -> None:
    changed("-model.to(device, torch.float64)", "+model.to(torch.float64)", model="model.to(device, torch.float64)")


def test_a_move_in_a_chain_goes_alone() -> None:
    changed("-model = model.to(device).train()", "+model = model.train()", model="model = model.to(device).train()")


# Moves of a batch.


def test_a_tuple_of_moves_goes() -> None:
    changed("-x, y = x.to(device), y.to(device)", batch="x, y = x.to(device), y.to(device)")


def test_a_tuple_that_swaps_keeps_the_swap() -> None:
    after = run(script(batch="y, x = x.to(device), y.to(device)")).after.decode()
    assert "y, x = x, y\n" in after or "y, x = x.to(device), y.to(device)\n" in after


def test_a_move_inside_an_expression_goes_alone() -> None:
    changed("-x = x.to(device).view(-1, 4)", "+x = x.view(-1, 4)", batch="x = x.to(device).view(-1, 4)")


def test_a_variable_round_a_move_keeps_its_arguments() -> None:
    changed(
        "-x = Variable(x.cuda(), requires_grad=True)",
        "+x = Variable(x, requires_grad=True)",
        imports="from torch.autograd import Variable",
        batch="x = Variable(x.cuda(), requires_grad=True)",
    )


def test_a_list_of_moves_goes() -> None:
    after = run(script(batch="x, y = [t.to(device) for t in (x, y)]")).after.decode()
    assert "t.to(device)" not in after


def test_a_cast_of_a_batch_keeps_its_dtype() -> None:
    changed("-x = x.to(device, torch.float32)", "+x = x.to(torch.float32)", batch="x = x.to(device, torch.float32)")
    changed(
        "-x = x.to(device, dtype=torch.float32)",
        "+x = x.to(dtype=torch.float32)",
        batch="x = x.to(device, dtype=torch.float32)",
    )
    changed("-x = x.to(device=device).float()", "+x = x.float()", batch="x = x.to(device=device).float()")


@pytest.mark.parametrize("other", ["x = x.to(y)", "x = x.to(y.dtype)", "x = x.double().float()"])
def test_other_moves_of_a_batch_stay(other: str) -> None:
    changed(batch=other)


def test_a_new_tensor_keeps_its_place() -> None:
    changed(
        "-model.to(device)", model="model.to(device)", batch="noise = torch.zeros(2, 4, device=device)\nx = x + noise"
    )
    changed("-model.to(device)", model="model.to(device)", batch="noise = torch.zeros(2, 4).to(device)\nx = x + noise")
    changed(
        "-noise = torch.zeros(2, 4).cuda()",
        "+noise = torch.zeros(2, 4).to(accelerator.device)",
        batch="noise = torch.zeros(2, 4).cuda()\nx = x + noise",
    )


def test_a_method_called_to_of_something_else_stays() -> None:
    changed(end='import pandas\nframe = pandas.DataFrame()\nframe.to("csv")')


def test_a_batch_moved_to_the_cpu_stays() -> None:
    changed(batch="seen = x.cpu().numpy()")


def test_a_batch_kept_under_another_name_moves_no_more() -> None:
    moves = "inputs = x.to(device)\ny = y.to(device)\nx = inputs"
    gone = ["-model.to(device)", "-inputs = x.to(device)", "+inputs = x", "-y = y.to(device)"]
    changed(*gone, model="model.to(device)", batch=moves)


# The backward pass.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss.backward(retain_graph=True)", "accelerator.backward(loss, retain_graph=True)"),
        ("loss.mean().backward()", "accelerator.backward(loss.mean())"),
        ("(loss + x.sum()).backward()", "accelerator.backward(loss + x.sum())"),
        ("sum([loss, loss]).backward()", "accelerator.backward(sum([loss, loss]))"),
        ("nn.functional.l1_loss(model(x), y).backward()", "accelerator.backward(nn.functional.l1_loss(model(x), y))"),
        ("loss.backward(torch.ones_like(loss))", "accelerator.backward(loss, gradient=torch.ones_like(loss))"),
        ("loss.backward(None, True)", "accelerator.backward(loss, gradient=None, retain_graph=True)"),
        ("(loss if epoch else 2 * loss).backward()", "accelerator.backward(loss if epoch else 2 * loss)"),
        ("loss.backward()  # learn", "accelerator.backward(loss)  # learn"),
        ("loss /= 2; loss.backward()", "loss /= 2; accelerator.backward(loss)"),
    ],
)
def test_every_way_to_call_backward(before: str, after: str) -> None:
    changed("-" + before, "+" + after, backward=before)


def test_a_named_expression_under_backward() -> None:
    after = run(script(backward="(total := loss * 2).backward()\nprint(total)")).after.decode()
    assert "accelerator.backward((total := loss * 2))" in after or "accelerator.backward(total := loss * 2)" in after
    compile(after, "train.py", "exec")


@pytest.mark.parametrize(
    ("backward", "comes_out"),
    [
        ("([loss, 2 * loss])", "loss + 2 * loss)"),
        ("((loss,), retain_graph=True)", "loss, retain_graph=True)"),
        ("(tensors=[loss if x.any() else 0 * loss, loss])", "(loss if x.any() else 0 * loss) + loss)"),
        ("([loss, loss - 1])", "loss + (loss - 1))"),
        ("([loss, loss], None, True)", "loss + loss, retain_graph=True)"),
        ("(loss)", "loss)"),
        ("(2 * (loss - 1), retain_graph=True)", "2 * (loss - 1), retain_graph=True)"),
        ("(tensors=loss, grad_tensors=None)", "loss)"),
        ("(loss, torch.ones(()).to(device), True)", "loss, gradient=torch.ones(()).to(device), retain_graph=True)"),
        ("(losses)", "sum(losses))"),
        ("([loss, *losses])", "sum([loss, *losses]))"),
        ("([loss], [torch.ones(())])", "loss)"),
        ("(losses, [torch.ones(1).to(device) for _ in losses], True)", "sum(losses), retain_graph=True)"),
    ],
)
def test_a_backward_pass_by_a_function_is_one_over_the_sum(backward: str, comes_out: str) -> None:
    result = run(script(backward=f"losses = [loss]\ntorch.autograd.backward{backward}"))
    assert result.status is Status.MIGRATED, result.notes
    assert f"accelerator.backward({comes_out}" in result.after.decode()


@pytest.mark.parametrize("given", ["unknown", "losses, [loss.detach()]", "[loss], inputs=[x]"])
def test_a_backward_pass_over_what_cannot_be_told_is_declined(given: str) -> None:
    result = run(script(backward=f"losses = [loss]\ntorch.autograd.backward({given})"))
    assert result.status is Status.DECLINED
    assert any(note.rule == "backward" for note in result.notes)


def test_a_backward_pass_by_an_imported_function_is_declined() -> None:
    result = run(script(imports="from torch.autograd import backward", backward="backward([loss])\nloss.backward()"))
    assert result.status is Status.DECLINED
    assert any(note.rule == "backward" for note in result.notes)


def test_a_backward_that_gives_something_is_no_tensors() -> None:
    left_alone(
        """\
        import torch
        from torch import nn

        class Flows(nn.Module):
            def __init__(self, flows):
                super().__init__()
                self.flows = nn.ModuleList(flows)

            def backward(self, z):
                for flow in self.flows[::-1]:
                    z, log_det = flow.backward(z)
                return z
        """
    )


def test_a_backward_that_gives_something_is_pointed_out_beside_one_that_changes() -> None:
    result = run(script(end="gradient = layers.backward(x, y)"))
    assert [n.message for n in result.notes if n.rule == "own_methods"] == [
        "not changed: it returns a value, which a tensor's `backward` does not"
    ]


def test_a_backward_that_is_no_tensors_is_left_alone() -> None:
    left_alone(
        """\
        import torch


        class Undo:
            def backward(self):
                return 1


        Undo().backward()
        """
    )


# Names and imports.


def test_a_taken_name_is_not_overwritten() -> None:
    result = run(script(before="accelerator = 'gpu'", end="print(accelerator)"))
    after = result.after.decode()
    if result.status is Status.MIGRATED:
        assert "accelerator = 'gpu'" in after
        assert after.count("\naccelerator = ") == 1
    else:
        assert any("accelerator" in n.message for n in result.notes)


def test_a_class_of_the_same_name_is_not_shadowed() -> None:
    result = run(script(before="class Accelerator:\n    pass", end="print(Accelerator())"))
    after = result.after.decode()
    if result.status is Status.MIGRATED:
        assert "import Accelerator\n" not in after
    else:
        assert result.notes


def test_a_star_import_of_optimizers_is_seen() -> None:
    text = script(imports="from torch.optim import *").replace("torch.optim.SGD", "SGD")
    after = run(text).after.decode()
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in after


def test_an_optimizer_under_a_name_of_the_scripts_own_is_seen() -> None:
    text = script(before="Best = torch.optim.AdamW").replace("torch.optim.SGD(", "Best(")
    after = run(text).after.decode()
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in after


def test_a_parameter_that_hides_a_module_is_not_taken_for_it() -> None:
    text = "def fit(torch, data):\n    for row in data:\n        torch.loss(row).backward()\n\n\nfit(print, [])\n"
    assert run(text).status is not Status.MIGRATED


def test_imports_after_an_environment_variable_stay_after_it() -> None:
    text = 'import os\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "1"\n' + script()
    after = run(text).after.decode()
    assert after.index("os.environ") < after.index("import torch") < after.index("accelify.runtime")


def test_imports_under_try_are_not_taken_apart() -> None:
    text = script(imports="try:\n    import apex\nexcept ImportError:\n    apex = None", end="print(apex)")
    after = run(text).after.decode()
    assert "try:\n    import apex\nexcept ImportError:\n    apex = None" in after
    assert "\n    from accelify" not in after


def test_the_head_of_a_file_stays_its_head() -> None:
    head = '#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"""What it does."""\nfrom __future__ import annotations\n\n'
    after = run(head + script()).after.decode()
    assert after.startswith(head)


def test_an_import_list_over_several_lines_keeps_its_comments() -> None:
    text = script(imports="from os import (\n    path,  # joins\n    sep,\n)", end="print(path, sep)")
    assert "from os import (\n    path,  # joins\n    sep,\n)" in run(text).after.decode()


# Data.


def test_the_users_sampler_is_never_touched() -> None:
    sampler = "from torch.utils.data import RandomSampler, BatchSampler"
    for argument in ("sampler=RandomSampler(data)", "batch_sampler=BatchSampler(RandomSampler(data), 2, True)"):
        text = script(imports=sampler, before="data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))")
        text = text.replace("TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)", f"data, {argument})")
        after = run(text).after.decode()
        assert f"loader = DataLoader(data, {argument})\n" in after


def test_batches_from_a_function_of_the_scripts_own_get_a_verdict() -> None:
    result = run(
        """\
import numpy as np
import torch
from torch import nn

data = np.random.randn(100, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())


def get_batch(split):
    index = torch.randint(90, (8,))
    return torch.from_numpy(data[index]).float()


step = 0
while True:
    loss = model(get_batch("train")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step > 10:
        break
"""
    )
    assert result.status is Status.MIGRATED
    assert "seed_by_rank()" in result.after.decode()
    assert any("draws its own data" in n.message for n in result.notes)


# What is there already.


def test_a_migrated_file_is_left_alone() -> None:
    after = run(script()).after.decode()
    assert run(after).status is Status.UNCHANGED


def test_a_file_on_another_library_is_left_alone() -> None:
    left_alone(
        """\
        from lightning import Fabric
        from torch import nn, optim
        from torch.utils.data import DataLoader

        fabric = Fabric()
        model = nn.Linear(1, 1)
        model, optimizer = fabric.setup(model, optim.SGD(model.parameters(), lr=0.1))
        for batch in fabric.setup_dataloaders(DataLoader([])):
            fabric.backward(model(batch).sum())
            optimizer.step()
        """
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("torch.distributed.init_process_group('gloo')", "no DistributedSampler shards"),
        ("model = nn.parallel.DistributedDataParallel(model)", "DistributedDataParallel"),
    ],
)
def test_a_script_that_is_distributed_by_hand_is_migrated_whole_or_declined(line: str, reason: str) -> None:
    result = run(script(model=line))
    if result.status is Status.MIGRATED:
        assert reason not in result.after.decode()
    else:
        assert result.status is Status.DECLINED
        assert any(reason in n.message for n in result.notes), result.notes


def test_a_half_migrated_file_is_finished_or_declined() -> None:
    text = script(imports="from accelify.runtime import Accelerator", before="accelerator = Accelerator()")
    result = run(text)
    assert result.status in (Status.DECLINED, Status.UNCHANGED) or "accelerator.prepare(" in result.after.decode()
    assert result.after.decode().count("accelerator = Accelerator()") == 1


def test_two_statements_on_a_line_lose_only_the_one() -> None:
    changed("-model.to(device); print(1)", "+print(1)", model="model.to(device); print(1)")
    changed("-print(1); model.to(device)", "+print(1)", model="print(1); model.to(device)")


def test_a_move_over_several_lines() -> None:
    changed(
        "-x = x.to(", "-device,", "-non_blocking=True,", "-)", batch="x = x.to(\n    device,\n    non_blocking=True,\n)"
    )


def test_rewrites_a_plain_script_line_by_line() -> None:
    rewritten(
        """\
        import torch

        net = torch.nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for batch in torch.utils.data.DataLoader([torch.ones(2)] * 8):
            loss = net(batch).sum()
            loss.backward()
            opt.step()
        """,
        """\
        import torch
        from accelify.runtime import Accelerator

        accelerator = Accelerator()

        net = torch.nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net, opt = accelerator.prepare(net, opt)
        for batch in accelerator.prepare(torch.utils.data.DataLoader([torch.ones(2)] * 8)):
            loss = net(batch).sum()
            accelerator.backward(loss)
            opt.step()
        """,
    )


_NET = "class Net(nn.Linear):\n    def cuda(self):\n        return self\n\nmodel = Net(4, 1)"
_MADE = "\n\nmodel = nn.Linear(4, 1)"


@pytest.mark.parametrize(
    ("own", "call", "name"),
    [
        (_NET, "model.cuda()", "Net.cuda"),
        (f"def cuda(x):\n    return x.cuda(){_MADE}", "model = cuda(model)", "cuda"),
        (f"def to(x, where):\n    return x.to(where){_MADE}", "model = to(model, 'cuda')", "to"),
        (f"def ours(x):\n    return x.cuda(){_MADE}", "model = ours(model)", None),
    ],
)
def test_a_move_that_is_the_scripts_own_stays_and_is_on_record(own: str, call: str, name: str | None) -> None:
    result = run(script(model=f"{own}\n{call}"))
    lines = result.after.decode().splitlines()
    kept = [(lines[n.line - 1], n.message) for n in result.kept if n.rule == "own_methods"]
    said = f"stays: `{name}` is the script's own; the moves inside it are looked at there"
    assert kept == ([(call, said)] if name else [])
    assert call in lines
    assert all(n.rule != "own_methods" for n in result.notes)


def test_a_block_on_one_line_is_spread_out_where_something_new_comes_in() -> None:
    build = "if use_cuda: model = nn.Linear(4, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # both"
    text = "\n".join(
        [
            *("import torch", "from torch import nn", "from torch.utils.data import DataLoader", "use_cuda = True"),
            *("loader = DataLoader(torch.randn(8, 4))", build),
            *("if not use_cuda:", "    raise SystemExit", "for x in loader:"),
            "    optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()\n",
        ]
    )
    after = run(text).after.decode()
    spread = after[after.index("if use_cuda:") : after.index("for x in loader")]
    assert [line.strip() for line in spread.splitlines()][:3] == [
        "if use_cuda:",
        "model = nn.Linear(4, 1)",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # both",
    ]
    assert "model, optimizer = accelerator.prepare(" in spread


def test_a_device_chosen_by_a_chain_of_conditions() -> None:
    chain = "if use_cuda:\n    torch.cuda.set_device(0)\n    device = torch.device('cuda:0')\n"
    chain += "elif torch.backends.mps.is_available():\n    device = torch.device('mps')\n"
    chain += "else:\n    device = torch.device('cpu')"
    assert run(script(before=chain)).status is Status.MIGRATED
