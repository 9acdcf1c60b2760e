"""Accelerate's own tests that are run, those that are not, and those that do not pass, each with the reason.

A test is a function of Accelerate's in one process or in two; where Accelerate calls it with several settings, all of
them have to pass. `docs/names.md` shows the two tables of reasons.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

Test = Callable[[types.ModuleType], object]


@dataclass(frozen=True)
class Case:
    """A function of a script of tests, as the script calls it, and the numbers of processes it is meant for."""

    name: str
    calls: tuple[Test, ...]
    processes: tuple[int, ...] = (1, 2)


def function(name: str, *ways: dict[str, Any], processes: tuple[int, ...] = (1, 2)) -> Case:
    """A function, with the options that it is called with."""
    calls = tuple(lambda module, way=way: getattr(module, name)(**way) for way in ways or ({},))
    return Case(name, calls, processes)


def with_state(name: str) -> Case:
    """A function that takes the state of this process."""
    return Case(name, (lambda module: getattr(module, name)(module.PartialState()),))


def with_accelerator(name: str, *processes: int) -> Case:
    """A function that takes an accelerator."""
    return Case(name, (lambda module: getattr(module, name)(module.Accelerator()),), processes)


def with_own_accelerator(name: str, *processes: int) -> Case:
    """A function that takes the accelerator that its script makes."""
    return Case(name, (lambda module: getattr(module, name)(module.create_accelerator()),), processes)


def metrics_of(module: types.ModuleType, samples: int, **config: bool) -> None:
    """Gathered predictions are as many as there are samples."""
    accelerator = module.Accelerator(dataloader_config=module.DataLoaderConfiguration(**config))
    module.test_torch_metrics(accelerator, samples)


def loader_of(module: types.ModuleType, kind: str) -> None:
    """An epoch of a loader with workers, of one of four kinds, comes to every element."""
    dataset, many = module.DummyDataset(), {"num_workers": module.NUM_WORKERS}
    sampler = module.BatchSampler(module.RandomSampler(dataset), batch_size=module.BATCH_SIZE, drop_last=False)
    size = {"batch_size": module.BATCH_SIZE, **many}
    loader = {
        "in order": lambda: module.DataLoader(dataset, shuffle=False, **size),
        "shuffled": lambda: module.DataLoader(dataset, shuffle=True, **size),
        "batch_sampler": lambda: module.DataLoader(dataset, batch_sampler=sampler, **many),
        "sampler": lambda: module.DataLoader(
            dataset, sampler=sampler, batch_size=None, collate_fn=module.default_collate, **many
        ),
    }[kind]()
    module.test_data_loader(loader, module.create_accelerator())


def several(name: str, call: Callable[..., None], ways: Iterable[dict[str, Any]], *processes: int) -> Case:
    """One test of several settings."""
    return Case(name, tuple(lambda module, way=way: call(module, **way) for way in ways), processes or (1, 2))


SPLITS = [{"split_batches": split, "dispatch_batches": sent} for split, sent in product((True, False), repeat=2)]
WAYS = [{**split, "sync_each_batch": each} for split, each in product(SPLITS, (True, False))]
KINDS = ("in order", "shuffled", "batch_sampler", "sampler")

# Scripts in `accelerate.test_utils.scripts`, run in one process and in two.
SCRIPTS: dict[str, list[Case]] = {
    "test_ops": [
        with_state(name)
        for name in (
            *("test_gather", "test_gather_object", "test_gather_non_contiguous", "test_broadcast"),
            *("test_pad_across_processes", "test_reduce_sum", "test_reduce_mean", "test_reduce_max", "test_op_checker"),
        )
    ],
    "test_script": [
        *map(function, ("init_state_check", "process_execution_check", "rng_sync_check", "dl_preparation_check")),
        *map(function, ("test_split_between_processes_list", "test_split_between_processes_nested_dict")),
        *map(function, ("test_split_between_processes_tensor", "test_split_between_processes_evenly")),
        *map(function, ("central_dl_preparation_check", "custom_sampler_check", "test_trigger")),
        *map(function, ("check_seedable_sampler", "check_seedable_sampler_with_data_seed")),
        function("training_check", {"use_seedable_sampler": False}),
    ],
    "test_sync": [
        function("test_dataloader_break"),
        with_accelerator("test_noop_sync", 1),
        with_accelerator("test_distributed_sync", 2),
        with_accelerator("test_distributed_sync_multiple_fwd", 2),
        function("test_gradient_accumulation_with_opt_and_scheduler", *WAYS),
        function("test_gradient_accumulation", *WAYS, processes=(2,)),
    ],
    "test_distributed_data_loop": [
        function("test_default_ensures_even_batch_sizes", processes=(2,)),
        function("test_can_disable_even_batches", processes=(2,)),
        function("test_can_join_uneven_inputs", processes=(2,)),
        several("test_data_loader", loader_of, [{"kind": kind} for kind in KINDS], 2),
        *(
            with_own_accelerator(name, 2)
            for name in ("test_stateful_dataloader", "test_stateful_dataloader_save_state")
        ),
        function("test_join_can_override_even_batches", processes=(2,)),
        function("test_join_can_override_for_mixed_type_dataloaders", processes=(2,)),
        function("test_join_raises_warning_for_iterable_when_overriding_even_batches", processes=(2,)),
        function("test_pickle_accelerator", processes=(2,)),
    ],
    "external_deps.test_metrics": [
        several("test_torch_metrics", metrics_of, [*({"samples": 99, **way} for way in SPLITS), {"samples": 512}]),
        function("test_gather_for_metrics_drop_last"),
        function("test_gather_for_metrics_with_iterable_dataset"),
        function("test_gather_for_metrics_with_non_tensor_objects_iterable_dataset"),
    ],
}
# Files in `tests/` of Accelerate's repository: all of their tests, by pytest.
FILES = ("test_data_loader", "test_optimizer", "test_scheduler", "test_state_checkpointing", "test_accelerator")

# What follows names tests by the beginnings of their names.

# Why a test is left out: it tests something else than public behaviour of these areas, or cannot run.
OWN_CLASSES = (
    "makes a `BatchSamplerShard`, `IterableDatasetShard`, `SkipDataLoader`, ..., or asks for one: Accelerate's own"
)
PRIVATE = "reads or sets what is private: `_models`, `_shared_state`, `_is_overflow`, `batch_sampler.even_batches`, ..."
RESETS = "tests what `_reset_state()` leaves, which Accelerate has for its own tests"
BIG_MODELS = "big-model inference, quantization or fp8"
ELSEWHERE = "of none of the six areas: devices, affinity, models in quantization"
GPU = "needs a GPU"
LIBRARY = "needs `datasets` with data of the Hub, or a `datasets` that this Python can load"
LEFT_OUT: dict[str, dict[str, tuple[str, ...]]] = {
    "test_ops": {GPU: ("test_copy_tensor_to_devices",)},
    "test_script": {
        OWN_CLASSES: ("check_seedable_sampler_in_batch_sampler_shard", "training_check(use_seedable_sampler=True)"),
        RESETS: ("test_reinstantiated_state",),
        LIBRARY: ("test_split_between_processes_dataset",),
    },
    "test_distributed_data_loop": {
        PRIVATE: ("test_join_can_override_even_batches", "test_join_can_override_for_mixed_type_dataloaders"),
        BIG_MODELS: ("test_join_raises_warning_for_non_ddp_distributed",),
    },
    "external_deps.test_metrics": {LIBRARY: ("test_mrpc",)},
    "test_data_loader": {
        OWN_CLASSES: (
            *("test_batch_sampler_", "test_split_batches_validates_", "test_iterable_dataset_shard"),
            *("test_skip_batch_sampler", "test_skip_data_loader", "test_dataloader_inheritance"),
            *("test_skip_first_batches_does_not_reset_sampler_epoch", "test_stateful_dataloader_adapter_equivalent"),
            "test_decoupled_stateful_dataloader_adapter_equivalent",
        ),
        PRIVATE: ("test_ensure_dataloader_gets_cleaned_up", "test_skip_first_batches_preserves_iteration"),
        LIBRARY: ("test_iterable_dataset_native_sharding",),
    },
    "test_scheduler": {PRIVATE: ("test_lambda_scheduler_steps_with_optimizer_",)},
    "test_state_checkpointing": {GPU: ("test_map_location",)},
    "test_optimizer": {GPU: ("test_accelerated_optimizer_step_was_skipped",)},
    "test_accelerator": {
        BIG_MODELS: (
            *(
                "test_save_model_offload",
                "test_get_state_dict_from_offload",
                "test_accelerator_bnb",
                "test_nested_hook",
            ),
            *("test_can_unwrap_model_te", "test_prepare_model_8bit"),
        ),
        RESETS: ("test_partial_state_after_reset", "test_accelerator_state_after_reset"),
        PRIVATE: (
            *("test_prepared_objects_are_referenced", "test_free_memory_dereferences", "test_is_accelerator_prepared"),
            *("test_prepare_model_twice", "test_can_pickle_dataloader", "test_accelerator_can_be_reinstantiated"),
        ),
        ELSEWHERE: ("test_env_var_device", "test_setting_cpu_affinity"),
        GPU: ("test_accelerator_cpu_flag_prepare", "test_can_unwrap_model_fp16"),
    },
}

# Tests of public behaviour that do not pass: script or file -> the number of processes, 0 for any -> name -> why.
SHORTER = "the last, shorter window of an epoch is divided by its true length; in Accelerate by the full one"
NOT_STATEFUL = "every prepared loader has `state_dict`; it is not one of torchdata's `StatefulDataLoader`s"
DIFFERENT: dict[str, dict[int, dict[str, str]]] = {
    "test_sync": {
        2: {"test_gradient_accumulation": SHORTER, "test_gradient_accumulation_with_opt_and_scheduler": SHORTER}
    },
    "test_distributed_data_loop": {
        2: {
            "test_join_raises_warning_for_iterable_when_overriding_even_batches": "`even_batches` of "
            "`join_uneven_inputs` holds for iterable datasets, too: there is nothing to warn of",
            "test_pickle_accelerator": "an accelerator can be pickled; its state does not compare equal attribute by "
            "attribute",
        }
    },
    "test_data_loader": {
        1: dict.fromkeys(
            (
                *(
                    "StatefulDataLoaderTester.test_dataloader_state_dict",
                    "StatefulDataLoaderTester.test_end_of_dataloader",
                ),
                "StatefulDataLoaderTester.test_dataloader_dispatcher_state_dict",
                "StatefulDataLoaderTester.test_end_of_dataloader_dispatcher",
            ),
            NOT_STATEFUL,
        )
    },
    "test_accelerator": {
        1: {
            "test_mutable_states": "`accelerator.sync_gradients` cannot be set: the window decides",
            "test_save_model_with_stateful_dataloader": NOT_STATEFUL,
        }
    },
}
