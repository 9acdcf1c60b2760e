"""What scripts import from Accelerate's `utils`, where it is no function of another module."""

import os

import pytest
import torch
from torch import nn

from accelify.runtime import (
    Accelerator,
    AcceleratorState,
    Environment,
    GradientState,
    PartialState,
    ProfileKwargs,
    utils,
)
from accelify.runtime.choices import DistributedType, LoggerType, PrecisionType
from accelify.runtime.local_sgd import LocalSGD
from accelify.runtime.state import is_initialized


def alone(*given, **options):
    return Accelerator(*given, cpu=True, environment=Environment(), **options)


def test_choices_equal_their_texts():
    assert PrecisionType.BF16 == "bf16"
    assert f"{DistributedType.MULTI_GPU}" == "MULTI_GPU"
    assert "wandb" in LoggerType
    assert "nothing" not in LoggerType
    assert "comet_ml" in LoggerType.list()
    assert alone(mixed_precision=PrecisionType.BF16).mixed_precision == "bf16"


def test_what_is_there():
    assert utils.is_torch_version(">=", "2.0")
    assert utils.compare_versions("torch", "<", "1000")
    assert utils.is_pytest_available()
    assert not utils.is_npu_available(check_device=True)
    assert utils.is_bf16_available(True)
    assert utils.are_libraries_initialized("torch", "not_there") == ["torch"]
    with pytest.raises(ValueError, match="choose one of"):
        utils.compare_versions("torch", "~", "1")
    with pytest.raises(ValueError, match="ask for one"):
        utils.is_torch_xla_available(check_is_tpu=True, check_is_gpu=True)


def test_variables_are_read_and_put_back(monkeypatch):
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.delenv("ADDED", raising=False)
    with utils.patch_environment(kept="yes", added=3):
        assert utils.parse_flag_from_env("KEPT")
        assert utils.get_int_from_env(["NOT_THERE", "ADDED"], 7) == 3
    assert os.environ["KEPT"] == "1"
    assert utils.get_int_from_env(["ADDED"], 7) == 7
    assert utils.parse_choice_from_env("ADDED", "no") == "no"
    with utils.clear_environment():
        assert not os.environ
    assert os.environ["KEPT"] == "1"
    assert utils.str_to_bool("On", to_bool=True) is True
    with pytest.raises(ValueError, match="neither true nor false"):
        utils.str_to_bool("maybe")


def test_a_model_is_taken_out_of_its_wrappers():
    model = nn.Linear(2, 1)
    assert utils.extract_model_from_parallel(nn.DataParallel(nn.DataParallel(model))) is model
    assert utils.extract_model_from_parallel(model) is model
    compiled = torch.compile(model)
    assert utils.extract_model_from_parallel(compiled) is compiled
    assert utils.extract_model_from_parallel(compiled, keep_torch_compile=False) is model
    nested = nn.Sequential(nn.DataParallel(model))
    assert utils.extract_model_from_parallel(nested, recursive=True)[0] is model
    assert utils.has_compiled_regions(nn.Sequential(compiled))
    assert not utils.is_compiled_module(model)


def test_objects_are_joined():
    assert utils.gather_object([1, 2]) == [1, 2]
    with pytest.raises(TypeError, match="joins lists, and this is a dict"):
        utils.gather_object({"a": 1})


def test_small_functions(tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    assert list(utils.tqdm(range(2), disable=True)) == [0, 1]
    with pytest.raises(ValueError, match="main_process_only by name"):
        utils.tqdm(True, range(2))
    monkeypatch.chdir(tmp_path)
    assert utils.write_basic_config("BF16").read_text().splitlines()[1].startswith('mixed_precision = "bf16"')
    assert utils.write_basic_config() is False
    utils.save({"a": torch.ones(1)}, tmp_path / "a.pt", save_on_each_node=True)
    assert utils.load(tmp_path / "a.pt")["a"].item() == 1
    assert utils.convert_bytes(1536) == "1.5 KB"
    assert utils.convert_file_size_to_int("1KB") == 1000
    assert (utils.get_pretty_name(nn.Linear), utils.get_pretty_name(nn.ReLU())) == ("Linear", "ReLU")
    assert utils.merge_dicts({"a": {"b": 1}}, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}
    assert utils.recursive_getattr(nn.Sequential(nn.ReLU()), "0.inplace") is False
    assert not utils.is_port_in_use(1)


def test_states_are_those_of_the_accelerator_made_last():
    accelerator = alone(True, None, "bf16", gradient_accumulation_steps=2)
    state, gradients = AcceleratorState(), GradientState()
    assert state.mixed_precision == "bf16"
    assert state.device == accelerator.device
    assert (gradients.num_steps, gradients.sync_gradients, gradients.in_dataloader) == (2, True, False)
    assert (gradients.end_of_dataloader, gradients.remainder, gradients.plugin_kwargs) == (False, -1, {"num_steps": 2})
    with pytest.raises(ValueError, match="the accelerator has 'bf16'"):
        AcceleratorState(mixed_precision="fp16")
    model = accelerator.prepare(nn.Linear(1, 1))
    loader = accelerator.prepare(torch.utils.data.DataLoader(torch.ones(5, 1), batch_size=2))
    assert (loader.total_batch_size, loader.total_dataset_length, loader.end_of_dataloader) == (2, 5, False)
    seen = []
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).sum())
            seen.append((gradients.sync_gradients, gradients.end_of_dataloader, loader.end_of_dataloader))
            assert gradients.active_dataloader is loader
            assert gradients.remainder == loader.remainder == 1
    assert seen == [(False, False, False), (True, False, False), (True, True, True)]
    assert loader.end_of_dataloader
    assert accelerator.gradient_state.active_dataloader is None
    assert "Sync Gradients: True" in repr(gradients)


def test_without_an_accelerator_a_state_is_what_the_environment_says(monkeypatch):
    monkeypatch.setattr(AcceleratorState, "_last", None)
    monkeypatch.setenv("ACCELIFY_MIXED_PRECISION", "bf16")
    assert AcceleratorState(cpu=True).mixed_precision == "bf16"
    assert GradientState().num_steps == 1
    assert not is_initialized()
    assert PartialState(cpu=True).debug is False


def test_a_block_is_profiled(tmp_path):
    accelerator = alone(kwargs_handlers=[ProfileKwargs(activities=["cpu"], output_trace_dir=str(tmp_path / "traces"))])
    with accelerator.profile() as profiler:
        torch.ones(3).sum()
    assert any("sum" in event.key for event in profiler.key_averages())
    assert (tmp_path / "traces" / "profile_0.json").exists()
    with pytest.raises(ValueError, match="choose from cpu"):
        ProfileKwargs(activities=["gpu"]).build()
    assert ProfileKwargs(with_stack=True).to_kwargs() == {"with_stack": True}


def test_local_sgd_of_one_process_changes_nothing():
    accelerator = alone()
    model = accelerator.prepare(nn.Linear(1, 1))
    before = model.weight.item()
    with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=2) as local:
        local.step()
        local.step()
    assert (local.num_steps, model.weight.item()) == (2, before)
    with pytest.raises(ValueError, match="at least 1"):
        LocalSGD(accelerator, model, 0)


def test_a_prepared_optimizer_says_whether_its_step_was_skipped():
    for options in ({}, {"mixed_precision": "fp16"}):
        optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1)
        assert alone(**options).prepare(optimizer).step_was_skipped is False


def test_random_states_are_shared():
    before = torch.get_rng_state()
    utils.synchronize_rng_states(["torch", "generator", "cuda"], torch.Generator())
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(ValueError, match="of which generator"):
        utils.synchronize_rng_states(["generator"])
    with pytest.raises(ValueError, match="no npu is here"):
        utils.synchronize_rng_state("npu")
