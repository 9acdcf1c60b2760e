"""Promise 4: after `backward`, gradients are the means over ranks, however the loss came about."""

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from accelify.runtime import Accelerator, DistributedDataParallelKwargs
from accelify.runtime.gradients import buckets


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)
        self.extra = nn.Linear(8, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

    def loss(self, x, y):
        return cross_entropy(self.second(torch.relu(self.first(x))), y)

    def choose(self, x, which):
        return [self.second, self.extra][which](torch.relu(self.first(x)))


def _data(rank, seed=0):
    generator = torch.Generator().manual_seed(seed * 100 + rank)
    return torch.randn(5, 4, generator=generator), torch.randint(3, (5,), generator=generator)


def _prepared(accelerator, make=Net):
    """A prepared model and a plain copy of it."""
    torch.manual_seed(accelerator.process_index)
    model = accelerator.prepare(make())
    return model, copy.deepcopy(model)


def _ranks(accelerator):
    return range(accelerator.num_processes)


def _assert_means(accelerator, model, plain, loss_of):
    """The model's gradients are the mean of what each rank's loss alone gives on the plain copy."""
    sums = {}
    for rank in _ranks(accelerator):
        plain.zero_grad()
        losses = loss_of(plain, rank)
        for loss in losses if isinstance(losses, list) else [losses]:
            loss.backward(retain_graph=True)
        for name, parameter in plain.named_parameters():
            if parameter.grad is not None:
                sums[name] = sums.get(name, 0) + parameter.grad / accelerator.num_processes
    for name, parameter in model.named_parameters():
        if name not in sums:
            assert parameter.grad is None, name
        else:
            torch.testing.assert_close(parameter.grad, sums[name], msg=lambda text, name=name: f"{name}: {text}")
    _assert_equal(accelerator, [p.grad for p in model.parameters() if p.grad is not None])


def _assert_equal(accelerator, tensors):
    """Bit for bit the same on all ranks."""
    everyone = accelerator.state._collectives.gather_object([tensor.tolist() for tensor in tensors])
    assert all(values == everyone[0] for values in everyone)


def model_is_the_same_object_with_the_same_class_and_keys(accelerator):
    net = Net()
    keys, members = list(net.state_dict()), set(vars(net))
    assert accelerator.prepare(net) is net
    assert type(net) is Net
    assert list(net.state_dict()) == keys
    assert set(vars(net)) == members


def ranks_start_from_rank_0(accelerator):
    torch.manual_seed(accelerator.process_index)
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    net[1].running_mean.fill_(accelerator.process_index)
    net[0].bias.requires_grad_(False)
    accelerator.prepare(net)
    _assert_equal(accelerator, [*net.parameters(), *net.buffers()])
    assert net[1].running_mean.tolist() == [0, 0, 0]


def loss_through_call(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        x, y = _data(rank)
        return cross_entropy(net(x), y)

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def loss_from_a_method_that_bypasses_call(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        return net.loss(*_data(rank))

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def gradients_of_inputs_on_some_ranks(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        x, y = _data(rank)
        return cross_entropy(net(x), y)

    for _ in range(accelerator.process_index):
        x = _data(0)[0].requires_grad_()
        model(x).sum().backward(inputs=[x])
        assert x.grad.abs().sum() > 0
    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def submodules_called_directly(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        x, y = _data(rank)
        return cross_entropy(net.extra(net.first(x)), y)

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def other_parameters_unused_on_each_rank_step_after_step(accelerator):
    model, plain = _prepared(accelerator)
    for step in range(4):

        def loss_of(net, rank, step=step):
            x, y = _data(rank, step)
            return cross_entropy(net.choose(x, (rank + step) % 2), y)

        model.zero_grad()
        accelerator.backward(loss_of(model, accelerator.process_index))
        _assert_means(accelerator, model, plain, loss_of)


def unused_in_the_first_step_and_used_later(accelerator):
    def make():
        return nn.ModuleDict({name: nn.Linear(600, 600) for name in "abc"})

    model, plain = _prepared(accelerator, make)
    for used in ("a", "abc", "c", "ab"):

        def loss_of(net, rank, used=used):
            x = torch.full((2, 600), 0.1 * (rank + 1))
            return sum(net[name](x).square().mean() for name in used)

        model.zero_grad()
        accelerator.backward(loss_of(model, accelerator.process_index))
        _assert_means(accelerator, model, plain, loss_of)


def other_parameters_on_each_rank_in_many_buckets(accelerator):
    def make():
        return nn.ModuleDict({name: nn.Linear(600, 600) for name in "abcde"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets, "BUCKET", 1 << 20)
        model, plain = _prepared(accelerator, make)
    for used in (("a", "e"), ("abcde", "c"), ("ab", "bcd"), ("d", "abcde"), ("ace", "bd"), ("abcde", "abcde")):

        def loss_of(net, rank, used=used):
            x = torch.full((2, 600), 0.1 * (rank + 1))
            return sum(net[name](x).square().mean() for name in used[rank % 2])

        model.zero_grad()
        accelerator.backward(loss_of(model, accelerator.process_index))
        _assert_means(accelerator, model, plain, loss_of)


def messages_leave_while_the_backward_pass_goes_on(accelerator):
    order = []

    def all_reduce(tensor, *arguments, **options):
        order.append(tensor.numel())
        return sent(tensor, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets, "BUCKET", 1 << 20)
        model, _ = _prepared(accelerator, lambda: nn.Sequential(*[nn.Linear(600, 600) for _ in range(3)]))
        sent = torch.distributed.all_reduce
        patch.setattr(torch.distributed, "all_reduce", all_reduce)
        hidden = model[0](torch.ones(2, 600))
        hidden.register_hook(lambda gradient: order.append("the first layer's turn"))
        accelerator.backward(model[2](model[1](hidden)).sum())
    layer = 600 * 600 + 600
    assert order[:2] == [layer, layer]
    assert order[2] == "the first layer's turn"


def several_forwards_before_one_backward_with_batch_norm(accelerator):
    def make():
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))

    model, plain = _prepared(accelerator, make)

    def loss_of(net, rank):
        (x, y), (u, v) = _data(rank), _data(rank, 1)
        return cross_entropy(net(x), y) + cross_entropy(net(u), v)

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)
    _assert_equal(accelerator, list(model.buffers()))


def batch_norm_statistics_are_means_over_ranks(accelerator):
    model = accelerator.prepare(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1)))
    inputs = [_data(rank)[0] for rank in _ranks(accelerator)]
    accelerator.backward(model(inputs[accelerator.process_index]).sum())
    expected = 0.1 * torch.stack([x.mean(0) for x in inputs]).mean(0)
    torch.testing.assert_close(model[0].running_mean, expected)
    assert model[0].num_batches_tracked.item() == 1


def batch_norm_statistics_of_a_double_model_are_averaged_in_double(accelerator):
    model = accelerator.prepare(nn.BatchNorm1d(4).double())
    inputs = [_data(rank)[0].double() / 3 for rank in _ranks(accelerator)]
    accelerator.backward(model(inputs[accelerator.process_index]).sum())
    expected = 0.1 * torch.stack([x.mean(0) for x in inputs]).mean(0)
    torch.testing.assert_close(model.running_mean, expected, rtol=1e-12, atol=0)


def _trained_by_a_loop(accelerator, loader, model):
    for (x,) in loader:
        accelerator.backward(model(x).sum())
        with torch.no_grad():
            model(x)


def buffers_agree_after_a_loop_that_trains(accelerator):
    rows = torch.randn(8 * accelerator.num_processes, 4, generator=torch.Generator().manual_seed(3))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=4)
    model, loader = accelerator.prepare(nn.BatchNorm1d(4), loader)
    _trained_by_a_loop(accelerator, loader, model)
    _assert_equal(accelerator, list(model.buffers()))
    assert model.num_batches_tracked.item() == 4


def buffers_agree_after_a_loop_over_a_shard_that_trains(accelerator):
    model = accelerator.prepare(nn.BatchNorm1d(4))
    rows = torch.randn(6 * accelerator.num_processes, 4, generator=torch.Generator().manual_seed(3))
    batches = accelerator.shard([(part,) for part in rows.split(3)])
    _trained_by_a_loop(accelerator, batches, model)
    _assert_equal(accelerator, list(model.buffers()))


def buffers_agree_after_a_loop_that_sets_them_anew(accelerator):
    model, rank, size = accelerator.prepare(nn.BatchNorm1d(4)), accelerator.process_index, accelerator.num_processes
    rows = torch.randn(16 * size, 4, generator=torch.Generator().manual_seed(3))
    loader = accelerator.prepare(torch.utils.data.DataLoader(rows, batch_size=8))
    accelerator.backward(model(_data(rank)[0]).sum())
    model.reset_running_stats()
    model.momentum = None
    with torch.no_grad():
        for x in loader:
            model(x)
    torch.testing.assert_close(model.running_mean, rows.mean(0))
    assert model.num_batches_tracked.item() == 2
    loader = accelerator.shard(torch.utils.data.DataLoader(rows[:8], batch_size=8), even=False)
    with torch.no_grad():
        for x in loader:  # one rank has a batch
            model(x)
    accelerator.wait_for_everyone()
    _assert_equal(accelerator, list(model.buffers()))


def buffers_agree_where_all_ranks_come_together(accelerator):
    model = accelerator.prepare(nn.BatchNorm1d(4))
    loader = torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2)
    rank = accelerator.process_index
    everywhere = [
        accelerator.wait_for_everyone,
        lambda: accelerator.reduce(rank + 1),
        lambda: accelerator.gather(torch.ones(2)),
        lambda: accelerator.shard(loader, even=False),
    ]
    for number, call in enumerate(everywhere):
        accelerator.backward(model(_data(rank)[0]).sum())
        with torch.no_grad():
            model(_data(rank, number)[0])
        call()
        _assert_equal(accelerator, list(model.buffers()))
    assert model.num_batches_tracked.item() == 2 * len(everywhere)


def a_loop_that_sets_no_statistics_waits_for_no_other_rank(accelerator):
    model = accelerator.prepare(nn.BatchNorm1d(4))
    rows = torch.randn(8 * accelerator.num_processes, 4)
    loader = accelerator.prepare(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=4))
    accelerator.backward(model(rows).sum())
    model.eval()
    for (x,) in loader:
        model(x)
        if accelerator.is_main_process:
            break
    accelerator.wait_for_everyone()


def other_buffers_are_rank_0s(accelerator):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)
            self.register_buffer("total", torch.zeros(1))
            self.register_buffer("constant", torch.full((2,), 1 / 3))

        def forward(self, x):
            self.total = self.total + x.sum()
            return self.layer(x)

    model = accelerator.prepare(Counting())
    for step in range(2):
        accelerator.backward(model(torch.full((1, 2), 1.0 + accelerator.process_index)).sum())
        assert model.total.item() == 2.0 * (step + 1)
    assert model.constant.tolist() == torch.full((2,), 1 / 3).tolist()


def gan_with_two_models_and_two_optimizers(accelerator):
    torch.manual_seed(accelerator.process_index)
    generator, critic = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 1))
    generator, critic = accelerator.prepare(generator, critic)
    optimizers = accelerator.prepare(torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters()))
    for step in range(3):
        real, _ = _data(accelerator.process_index, step)
        noise = torch.randn(5, 2)
        optimizers[1].zero_grad()
        fake = generator(noise)
        accelerator.backward(critic(fake.detach()).mean() - critic(real).mean())
        _assert_equal(accelerator, [p.grad for p in critic.parameters()])
        optimizers[1].step()
        optimizers[0].zero_grad()
        accelerator.backward(-critic(fake).mean())
        _assert_equal(accelerator, [p.grad for p in [*critic.parameters(), *generator.parameters()]])
        optimizers[0].step()
    _assert_equal(accelerator, [*generator.parameters(), *critic.parameters(), *critic.buffers()])


def two_models_of_which_each_rank_uses_another(accelerator):
    torch.manual_seed(0)
    models = accelerator.prepare(Net(), Net())
    plains = copy.deepcopy(models)
    rank = accelerator.process_index
    accelerator.backward(models[rank % 2].loss(*_data(rank)))
    for number, (model, plain) in enumerate(zip(models, plains, strict=True)):

        def loss_of(net, rank, number=number):
            loss = net.loss(*_data(rank))
            return loss if rank % 2 == number else loss * 0

        _assert_means(accelerator, model, plain, loss_of)


def a_model_untouched_in_a_step_keeps_none(accelerator):
    models = accelerator.prepare(Net(), Net())
    accelerator.backward(models[0].loss(*_data(accelerator.process_index)))
    assert all(p.grad is None for p in models[1].parameters())
    assert models[0].extra.weight.grad is None


def two_backward_passes_of_one_graph(accelerator):
    model, plain = _prepared(accelerator)

    def losses_of(net, rank):
        x, y = _data(rank)
        out = net(x)
        return [cross_entropy(out, y), out.square().mean()]

    first, second = losses_of(model, accelerator.process_index)
    accelerator.backward(first, retain_graph=True)
    accelerator.backward(second)
    _assert_means(accelerator, model, plain, losses_of)


def gradient_penalty_by_double_backward(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        x, _ = _data(rank)
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(net(x).tanh().sum(), x, create_graph=True)
        return ((slope.norm(dim=1) - 1) ** 2).mean()

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def backward_with_create_graph(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        x, y = _data(rank)
        return cross_entropy(net(x), y)

    accelerator.backward(loss_of(model, accelerator.process_index), create_graph=True)
    norm = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None)
    assert norm.requires_grad
    _assert_means(accelerator, model, plain, loss_of)
    for parameter in model.parameters():
        parameter.grad = None


def _shared_layer_under_checkpointing(accelerator, use_reentrant):
    def make():
        return nn.ModuleDict({"inner": nn.Linear(4, 4), "outer": nn.Linear(4, 4), "big": nn.Linear(4, 70_000)})

    model, plain = _prepared(accelerator, make)
    for step in range(3):

        def loss_of(net, rank, step=step):
            x, _ = _data(rank, step)
            x = x.clone().requires_grad_()
            for _ in range(3):
                x = checkpoint(lambda x: torch.tanh(net["inner"](x)), x, use_reentrant=use_reentrant)
                x = checkpoint(lambda x: net["big"](x)[:, :4] + net["outer"](x), x, use_reentrant=use_reentrant)
            return x.square().mean()

        model.zero_grad()
        accelerator.backward(loss_of(model, accelerator.process_index))
        _assert_means(accelerator, model, plain, loss_of)


def activation_checkpointing_reentrant_with_shared_layers(accelerator):
    _shared_layer_under_checkpointing(accelerator, True)


def activation_checkpointing_with_shared_layers(accelerator):
    _shared_layer_under_checkpointing(accelerator, False)


def tied_weights(accelerator):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

    model, plain = _prepared(accelerator, Tied)

    def loss_of(net, rank):
        ids = torch.tensor([rank, 3, rank + 2])
        return cross_entropy(net.head(net.embed(ids)), ids)

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)
    assert model.head.weight is model.embed.weight


def frozen_parts_thawed_after_prepare(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        return net.loss(*_data(rank))

    for is_trained in (False, True, False):
        for net in (model, plain):
            net.first.requires_grad_(is_trained)
            net.zero_grad()
        accelerator.backward(loss_of(model, accelerator.process_index))
        _assert_means(accelerator, model, plain, loss_of)
        assert (model.first.weight.grad is None) is not is_trained


def a_model_without_trainable_parameters(accelerator):
    teacher = accelerator.prepare(Net().requires_grad_(False))
    student, _ = _prepared(accelerator)
    x, _ = _data(accelerator.process_index)
    accelerator.backward((student(x) - teacher(x)).square().mean())
    _assert_equal(accelerator, [student.first.weight.grad])
    assert accelerator.prepare(nn.ReLU())(torch.tensor(-1.0)).item() == 0


def a_layer_added_after_prepare(accelerator):
    torch.manual_seed(accelerator.process_index)
    model = accelerator.prepare(Net())
    model.second = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        optimizer.zero_grad()
        accelerator.backward(model.loss(*_data(accelerator.process_index, step)))
        optimizer.step()
    _assert_equal(accelerator, list(model.parameters()))


def a_lazy_layer(accelerator):
    torch.manual_seed(accelerator.process_index)
    model = accelerator.prepare(nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 1)))
    for step in range(2):
        model.zero_grad()
        accelerator.backward(model(_data(accelerator.process_index, step)[0]).sum())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    _assert_equal(accelerator, list(model.parameters()))


def a_lazy_batch_norm(accelerator):
    torch.manual_seed(accelerator.process_index)
    model = accelerator.prepare(nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(), nn.LazyLinear(1)))
    for step in range(2):
        accelerator.backward(model(_data(accelerator.process_index, step)[0]).sum())
    _assert_equal(accelerator, [parameter.grad for parameter in model.parameters()])
    _assert_equal(accelerator, list(model.buffers()))


def recurrent_network(accelerator):
    def make():
        return nn.LSTM(4, 6, num_layers=2, batch_first=True)

    model, plain = _prepared(accelerator, make)

    def loss_of(net, rank):
        out, (hidden, _) = net(_data(rank)[0].unsqueeze(1))
        return out.mean() + hidden.square().mean()

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def outputs_of_every_kind(accelerator):
    from collections import namedtuple
    from dataclasses import dataclass

    @dataclass
    class Output:
        loss: torch.Tensor

    pair = namedtuple("pair", "loss other")

    class Wrapping(Net):
        kind = None

        def forward(self, x):
            loss = super().forward(x).square().mean()
            return {"dict": {"loss": loss}, "class": Output(loss), "tuple": (loss, None), "named": pair(loss, 1)}[
                self.kind
            ]

    model, plain = _prepared(accelerator, Wrapping)
    for kind, read in (
        ("dict", lambda out: out["loss"]),
        ("class", lambda out: out.loss),
        ("tuple", lambda out: out[0]),
        ("named", lambda out: out.loss),
    ):
        Wrapping.kind = kind

        def loss_of(net, rank, read=read):
            return read(net(_data(rank)[0]))

        model.zero_grad()
        accelerator.backward(loss_of(model, accelerator.process_index))
        _assert_means(accelerator, model, plain, loss_of)


def gradients_by_hand_without_an_optimizer(accelerator):
    model, _ = _prepared(accelerator)
    for step in range(3):
        model.zero_grad()
        accelerator.backward(model.loss(*_data(accelerator.process_index, step)))
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.data.add_(parameter.grad, alpha=-0.1)
    _assert_equal(accelerator, list(model.parameters()))


def lbfgs_calls_its_closure_alike_on_all_ranks(accelerator):
    for search in (None, "strong_wolfe"):
        model, _ = _prepared(accelerator)
        optimizer = accelerator.prepare(torch.optim.LBFGS(model.parameters(), max_iter=8, line_search_fn=search))
        x, y = _data(accelerator.process_index)
        calls = 0

        def closure(model=model, optimizer=optimizer, x=x, y=y):
            nonlocal calls
            calls += 1
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            accelerator.backward(loss)
            return loss

        for _ in range(3):
            optimizer.step(closure)
        assert calls > 3
        _assert_equal(accelerator, [torch.tensor(calls), *model.parameters()])


def plain_backward_left_over_in_the_script(accelerator):
    model, plain = _prepared(accelerator)

    def loss_of(net, rank):
        return net.loss(*_data(rank))

    loss_of(model, accelerator.process_index).backward()
    _assert_means(accelerator, model, plain, loss_of)


def plain_backward_with_unused_parameters_on_each_rank(accelerator):
    model, plain = _prepared(accelerator)
    for step in range(3):

        def loss_of(net, rank, step=step):
            x, y = _data(rank, step)
            return cross_entropy(net.choose(x, (rank + step) % 2), y)

        model.zero_grad()
        loss_of(model, accelerator.process_index).backward()
        _assert_means(accelerator, model, plain, loss_of)


def no_sync_adds_up_and_the_next_backward_averages(accelerator):
    model, plain = _prepared(accelerator)

    def losses_of(net, rank):
        return [net.loss(*_data(rank, step)) for step in range(3)]

    losses = losses_of(model, accelerator.process_index)
    with accelerator.no_sync(model):
        accelerator.backward(losses[0])
        losses[1].backward()
    accelerator.backward(losses[2])
    _assert_means(accelerator, model, plain, losses_of)


def sparse_embedding_gradients(accelerator):
    model, _ = _prepared(accelerator, lambda: nn.Embedding(10, 3, sparse=True))
    optimizer = accelerator.prepare(torch.optim.SparseAdam(model.parameters(), lr=0.1))
    before = model.weight.detach().clone()
    accelerator.backward(model(torch.tensor([accelerator.process_index, 5])).square().sum())
    assert model.weight.grad.is_sparse
    optimizer.step()
    _assert_equal(accelerator, [model.weight])
    changed = (model.weight != before).any(dim=1).nonzero().flatten().tolist()
    assert changed == sorted({*_ranks(accelerator), 5})


def sparse_parameters_and_buffers_are_rank_0s(accelerator):
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            edges = torch.eye(4)
            edges[0, accelerator.process_index + 1] = 2.0  # other places on each rank, and on rank 1 one more
            edges[3, 0] = float(accelerator.process_index)
            self.edges = nn.Parameter(edges.to_sparse(), requires_grad=False)
            self.register_buffer("more", edges.to_sparse())
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(torch.sparse.mm(self.edges, x) + torch.sparse.mm(self.more, x))

    model = accelerator.prepare(Graph())
    assert model.edges.is_sparse
    _assert_equal(accelerator, [model.edges.to_dense(), model.more.to_dense(), model.layer.weight])
    assert model.edges.to_dense()[0].tolist() == [1.0, 2.0, 0.0, 0.0]
    accelerator.backward(model(_data(accelerator.process_index)[0][:4]).sum())
    assert model.edges.grad is None
    _assert_equal(accelerator, [model.layer.weight.grad, model.layer.bias.grad])


def parameters_of_several_dtypes_and_channels_last(accelerator):
    def make():
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2).double())
        return net.to(memory_format=torch.channels_last)

    model, plain = _prepared(accelerator, make)

    def loss_of(net, rank):
        x = torch.full((2, 3, 4, 4), 1.0 + rank).to(memory_format=torch.channels_last)
        return net[2](net[1](net[0](x)).double()).square().mean()

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def dtype_changed_after_prepare(accelerator):
    model, _ = _prepared(accelerator)
    model.double()
    plain = copy.deepcopy(model)

    def loss_of(net, rank):
        x, y = _data(rank)
        return net.loss(x.double(), y)

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def a_copy_is_a_plain_model(accelerator):
    model, _ = _prepared(accelerator)
    accelerator.backward(model.loss(*_data(accelerator.process_index)))
    target = copy.deepcopy(model)
    if accelerator.is_main_process:
        # Collectives: a prepared model would wait for the other ranks here.
        target.loss(*_data(0)).backward()
    saved = io.BytesIO()
    torch.save(model, saved)
    assert b"accelify" not in saved.getvalue()
    assert b"accelify" not in pickle.dumps(model)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    assert torch.equal(loaded.first.weight, model.first.weight)
    _assert_equal(accelerator, [p.grad for p in model.parameters() if p.grad is not None])


def prepared_twice_and_by_another_accelerator(accelerator):

    model, plain = _prepared(accelerator)
    other = Accelerator()
    assert accelerator.prepare(model) is model
    assert other.prepare(model) is model

    def loss_of(net, rank):
        return net.loss(*_data(rank))

    for which in (accelerator, other):
        model.zero_grad()
        which.backward(loss_of(model, accelerator.process_index))
        _assert_means(accelerator, model, plain, loss_of)


def encoder_prepared_beside_the_whole(accelerator):
    model, plain = _prepared(accelerator)
    accelerator.prepare(model.first)

    def loss_of(net, rank):
        return net.loss(*_data(rank))

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


def optimizer_built_before_prepare(accelerator):
    torch.manual_seed(accelerator.process_index)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    assert accelerator.prepare(optimizer) is optimizer
    accelerator.prepare(model)
    for step in range(3):
        optimizer.zero_grad()
        accelerator.backward(model.loss(*_data(accelerator.process_index, step)))
        accelerator.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    _assert_equal(accelerator, list(model.parameters()))


def compiled_before_and_after_prepare(accelerator):
    for is_compiled_first in (True, False):
        net = Net()
        compiled = torch.compile(net, backend="aot_eager")
        model = accelerator.prepare(compiled if is_compiled_first else net)
        plain = copy.deepcopy(net)

        def loss_of(net, rank):
            x, y = _data(rank)
            return cross_entropy(net(x), y)

        used = model if is_compiled_first else torch.compile(model, backend="aot_eager")
        accelerator.backward(loss_of(used, accelerator.process_index))
        _assert_means(accelerator, net, plain, loss_of)


def compiled_in_place_in_low_precision(accelerator):
    for options in ({"dynamo_backend": "eager"}, {"mixed_precision": "bf16", "dynamo_backend": "eager"}):
        other = Accelerator(**options)
        torch.manual_seed(accelerator.process_index)
        model = other.prepare(Net())
        other.backward(model(_data(accelerator.process_index)[0]).sum())
        _assert_equal(accelerator, [model.first.weight.grad, model.second.weight.grad])


def models_that_are_forgotten_are_free(accelerator):
    other = Accelerator()
    model = other.prepare(Net())
    kept = weakref.ref(model), weakref.ref(next(model.parameters()))
    (model,) = other.free_memory(model)
    gc.collect()
    assert [one() for one in kept] == [None, None]


def a_failed_backward_does_not_spoil_the_next(accelerator):
    model, plain = _prepared(accelerator)
    x, y = _data(accelerator.process_index)
    loss = cross_entropy(model(x), y)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        accelerator.backward(loss)
    model.zero_grad()

    def loss_of(net, rank):
        return net.loss(*_data(rank))

    accelerator.backward(loss_of(model, accelerator.process_index))
    _assert_means(accelerator, model, plain, loss_of)


class _Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError


def a_failed_plain_backward_does_not_spoil_the_next(accelerator):
    model, plain = _prepared(accelerator, _two_layers)

    def loss_of(net, rank):
        return net(_data(rank)[0]).square().sum()

    with pytest.raises(ValueError):  # noqa: PT011  # autograd takes it as it is
        model[1](_Failing.apply(model[0](_data(0)[0]))).sum().backward()
    model.zero_grad()
    loss_of(model, accelerator.process_index).backward()
    _assert_means(accelerator, model, plain, loss_of)


def different_models_are_refused_on_all_ranks(accelerator):
    from accelify.runtime.world.desync import Desync

    with pytest.raises(Desync, match=r"rank 0 gradients\.py:\d+ prepare .*; rank 1 gradients\.py:\d+ prepare"):
        accelerator.prepare(nn.Linear(2 + accelerator.process_index, 2))


def _step(accelerator, model, number):
    accelerator.backward(model(_data(accelerator.process_index, number)[0]).square().sum())
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def _two_layers():
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))


def gradients_stay_where_they_arrived(accelerator):
    model, _ = _prepared(accelerator, _two_layers)
    places = []
    for number in range(3):
        places.append({gradient.untyped_storage().data_ptr() for gradient in _step(accelerator, model, number)})
        model.zero_grad()
    assert len(places[0]) == 1
    assert places[0] == places[1] == places[2]


def hooks_of_the_script_see_the_gradients(accelerator):
    model, plain = _prepared(accelerator, _two_layers)
    seen = []
    model[0].weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.clone()))
    _step(accelerator, model, 0)
    plain(_data(accelerator.process_index, 0)[0]).square().sum().backward()
    assert torch.equal(seen[0], plain[0].weight.grad)


def gradients_that_a_script_keeps_stay_as_they_are(accelerator):
    model, _ = _prepared(accelerator, _two_layers)
    kept, copies = [], []
    for number in range(4):
        gradients = [gradient.flatten() for gradient in _step(accelerator, model, number)]
        kept.append(gradients)
        copies.append([gradient.clone() for gradient in gradients])
        model.zero_grad()
    for number, (old, copied) in enumerate(zip(kept, copies, strict=True)):
        assert all(map(torch.equal, old, copied)), number
        again = [gradient.flatten() for gradient in _step(accelerator, model, number)]
        assert all(map(torch.equal, again, copied)), number
        model.zero_grad()


def gradients_zeroed_in_place_stay_the_same_objects(accelerator):
    model, plain = _prepared(accelerator)
    first = None
    for number in range(3):

        def loss_of(net, rank, number=number):
            return net(_data(rank, number)[0]).square().sum()

        gradients = _step(accelerator, model, number)
        first = first or gradients
        assert all(one is other for one, other in zip(gradients, first, strict=True))
        _assert_means(accelerator, model, plain, loss_of)
        model.zero_grad(set_to_none=False)
    model.first.weight.grad.detach_()


def gradients_are_laid_out_as_their_parameters(accelerator):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2)).to(memory_format=torch.channels_last)
    net[2].weight.data = net[2].weight.data.t().contiguous().t()
    model = accelerator.prepare(net)
    for _ in range(2):
        model.zero_grad()
        accelerator.backward(model(torch.ones(2, 3, 4, 4)).sum())
        for parameter in model.parameters():
            assert parameter.grad.stride() == parameter.stride()


def gradients_travel_rounded_where_that_is_asked(accelerator):
    for hook, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        made = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(comm_hook=hook)])
        torch.manual_seed(0)
        model = made.prepare(Net())
        own = copy.deepcopy(model)
        x, y = _data(accelerator.process_index)
        cross_entropy(own(x), y).backward()
        made.backward(cross_entropy(model(x), y))
        assert model.extra.weight.grad is None
        for local, parameter in zip(own.parameters(), model.parameters(), strict=True):
            if local.grad is None:
                continue
            halves = accelerator.gather(local.grad[None] / 2).to(dtype)
            assert parameter.grad.dtype == torch.float32
            assert torch.equal(parameter.grad, (halves[0] + halves[1]).float()), hook
            assert not torch.equal(parameter.grad, accelerator.gather(local.grad[None]).mean(0))
