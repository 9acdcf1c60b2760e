"""Processes that work together: torch.distributed, Accelerate, Horovod, DeepSpeed, and how launchers say who is who."""

ROWS = """\
# --- which process is this? ---
returns=number same=no traits=spreads asks=rank
    torch.distributed: get_rank
    horovod.torch: rank
    torch_xla.core.xla_model: get_ordinal
returns=number same=no traits=spreads asks=local_rank
    torch.distributed: get_node_local_rank
    horovod.torch: local_rank
    torch_xla.core.xla_model: get_local_ordinal
returns=number same=no traits=spreads asks=is_main
    torch_xla.core.xla_model: is_master_ordinal
returns=number same=no traits=spreads
    torch.distributed: get_group_rank get_global_rank
returns=number same=yes traits=spreads asks=size
    torch.distributed: get_world_size
    horovod.torch: size
    torch_xla.core.xla_model: xrt_world_size
returns=number same=yes traits=spreads
    torch.distributed: get_backend get_default_backend_for_device
    horovod.torch: local_size
returns=number same=yes traits=spreads asks=started
    torch.distributed: is_initialized
returns=number same=yes traits=spreads asks=yes
    torch.distributed: is_available
returns=number same=yes traits=spreads
    torch.distributed: is_nccl_available is_gloo_available is_mpi_available
        is_ucc_available is_torchelastic_launched is_backend_available
traits=attribute same=no asks=rank
    <accelerator>: process_index
traits=attribute same=no asks=local_rank
    <accelerator>: local_process_index
traits=attribute same=no asks=is_main
    <accelerator>: is_main_process
traits=attribute same=no
    <accelerator>: is_local_main_process is_last_process
traits=attribute same=yes asks=size
    <accelerator>: num_processes
traits=attribute same=yes
    <accelerator>: mixed_precision distributed_type sync_gradients use_distributed
traits=attribute same=no returns=device
    <accelerator>: device

# --- groups ---
effects=waits+changes_library+reads_environment traits=spreads
    torch.distributed: init_process_group destroy_process_group new_group new_subgroups init_device_mesh
    horovod.torch deepspeed: init init_distributed
effects=waits traits=spreads
    torch.distributed: barrier monitored_barrier
    torch_xla.core.xla_model: rendezvous
effects=waits
    <accelerator>: wait_for_everyone
effects=waits traits=goes_first
    <accelerator>: main_process_first local_main_process_first

# --- one TPU ---
returns=device traits=tpu
    torch_xla.core.xla_model torch_xla: xla_device device
effects=waits traits=tpu
    torch_xla.core.xla_model torch_xla: mark_step optimizer_step sync step

# --- what all have, on all ---
role=collective effects=waits mutates=0 same=yes traits=spreads
    torch.distributed: all_reduce all_gather all_gather_object all_gather_into_tensor broadcast broadcast_object_list
        all_reduce_coalesced all_gather_coalesced
role=collective effects=waits returns=tensor same=yes traits=spreads
    horovod.torch: allreduce allgather broadcast
    torch_xla.core.xla_model: all_reduce mesh_reduce all_gather
    torch.distributed.nn: all_reduce all_gather
role=collective effects=waits mutates=0 same=yes traits=spreads
    horovod.torch: allreduce_ broadcast_ broadcast_parameters broadcast_optimizer_state broadcast_object
role=collective effects=waits returns=number same=yes
    <accelerator>: check_trigger
role=collective effects=waits returns=argument same=yes
    <accelerator>: gather gather_for_metrics reduce pad_across_processes broadcast_object_list
    accelerate.utils: gather gather_object reduce broadcast broadcast_object_list pad_across_processes

# --- what one has ---
role=collective effects=waits mutates=0 same=no traits=spreads
    torch.distributed: reduce gather gather_object scatter scatter_object_list reduce_scatter reduce_scatter_tensor
        all_to_all all_to_all_single recv irecv recv_object_list
role=collective effects=waits same=no traits=spreads
    torch.distributed: send isend send_object_list batch_isend_irecv P2POp
traits=spreads
    torch: distributed*
    -: horovod* byteps* fairscale* torch_xla* mpi4py* deepspeed*
    apex.parallel: Reducer
    torch.nn.parallel torch.utils.data: distributed*
same=yes traits=spreads+attribute
    torch.distributed: ReduceOp.*
effects=starts+calls+waits traits=spreads
    torch.multiprocessing: spawn start_processes
    multiprocessing: spawn
    torch_xla.distributed.xla_multiprocessing: spawn
returns=process effects=starts+calls traits=spreads
    torch.multiprocessing: Process

# --- Accelerate's object ---
returns=accelerator
    accelerate accelerate.accelerator accelify.runtime: Accelerator
    accelify.runtime: Accelerator.current PartialState
    accelerate accelerate.state: PartialState
mutates=0 effects=waits
    <accelerator>: backward clip_grad_norm_ clip_grad_value_
returns=argument
    <accelerator>: unwrap_model
effects=prints
    <accelerator>: print
effects=logs
    <accelerator>: log
effects=writes_files+waits
    <accelerator>: save save_state save_model
effects=reads_files+waits
    <accelerator>: load_state

# --- checkpoints that all write together ---
effects=writes_files+waits traits=spreads
    torch.distributed.checkpoint: save save_state_dict async_save
effects=reads_files+waits mutates=0 traits=spreads
    torch.distributed.checkpoint: load load_state_dict

+ traits=together
    torch.distributed: barrier monitored_barrier all_reduce all_gather all_gather_object all_gather_into_tensor
        broadcast broadcast_object_list all_reduce_coalesced all_gather_coalesced
        reduce gather gather_object scatter scatter_object_list reduce_scatter reduce_scatter_tensor
        all_to_all all_to_all_single
    horovod.torch: allreduce allgather broadcast allreduce_ broadcast_ broadcast_parameters broadcast_optimizer_state
        broadcast_object
    <accelerator>: check_trigger
    <accelerator>: wait_for_everyone gather gather_for_metrics reduce pad_across_processes broadcast_object_list
    accelerate.utils: gather gather_object reduce broadcast broadcast_object_list pad_across_processes
+ traits=group
    torch.distributed: init_process_group destroy_process_group
+ traits=needs_no_group
    torch.distributed: is_available is_initialized is_nccl_available is_gloo_available is_mpi_available
        is_ucc_available is_torchelastic_launched is_backend_available get_default_backend_for_device
+ instead=accelerator.reduce(x)
    torch.distributed: all_reduce reduce
+ instead=accelerator.gather(x)
    torch.distributed: all_gather all_gather_into_tensor gather
+ instead=gather_object(x)
    torch.distributed: all_gather_object
+ instead=broadcast(x)
    torch.distributed: broadcast
+ instead=accelerator.broadcast_object_list(x)
    torch.distributed: broadcast_object_list
+ instead=accelerator.device
    torch_xla.core.xla_model torch_xla: xla_device device
+ instead=optimizer.step()
    torch_xla.core.xla_model: optimizer_step
+ instead=accelerator.process_index
    torch.distributed: get_rank
+ instead=accelerator.num_processes
    torch.distributed: get_world_size
+ instead=accelerator.wait_for_everyone()
    torch.distributed: barrier
"""
