"""A script written for Hugging Face Accelerate finds every name and argument that it uses."""

import doctest
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import accelify.runtime
import accelify.runtime.accelerator
from accelify.runtime import (
    Accelerator,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    DistributedType,
    Environment,
    GradientAccumulationPlugin,
    PartialState,
    ProjectConfiguration,
    TorchDynamoPlugin,
    gather,
)
from accelify.runtime.gradients.optimizers import UnscaledGradients


def alone(**options):
    return Accelerator(cpu=True, environment=Environment(), **options)


def test_every_name_is_there():
    for name in accelify.runtime.__all__:
        assert getattr(accelify.runtime, name) is not None
        assert name in dir(accelify.runtime)
    with pytest.raises(AttributeError):
        accelify.runtime.nothing  # noqa: B018  # reading it is the test


def test_the_examples_of_the_reference_give_what_they_show():
    outcome = doctest.testmod(accelify.runtime.accelerator)
    assert outcome.attempted > 20
    assert outcome.failed == 0


def test_the_current_accelerator_is_the_last_that_was_made(monkeypatch):
    monkeypatch.setattr(Accelerator, "_latest", None)
    single = Accelerator.current()
    assert single.num_processes == 1
    assert Accelerator.current() is single
    made = alone()
    assert Accelerator.current() is made
    assert pickle.loads(pickle.dumps(made)) is not made
    assert Accelerator.current() is made


def test_no_current_accelerator_stands_for_many_processes(monkeypatch):
    monkeypatch.setattr(Accelerator, "_latest", None)
    monkeypatch.setattr(Environment, "read", lambda: Environment(world_size=2))
    with pytest.raises(RuntimeError, match="make one first"):
        Accelerator.current()


def test_what_stands_for_something_else_must_be_none():
    alone(deepspeed_plugin=None, fsdp_plugin=None, kwargs_handlers=None, rng_types=["generator"], dynamo_backend="no")
    with pytest.raises(TypeError, match="deepspeed_plugin"):
        alone(deepspeed_plugin=object())
    with pytest.raises(TypeError, match="mixed_precison"):
        alone(mixed_precison=None)


def test_two_answers_to_one_question_are_refused():
    with pytest.raises(ValueError, match="split_batches and dataloader_config"):
        alone(split_batches=True, dataloader_config=DataLoaderConfiguration())
    with pytest.raises(ValueError, match="gradient_accumulation_plugin"):
        alone(gradient_accumulation_steps=2, gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=3))
    assert alone(dataloader_config=DataLoaderConfiguration(split_batches=True)).split_batches
    assert not alone(even_batches=False).even_batches
    with pytest.raises(ValueError, match="comm_hook='power_sgd': choose no, fp16 or bf16"):
        alone(kwargs_handlers=[DistributedDataParallelKwargs(comm_hook="power_sgd")])


def test_the_state_can_be_read_and_printed():
    accelerator = alone()
    assert accelerator.distributed_type is accelerator.state.distributed_type is DistributedType.NO
    assert accelerator.distributed_type != DistributedType.DEEPSPEED
    assert "Mixed precision type: no" in repr(accelerator.state)
    assert accelerator.state.deepspeed_plugin is None
    assert PartialState(cpu=True).is_main_process
    assert "Num processes: 1" in repr(PartialState(cpu=True))
    assert gather(torch.ones(2)).tolist() == [1, 1]


def test_functions_for_some_processes():
    accelerator = alone()

    @accelerator.on_process(process_index=0)
    def first():
        return 1

    assert first() == accelerator.on_local_process(lambda: 1, local_process_index=0)() == 1
    assert accelerator.on_process(lambda: 1, 1)() is None
    assert accelerator.on_local_process(local_process_index=1)(lambda: 1)() is None


def test_models_can_be_compiled_in_place():
    model = nn.Linear(2, 1)
    keys = list(model.state_dict())
    plugin = TorchDynamoPlugin(backend="eager")
    for accelerator in (alone(dynamo_backend="eager"), alone(dynamo_plugin=plugin), alone(mixed_precision="bf16")):
        assert accelerator.prepare(model) is model
        assert model._compiled_call_impl is not None
        assert type(model) is nn.Linear
        assert list(model.state_dict()) == keys
        accelerator.backward(model(torch.ones(1, 2)).sum())
        assert model.weight.grad is not None
    assert "_compiled_call_impl" not in vars(pickle.loads(pickle.dumps(model)))


def test_without_its_wrapper_a_model_computes_in_its_own_precision():
    accelerator = alone(mixed_precision="bf16")
    model, x = accelerator.prepare(nn.Linear(300, 1)), torch.randn(4, 300)
    low = model(x)
    assert accelerator.unwrap_model(model) is model
    assert torch.equal(model(x), low)
    assert accelerator.unwrap_model(model, keep_fp32_wrapper=False) is model
    assert torch.equal(model(x), nn.functional.linear(x, model.weight, model.bias))
    assert not torch.equal(model(x), low)


def test_a_wrapper_of_the_scripts_own_is_taken_off():
    model = nn.Linear(3, 1)
    wrapped = torch.compile(nn.DataParallel(model))
    assert alone().unwrap_model(wrapped, keep_torch_compile=False) is model
    assert alone().unwrap_model(nn.DataParallel(model)) is model
    assert list(alone().get_state_dict(nn.DataParallel(model))) == ["weight", "bias"]


def test_the_number_of_micro_batches_can_be_set_later():
    accelerator = alone()
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    accelerator.prepare(model, optimizer)
    accelerator.gradient_accumulation_steps = 2
    before, seen = model.weight.item(), []
    for _ in range(2):
        with accelerator.accumulate(model):
            accelerator.backward(model(torch.ones(1, 1)).sum())
            optimizer.step()
            optimizer.zero_grad()
            seen.append(round(before - model.weight.item(), 5))
    assert seen == [0, 1]


def test_a_scheduler_may_step_without_its_optimizer():
    for together, expected in ((True, 1), (False, 2)):
        accelerator = alone(gradient_accumulation_steps=2, step_scheduler_with_optimizer=together)
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        accelerator.prepare(model, optimizer, scheduler)
        for _ in range(2):
            with accelerator.accumulate(model):
                accelerator.backward(model(torch.ones(1, 1)).sum())
                optimizer.step()
                scheduler.step()
        assert scheduler.last_epoch == expected


@pytest.mark.parametrize("options", [{"mixed_precision": "fp16"}, {"gradient_accumulation_steps": 2}])
def test_a_plain_backward_is_refused_where_it_would_be_wrong(options):
    accelerator = alone(**options)
    model = nn.Linear(1, 1)
    optimizer = accelerator.prepare(torch.optim.SGD(accelerator.prepare(model).parameters(), 0.1))
    before = model.weight.detach().clone()
    optimizer.step()  # without gradients nothing happens
    assert torch.equal(model.weight, before)
    model(torch.ones(1, 1)).sum().backward()
    with pytest.raises(UnscaledGradients, match="accelerator\\.backward"):
        optimizer.step()
    accelerator.backward(model(torch.ones(1, 1)).sum())
    optimizer.step()


def test_a_plain_backward_does_no_harm_in_full_precision():
    accelerator = alone()
    model = nn.Linear(1, 1)
    optimizer = accelerator.prepare(torch.optim.SGD(accelerator.prepare(model).parameters(), 0.1))
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()


def test_the_memory_of_what_was_prepared_is_freed():
    accelerator = alone(mixed_precision="fp16", gradient_accumulation_steps=2)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    accelerator.prepare(model, optimizer)
    with accelerator.accumulate(model):
        accelerator.backward(model(torch.ones(1, 1)).sum())
    kept = weakref.ref(model), weakref.ref(model.weight)
    model, optimizer = accelerator.clear(model, optimizer)
    assert (model, optimizer) == (None, None)
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_tensors_can_be_saved_as_safetensors(tmp_path):
    from safetensors.torch import load_file

    weight = torch.randn(2, 3)
    path = tmp_path / "weights.safetensors"
    alone().save({"a": weight.T, "b": weight.T, "c": weight[:1]}, path, safe_serialization=True)
    saved = load_file(path)
    assert torch.equal(saved["a"], weight.T)
    assert torch.equal(saved["c"], weight[:1])


def test_folders_and_numbers_of_a_project(tmp_path):
    project = ProjectConfiguration(total_limit=1)
    project.set_directories(str(tmp_path))
    accelerator = alone(project_config=project)
    assert accelerator.project_dir == accelerator.logging_dir == str(tmp_path)
    assert accelerator.save_iteration == 0
    accelerator.save_state(safe_serialization=True)
    assert accelerator.save_iteration == 1
    accelerator.load_state(None, None)


def test_objects_are_moved_where_the_caller_says():
    accelerator = alone()
    loader = DataLoader(TensorDataset(torch.ones(2, 1)))
    model = nn.Linear(1, 1, device="meta")
    with pytest.raises(NotImplementedError):
        accelerator.prepare(model)
    assert accelerator.prepare(model, loader, device_placement=[False, True])[0] is model
    assert accelerator.prepare_model(nn.Linear(1, 1), evaluation_mode=True).weight.device.type == "cpu"
