"""The counterpart in accelify.runtime of each public name of Hugging Face Accelerate: the same, another, or none.

A line without indentation holds what is true of the names in the indented lines below it: `same`; `different:` and how,
or `different!:` where whoever moves a script needs to know; `absent:` and why. An indented line says where the names
are found in Accelerate, then the names. A name becomes that of the same spelling in the module that stands for its own
(`PLACES`), or `name=other`, below `accelify.runtime`. `Accelerator.prepare` is a method, `Accelerator.prepare()` the
place of its parameters. A parameter without a row of its own is the same; methods and attributes have rows, all of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache

VERSION = "1.15.0"
OURS = "accelify.runtime"

# Where Accelerate's names are found -> what stands for it below accelify.runtime.
PLACES = {
    "accelerate": "",
    "accelerate.utils": "utils",
    "accelerate.logging": "logging",
    "accelerate.state": "state",
    "accelerate.tracking": "tracking",
    "accelerate.launchers": "launchers",
    "accelerate.local_sgd": "local_sgd",
    "accelerate.data_loader": "",
    "accelerate.optimizer": "",
    "accelerate.scheduler": "",
}


class Status(str, Enum):
    """How a name of Accelerate stands to ours."""

    SAME = "same"
    DIFFERENT = "different"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A name of Accelerate's and what it becomes.

    name: qualified, `accelerate.utils.set_seed`, `accelerate.Accelerator.prepare`, or with a parameter,
    `accelerate.Accelerator.prepare_data_loader(slice_fn_for_dispatch)`. becomes: ours, qualified; None if absent.
    how: in what it differs, or why it is absent; empty if it is the same. is_noted: a script may depend on that.
    """

    name: str
    status: Status
    becomes: str | None
    how: str = ""
    is_noted: bool = False


ROWS = """
same
    accelerate: Accelerator PartialState AutocastKwargs DDPCommunicationHookType GradScalerKwargs ProfileKwargs
        skip_first_batches debug_launcher find_executable_batch_size synchronize_rng_states
    accelerate.utils: AutocastKwargs DDPCommunicationHookType GradScalerKwargs GradientAccumulationPlugin KwargsHandler
        LoggerType PrecisionType ProfileKwargs ProjectConfiguration RNGType DynamoBackend ComputeEnvironment
        DistributedType TensorInformation
        broadcast broadcast_object_list gather pad_across_processes reduce wait_for_everyone
        concatenate convert_outputs_to_fp32 convert_to_fp32 find_batch_size find_device get_data_structure honor_type
        ignorant_find_batch_size initialize_tensors is_namedtuple is_tensor_information is_torch_tensor listify
        recursively_apply send_to_device slice_tensors
        find_executable_batch_size release_memory synchronize_rng_state synchronize_rng_states tqdm
        are_libraries_initialized clear_environment get_int_from_env parse_choice_from_env parse_flag_from_env
        patch_environment str_to_bool
        compare_versions is_torch_version convert_bytes convert_file_size_to_int get_pretty_name is_compiled_module
        is_port_in_use has_compiled_regions merge_dicts recursive_getattr
        SAFE_WEIGHTS_NAME SAFE_WEIGHTS_INDEX_NAME WEIGHTS_NAME
        is_4bit_bnb_available is_8bit_bnb_available is_aim_available is_amdsmi_available is_bf16_available
        is_bnb_available is_boto3_available is_clearml_available is_comet_ml_available is_cuda_available
        is_datasets_available is_deepspeed_available is_dvclive_available is_fp16_available is_import_timer_available
        is_lomo_available is_matplotlib_available is_mlflow_available is_mps_available is_msamp_available
        is_pandas_available is_peft_available is_pynvml_available is_pytest_available is_rocm_available
        is_sagemaker_available is_schedulefree_available is_swanlab_available is_tensorboard_available
        is_timm_available is_torch_xla_available is_torchao_available is_torchdata_available
        is_torchdata_stateful_dataloader_available is_torchvision_available is_trackio_available
        is_transformer_engine_available is_transformers_available is_triton_available is_wandb_available
        is_weights_only_available
    accelerate.state: PartialState GradientState is_initialized
    accelerate.launchers: debug_launcher
    accelerate.data_loader: skip_first_batches

different: has every member, and only NO, MULTI_CPU, MULTI_GPU and XLA ever come about
    accelerate: DistributedType

different: settings of gradient buckets and unused parameters are accepted and not needed; hooks are no, fp16 and bf16
    accelerate: DistributedDataParallelKwargs
    accelerate.utils: DistributedDataParallelKwargs

different: backend and address follow from the device and the launcher; `timeout` counts
    accelerate: InitProcessGroupKwargs
    accelerate.utils: InitProcessGroupKwargs

different: `non_blocking`, `use_seedable_sampler`, `data_seed` and `use_stateful_dataloader` are accepted and not needed
    accelerate: DataLoaderConfiguration
    accelerate.utils: DataLoaderConfiguration

different: compiles in place: the model keeps its class and keys
    accelerate.utils: TorchDynamoPlugin

different: lists are joined as in Accelerate; anything else is an error, where Accelerate takes its elements or keys
    accelerate.utils: gather_object

different: `device_specific` takes a hash of seed and rank, not their sum, with which one run repeats the next
    accelerate.utils: set_seed

different!: writes accelify.toml in the working folder, or into the file that is named
    accelerate.utils: write_basic_config

different!: `torch.load` with `weights_only=True` unless told otherwise; NumPy's types are not allowed for it
    accelerate.utils: load

different: unwraps DDP, DataParallel and `torch.compile`; nothing of accelify's needs unwrapping
    accelerate.utils: extract_model_from_parallel

different: whether the library is installed; there is no variable that switches it
    accelerate: is_rich_available=utils.is_rich_available
    accelerate.utils: is_rich_available

different: the options by name; others go to `torch.save`
    accelerate.utils: save

different: the device and kind of processes; cuda or cpu
    accelerate.utils: get_current_device_type

different: always False: accelify trains on CPU, CUDA, MPS and XLA
    accelerate.utils: is_habana_gaudi1 is_hpu_available is_mlu_available is_musa_available is_neuron_available
        is_npu_available is_sdaa_available is_xpu_available is_xccl_available

different: always False: accelify has nothing of it
    accelerate.utils: is_fp8_available is_megatron_lm_available is_pippy_available is_transformer_engine_mxfp8_available
        is_bitsandbytes_multi_backend_available

different: a logger's own level is set, not the root logger's too; there is no variable for it
    accelerate.logging: get_logger

different: made by `get_logger`
    accelerate.logging: MultiProcessAdapter

different: can be read and printed; the accelerator made last is whose state a new one has
    accelerate.state: AcceleratorState

different!: a base class of trackers of one's own; only process 0 has trackers, whatever `main_process_only` says
    accelerate.tracking: GeneralTracker

different: trackers are called on process 0 alone: there is nothing to decide
    accelerate.tracking: on_main_process

different!: takes the run's name and a folder; `log_with` makes it
    accelerate.tracking: TensorBoardTracker WandBTracker TrackioTracker CometMLTracker MLflowTracker

different: jsonl and csv, which need no library, are among them
    accelerate.tracking: get_available_trackers

different!: every option of several machines is that of accelify launch; here `num_processes` on this one
    accelerate: notebook_launcher
    accelerate.launchers: notebook_launcher

different!: momentum stays each process's own in both; here a backward pass after the block says so
    accelerate.local_sgd: LocalSGD

absent: DeepSpeed is not here
    accelerate: DeepSpeedPlugin
    accelerate.utils: DeepSpeedPlugin DeepSpeedSequenceParallelConfig GatheredParameters deepspeed_required
        compile_regions_deepspeed prepare_deepspeed_cmd_env
    accelerate.Accelerator: deepspeed_plugin deepspeed_ulysses_dl_adapter
    accelerate.Accelerator(): deepspeed_plugin deepspeed_plugins
    accelerate.state.AcceleratorState: get_deepspeed_plugin select_deepspeed_plugin
    accelerate.state.AcceleratorState(): deepspeed_plugin

absent: FSDP is not here: every process holds the whole model
    accelerate: FullyShardedDataParallelPlugin
    accelerate.utils: FullyShardedDataParallelPlugin disable_fsdp_ram_efficient_loading
        enable_fsdp_ram_efficient_loading ensure_weights_retied fsdp2_apply_ac fsdp2_canonicalize_names
        fsdp2_load_full_state_dict fsdp2_prepare_model fsdp2_switch_optimizer_parameters get_fsdp2_grad_scaler
        load_fsdp_model load_fsdp_optimizer merge_fsdp_weights save_fsdp_model save_fsdp_optimizer compile_regions_fsdp2
        model_has_dtensor get_module_children_bottom_up
    accelerate.Accelerator: is_fsdp2 should_save_model
    accelerate.Accelerator(): fsdp_plugin
    accelerate.state.AcceleratorState: is_fsdp2
    accelerate.state.AcceleratorState(): fsdp_plugin

absent: Megatron-LM is not here
    accelerate.utils: MegatronLMPlugin add_model_config_to_megatron_parser AbstractTrainStep BertTrainStep GPTTrainStep
        MegatronLMDummyDataLoader MegatronLMDummyScheduler T5TrainStep avg_losses_across_data_parallel_group
    accelerate.Accelerator(): megatron_lm_plugin
    accelerate.state.AcceleratorState(): megatron_lm_plugin

absent: data parallelism only: tensors, sequences and pipelines are not divided
    accelerate: ParallelismConfig prepare_pippy
    accelerate.utils: ParallelismConfig TorchContextParallelConfig TorchTensorParallelConfig TorchTensorParallelPlugin
        get_model_tp_size
    accelerate.Accelerator: context_parallel_rank data_parallel_rank data_parallel_shard_rank
        is_composable_parallelism_enabled maybe_context_parallel parallelism_config pipeline_parallel_rank
        tensor_parallel_rank torch_device_mesh
    accelerate.Accelerator(): torch_tp_plugin parallelism_config
    accelerate.state.AcceleratorState(): torch_tp_plugin parallelism_config

absent: fp8 is not here
    accelerate.utils: AORecipeKwargs FP8RecipeKwargs MSAMPRecipeKwargs TERecipeKwargs apply_fp8_autowrap
        check_cuda_fp8_capability contextual_fp8_autocast convert_model convert_model_to_fp8_ao
        filter_first_and_last_linear_layers has_ao_layers has_transformer_engine_layers torchao_required
    accelerate.Accelerator: fp8_backend ao_recipe_handler delayed_fp8_autocast fp8_enabled fp8_recipe_handler
        has_fp8_handler msamp_recipe_handler te_recipe_handler

absent: quantization is not here
    accelerate.utils: BnbQuantizationConfig CustomDtype has_4bit_bnb_layers load_and_quantize_model

absent: big-model inference is not here: keep Accelerate for it
    accelerate: cpu_offload cpu_offload_with_hook disk_offload dispatch_model infer_auto_device_map init_empty_weights
        init_on_device load_checkpoint_and_dispatch load_checkpoint_in_model
    accelerate.utils: OffloadedWeightsLoader PrefixedDataset align_module_device calculate_maximum_sizes
        check_device_map check_tied_parameters_in_config check_tied_parameters_on_same_device compute_module_sizes
        copy_tensor_to_devices dtype_byte_size extract_submodules_state_dict find_tied_parameters get_balanced_memory
        get_max_layer_size get_max_memory has_offloaded_params id_tensor_storage infer_auto_device_map
        load_checkpoint_in_model load_offloaded_weight load_offloaded_weights load_state_dict named_module_tensors
        offload_state_dict offload_weight retie_parameters save_offload_index set_module_tensor_to_device
    accelerate.Accelerator: verify_device_map

absent: names of files of Accelerate's checkpoints; those of accelify are of another format
    accelerate.utils: MODEL_NAME SAFE_MODEL_NAME OPTIMIZER_NAME RNG_STATE_NAME SAMPLER_NAME SCALER_NAME SCHEDULER_NAME
        PROFILE_PATTERN_NAME SAFE_WEIGHTS_PATTERN_NAME WEIGHTS_PATTERN_NAME WEIGHTS_INDEX_NAME

absent: several machines and their meeting point are accelify launch's affair
    accelerate.notebook_launcher(): master_addr node_rank num_nodes rdzv_backend rdzv_endpoint rdzv_conf rdzv_id
        monitor_interval log_line_prefix_template
    accelerate.launchers.notebook_launcher(): master_addr node_rank num_nodes rdzv_backend rdzv_endpoint rdzv_conf
        rdzv_id monitor_interval log_line_prefix_template

absent: `get_logger` makes it
    accelerate.logging.MultiProcessAdapter(): extra merge_extra

absent: part of Accelerate's launcher; use accelify launch
    accelerate.utils: PrepareForLaunch TORCH_LAUNCH_PARAMS prepare_multi_gpu_env prepare_sagemager_args_inputs
        prepare_simple_launcher_cmd_env prepare_tpu convert_dict_to_env_variables purge_accelerate_environment
        check_cuda_p2p_ib_support check_os_kernel get_cpu_distributed_information get_gpu_info install_xla
        set_numa_affinity SageMakerDistributedType
    accelerate.launchers: ELASTIC_LOG_LINE_PREFIX_TEMPLATE_PYTORCH_VERSION test_launch

absent: part of Accelerate's own workings
    accelerate.utils: CannotPadNestedTensorWarning MITA_PROFILING_AVAILABLE_PYTORCH_VERSION
        TORCH_DISTRIBUTED_OPERATION_TYPES XPU_PROFILING_AVAILABLE_PYTORCH_VERSION pad_input_tensors get_grad_scaler
        get_mixed_precision_context_manager
    accelerate.state: ThreadLocalSharedDict do_nothing
    accelerate.optimizer: move_to_device patch_optimizer_step
    accelerate.Accelerator: flag_tensor

absent: `Accelerator.save_model` does it
    accelerate.utils: clean_state_dict_for_safetensors

absent: give the accelerator a TorchDynamoPlugin, or compile the blocks yourself
    accelerate.utils: compile_regions

absent: ask `isinstance(model, peft.PeftModel)`
    accelerate.utils: is_peft_model

absent: give `log_with` an object of your own with four methods
    accelerate.tracking: AimTracker ClearMLTracker DVCLiveTracker SwanLabTracker LOGGER_TYPE_TO_CLASS
        register_tracker_class filter_trackers

absent: a prepared loader is a stand-in for the given one, and a DataLoader; nothing builds it anew
    accelerate.data_loader: SeedableRandomSampler BatchSamplerShard IterableDatasetShard DataLoaderStateMixin
        DataLoaderAdapter DataLoaderShard DataLoaderDispatcher get_sampler SkipBatchSampler SkipDataLoader

absent: `Accelerator.prepare_data_loader` does it
    accelerate.data_loader: prepare_data_loader

absent: the very same object comes back from `prepare`
    accelerate.optimizer: AcceleratedOptimizer
    accelerate.scheduler: AcceleratedScheduler

absent: LOMO is not here
    accelerate.Accelerator: lomo_backward has_lomo_optimizer

absent: ask the configuration that you gave
    accelerate.Accelerator: dispatch_batches non_blocking use_seedable_sampler use_stateful_dataloader
        dataloader_config autocast_handler ddp_handler init_handler profile_handler scaler_handler
        step_scheduler_with_optimizer rng_types native_amp device_placement

absent: micro-batches are counted for each model
    accelerate.Accelerator: step

absent: only `dispatch_batches` of Accelerate cuts batches
    accelerate.Accelerator.prepare_data_loader(): slice_fn_for_dispatch

same
    accelerate.Accelerator: autocast check_trigger clear device distributed_type end_training even_batches
        free_memory get_state_dict get_tracker gradient_accumulation_steps gradient_state init_trackers
        is_last_process is_local_main_process is_main_process local_main_process_first local_process_index log log_with
        logging_dir main_process_first mixed_precision multi_device no_sync num_processes on_last_process
        on_local_main_process on_local_process on_main_process on_process optimizer_step_was_skipped
        prepare_data_loader print process_index profile project_configuration project_dir register_for_checkpointing
        save_iteration save_model scaler set_trigger skip_first_batches split_batches state trackers
        unscale_gradients use_distributed wait_for_everyone

different!: the last, shorter window of an epoch is divided by its true length, in Accelerate by the full one
    accelerate.Accelerator: accumulate

different: called on the accelerator, not on its class
    accelerate.Accelerator: trigger_sync_in_backward

different: the same objects come back, also those in a list or dict; what cannot be prepared is an error
    accelerate.Accelerator: prepare

different: the very same object comes back: no `.module`, the same class and keys
    accelerate.Accelerator: prepare_model prepare_optimizer

different: N steps a call in the loop over a prepared loader, as in Accelerate; a call after the loop is one step
    accelerate.Accelerator: prepare_scheduler

different: the model itself: nothing wraps it
    accelerate.Accelerator: unwrap_model

different: gradients agree afterwards, however the loss was computed
    accelerate.Accelerator: backward

different: while a window of micro-batches is under way nothing is changed
    accelerate.Accelerator: clip_grad_norm_ clip_grad_value_ sync_gradients

different: ranks that ask for different things get an error, not garbage or a wait
    accelerate.Accelerator: gather pad_across_processes

different: an unknown reduction is an error; Accelerate sums
    accelerate.Accelerator: reduce

different: drops the rows that were added, for every sampler; elsewhere than in the loop it must be told `per=`
    accelerate.Accelerator: gather_for_metrics

different: pads whatever has a length; a text is everyone's
    accelerate.Accelerator: split_between_processes

different: works on the CPU too; means are over the ranks that had a batch
    accelerate.Accelerator: join_uneven_inputs

different!: one format, safetensors and JSON, complete or absent; `load_state` goes on in the middle of an epoch
    accelerate.Accelerator: save_state load_state

different!: the hook gets the weights of prepared models; a folder's final name comes after it
    accelerate.Accelerator: register_save_state_pre_hook register_load_state_pre_hook

different: a named file is replaced atomically; other options go to `torch.save`
    accelerate.Accelerator: save

different: by name only; those before it in Accelerate's order may stand by position
    accelerate.Accelerator(): rng_types log_with project_dir project_config gradient_accumulation_plugin
        step_scheduler_with_optimizer kwargs_handlers dynamo_backend dynamo_plugin

same
    accelerate.state.PartialState: backend debug device distributed_type initialized is_last_process
        is_local_main_process is_main_process local_main_process_first local_process_index main_process_first
        num_processes on_last_process on_local_main_process on_local_process on_main_process on_process print
        process_index split_between_processes use_distributed wait_for_everyone
    accelerate.state.AcceleratorState: backend debug device distributed_type initialized is_last_process
        is_local_main_process is_main_process local_main_process_first local_process_index main_process_first
        mixed_precision num_processes print process_index split_between_processes use_distributed wait_for_everyone
    accelerate.state.GradientState: active_dataloader adjust_scheduler end_of_dataloader in_dataloader initialized
        num_steps plugin_kwargs remainder sync_gradients sync_with_dataloader

different: None: nothing of the kind is here
    accelerate.state.AcceleratorState: deepspeed_plugin

absent: the process group ends by itself at exit
    accelerate.state.PartialState: destroy_process_group
    accelerate.state.AcceleratorState: destroy_process_group

absent: the device is chosen when the processes meet
    accelerate.state.PartialState: default_device set_device fork_launched
    accelerate.state.AcceleratorState: fork_launched

absent: part of Accelerate's own workings
    accelerate.state.AcceleratorState: deepspeed_plugins device_mesh dynamo_plugin parallelism_config torch_tp_plugin
    accelerate.state.AcceleratorState(): dynamo_plugin
    accelerate.state.GradientState: dataloader_references is_xla_gradients_synced

same
    accelerate.data_loader.DataLoaderShard: end_of_dataloader remainder set_epoch total_batch_size total_dataset_length
    accelerate.optimizer.AcceleratedOptimizer: step_was_skipped
    accelerate.local_sgd.LocalSGD: step

different: of every prepared loader, without torchdata; `save_state` keeps it, too
    accelerate.data_loader.DataLoaderShard: load_state_dict state_dict

absent: part of Accelerate's own workings
    accelerate.data_loader.DataLoaderShard: adjust_state_dict_for_prefetch begin end reset get_sampler set_sampler

absent: the optimizer is the script's own: `train` and `eval` are there where it has them
    accelerate.optimizer.AcceleratedOptimizer: train eval
"""

# Methods of the accelerator for which ours wait for all processes, and Accelerate's do not.
WAITS_HERE = ("save_state", "save_model", "end_training")
# Attributes that scripts may set in Accelerate, and may only read here.
READ_ONLY = {
    "accelerate.Accelerator": "even_batches gradient_state log_with project_configuration scaler state sync_gradients"
    " trackers",
    "accelerate.state.PartialState": "backend debug device distributed_type local_process_index num_processes"
    " process_index",
    "accelerate.state.AcceleratorState": "backend debug device distributed_type local_process_index num_processes"
    " process_index",
}
# Its methods that give back what they are given, wrapped; what the wrappers call what is inside; what asks for either.
PREPARES = ("prepare", "prepare_model", "prepare_optimizer", "prepare_scheduler", "prepare_data_loader")
WRAPPED = ("module", "optimizer", "scheduler")
ASK_WHAT_IS_THERE = ("hasattr", "isinstance")
# A prepared object's class in Accelerate -> what it is here, for its members.
_MEMBERS_OF = {
    "accelerate.data_loader.DataLoaderShard": f"{OURS}.data.loader.PreparedLoader",
    "accelerate.optimizer.AcceleratedOptimizer": "torch.optim.Optimizer",
}


def counterpart(name: str) -> Counterpart | None:
    """The counterpart of a qualified name of Accelerate; None for a name that is not public.

    Other ways to a name are known: `accelerate.utils.operations.gather`, `accelerate.state.DistributedType`.
    """
    found = _table().get(name)
    if found is not None or not name.startswith("accelerate."):
        return found
    own = [f"{place}.{name.rpartition('.')[2]}" for place in ("accelerate.utils", "accelerate")]
    members = any(f".{kind}." in name for kind in ("Accelerator", "PartialState", "AcceleratorState", "GradientState"))
    return None if members else next((_table()[each] for each in own if each in _table()), None)


def class_named(name: str) -> str | None:
    """The class whose members have rows, for any way to its name: `accelerate.state.PartialState`; None for others."""
    return _classes().get(name.rpartition(".")[2])


@cache
def _classes() -> dict[str, str]:
    owners = (name.rpartition(".")[0] for name in _table() if "(" not in name)
    return {owner.rpartition(".")[2]: owner for owner in owners if owner not in PLACES}


def counterparts() -> Iterator[Counterpart]:
    """Every public name of Accelerate with what it becomes, in the order of the table."""
    yield from _table().values()


@cache
def _table() -> dict[str, Counterpart]:
    found: dict[str, Counterpart] = {}
    status, how, place, is_noted = Status.SAME, "", "", False
    for line in ROWS.splitlines():
        if not line:
            continue
        if line[0] != " ":
            word, _, how = line.partition(": ")
            status, is_noted = Status(word.removesuffix("!")), word.endswith("!")
            continue
        where, colon, words = line.partition(": ")
        place = where.strip() if colon else place
        for word in (words if colon else line).split():
            each = replace(_counterpart(place, word, status, how), is_noted=is_noted)
            if each.name in found:
                raise ValueError(f"{each.name} has two rows")
            found[each.name] = each
    return found


def _counterpart(place: str, word: str, status: Status, how: str) -> Counterpart:
    name, _, other = word.partition("=")
    if place.endswith("()"):
        owner = place.removesuffix("()")
        ours = None if status is Status.ABSENT else f"{_ours(owner)}({name})"
        return Counterpart(f"{owner}({name})", status, ours, how)
    ours = f"{OURS}.{other}" if other else f"{_ours(place)}.{name}"
    return Counterpart(f"{place}.{name}", status, None if status is Status.ABSENT else ours, how)


def _ours(place: str) -> str:
    """The counterpart of a module or a class."""
    if place in _MEMBERS_OF:
        return _MEMBERS_OF[place]
    if place in PLACES:
        return f"{OURS}.{PLACES[place]}".rstrip(".")
    module, _, owner = place.rpartition(".")
    return f"{_ours(module)}.{owner}"
