"""Steps in one process: what is trained, clipped and refused."""

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from accelify.runtime.data.streams import Streams
from accelify.runtime.gradients.accumulation import Accumulation
from accelify.runtime.gradients.precision import Precision
from accelify.runtime.gradients.strategy import Strategy
from accelify.runtime.gradients.training import Training, UnevenInputs
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World


@dataclass
class Step:
    is_partial: bool = False
    factor: float = 1.0

    def weight(self, rank):
        return self.factor


class Joining(Strategy):
    is_joining = False


def training(strategy=None, **options):
    strategy, collectives = strategy or Strategy(), Collectives()
    accumulation = Accumulation(
        steps=options.pop("steps", 1), strategy=strategy, collectives=collectives, is_last_batch=lambda: False
    )
    made = Training(
        world=World(device=torch.device("cpu"), size=options.pop("size", 1)),
        collectives=collectives,
        strategy=strategy,
        precision=Precision(),
        accumulation=accumulation,
        draws=Streams(collectives, torch.device("cpu")),
        **options,
    )
    return made, accumulation


def model():
    made = nn.Linear(1, 1, bias=False)
    nn.init.ones_(made.weight)
    return made


def backward(made, trained, step=None, weight=None):
    made.backward(trained(torch.tensor([[3.0]])).sum(), step, weight=weight, may_end=False)


def test_the_weight_of_a_step_multiplies_the_loss():
    made, _ = training()
    trained = made.prepare_model(model(), is_moved=True, is_trained=True)
    backward(made, trained, Step(factor=2.0))
    assert trained.weight.grad.item() == 6.0
    trained.weight.grad = None
    backward(made, trained, Step(factor=2.0), weight=5.0)  # the script's own weight takes its place
    assert trained.weight.grad.item() == 3.0


def test_a_step_that_not_all_ranks_take_is_refused():
    made, _ = training(Joining())
    with pytest.raises(UnevenInputs, match="some ranks have no batch"):
        backward(made, model(), Step(is_partial=True))


def test_gradients_are_clipped_when_their_window_is_complete():
    made, accumulation = training(steps=2)
    trained = made.prepare_model(model(), is_moved=True, is_trained=True)
    for norm, left in ((1.5, 1.5), (3.0, 1.0)):
        with accumulation.window((trained,)):
            backward(made, trained)
            assert made.clip_norm(trained.parameters(), 1.0, 2.0).item() == norm
            made.clip_value(trained.parameters(), 10.0)
            assert trained.weight.grad.item() == pytest.approx(left)


def test_everything_is_remembered_once_and_forgotten():
    made, _ = training()
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        made.prepare_model(trained, is_moved=False, is_trained=True)
        assert made.prepare_optimizer(optimizer) is optimizer
        assert made.prepare_scheduler(scheduler, 1) is scheduler
    assert (len(made.models), len(made.optimizers), len(made.schedulers)) == (1, 1, 1)
    made.forget()
    assert (list(made.models), list(made.optimizers), list(made.schedulers)) == ([], [], [])


def test_state_that_was_loaded_on_another_device_moves_to_the_parameters():
    made, _ = training()
    trained = nn.Linear(1, 1, device="meta")  # stands for a GPU
    optimizer = torch.optim.Adam(trained.parameters())
    optimizer.state[trained.weight] = {name: torch.zeros(()) for name in ("step", "exp_avg")}
    state = made.prepare_optimizer(optimizer).state[trained.weight]
    assert {name: value.device.type for name, value in state.items()} == {"step": "cpu", "exp_avg": "meta"}


@pytest.mark.parametrize("size", [1, 2])
def test_an_optimizer_whose_parameters_another_takes_over_lives_as_long_as_the_script_keeps_it(size):
    made, _ = training(size=size)
    trained = model()
    kept = made.prepare_optimizer(torch.optim.Adam(trained.parameters()))
    dropped = made.prepare_optimizer(torch.optim.SGD(trained.parameters(), 0.1))
    made.prepare_scheduler(torch.optim.lr_scheduler.StepLR(dropped, 1), 1)
    assert list(made.optimizers) == [kept, dropped]
    dropped = weakref.ref(dropped)
    last = made.prepare_optimizer(torch.optim.SGD(trained.parameters(), 0.1))
    gc.collect()  # the scheduler and its optimizer know each other
    assert dropped() is None
    assert (list(made.optimizers), len(made.schedulers)) == ([kept, last], 0)
    assert made.optimizers.lasting == ([last] if size > 1 else [])


def rounds(made, count, kept):
    """As many clients as there are rounds, each with a model and an optimizer of its own."""
    for _ in range(count):
        client = made.prepare_model(model(), is_moved=False, is_trained=True)
        optimizer = made.prepare_optimizer(torch.optim.SGD(client.parameters(), 0.1))
        made.prepare_scheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1), 1)
        kept(client, optimizer)
        yield len(made.models)


def test_one_process_lets_go_what_the_script_lets_go():
    made, _ = training()
    server = made.prepare_model(model(), is_moved=False, is_trained=True)
    assert set(rounds(made, 5, lambda *_: None)) == {2}
    assert list(made.models) == [server]


@pytest.fixture
def few_objects():
    """What is there already is left to itself: a collection that goes through it takes a tenth of a second."""
    gc.collect()
    gc.freeze()


def test_several_processes_let_it_go_at_once_now_and_then(monkeypatch, few_objects):
    made, _ = training(size=2)
    monkeypatch.setattr("accelify.runtime.held.SHARE", 0)  # an optimizer and its scheduler know each other
    server = made.prepare_model(model(), is_moved=False, is_trained=True)
    counts = list(rounds(made, 40, lambda *_: None))
    assert len(made.optimizers.lasting) < 20 > max(counts)
    assert server in made.models.lasting


def test_several_processes_keep_a_model_whose_part_an_optimizer_steps():
    made, _ = training(size=2)
    kept = []
    *_, count = rounds(made, 40, lambda _, optimizer: kept.append(optimizer))
    assert (len(made.models.lasting), len(made.optimizers.lasting), count) == (40, 40, 40)
