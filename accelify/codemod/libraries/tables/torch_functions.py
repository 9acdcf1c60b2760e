"""Functions of torch that are no method of a tensor: factories, draws, layers as functions, losses, devices, state."""

ROWS = """\
# --- new tensors ---
returns=tensor role=factory device=option traits=shape_only+zeros
    torch: zeros
returns=tensor role=factory device=option traits=shape_only+ones
    torch: ones
returns=tensor role=factory device=option traits=shape_only
    torch: empty empty_strided empty_permuted eye tril_indices triu_indices
returns=tensor role=factory device=option
    torch: tensor full arange range linspace logspace scalar_tensor sparse_coo_tensor sparse_csr_tensor
        sparse_compressed_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
    torch: bartlett_window blackman_window hamming_window hann_window kaiser_window
    torch.signal.windows: *
    torch.nested: nested_tensor
returns=tensor role=factory device=option_or_argument rows=each traits=view
    torch: as_tensor asarray
returns=tensor role=factory device=host rows=each traits=view
    torch: from_numpy frombuffer from_dlpack
    torch.utils.dlpack: from_dlpack
returns=tensor role=factory device=host
    torch: Tensor FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor
        ByteTensor BoolTensor
returns=tensor role=factory device=accelerator
    torch.cuda: FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor
        ByteTensor BoolTensor
returns=parameter device=arguments
    torch.nn: Parameter Buffer
returns=tensor device=arguments
    torch.autograd: Variable
returns=size
    torch: Size
effects=reads_files returns=tensor device=host
    torch: from_file

# --- draws ---
returns=tensor effects=draws_torch device=option
    torch: rand randn randint normal
returns=tensor effects=draws_torch device=option rows=shuffles
    torch: randperm
returns=tensor effects=draws_torch device=arguments rows=each
    torch: rrelu
    torch: _sample_dirichlet _standard_gamma
returns=tensor effects=draws_in_training device=arguments rows=each
    torch: dropout alpha_dropout feature_alpha_dropout feature_dropout native_dropout
    torch.nn.functional: dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu
returns=argument effects=draws_in_training mutates=0 device=arguments rows=each
    torch: dropout_ alpha_dropout_ feature_alpha_dropout_ feature_dropout_ rrelu_
    torch.nn.functional: rrelu_
returns=tensor effects=draws_torch device=arguments
    torch.nn.functional: gumbel_softmax fractional_max_pool2d fractional_max_pool3d
        fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices
returns=tensor effects=draws_in_training device=arguments
    torch.nn.functional: scaled_dot_product_attention multi_head_attention_forward
    torch: lstm gru rnn_tanh rnn_relu
effects=draws_torch returns=tensor device=option
    torch.quasirandom: SobolEngine
returns=distribution
    torch.distributions: *
-
    torch.distributions: kl_divergence kl.kl_divergence register_kl constraints.* transforms.*
effects=draws_torch returns=tensor device=arguments
    <distribution>: sample rsample sample_n
returns=tensor device=arguments
    <distribution>: log_prob entropy cdf icdf perplexity enumerate_support
returns=distribution
    <distribution>: expand
returns=tensor traits=attribute device=arguments
    <distribution>: mean stddev variance probs logits mode loc scale

# --- seeds and states of generators ---
effects=seeds_torch returns=torch_generator role=seed
    torch: manual_seed
effects=seeds_torch role=seed
    torch.cuda: manual_seed manual_seed_all
    torch.mps torch.xpu torch.mtia: manual_seed
    torch.xpu: manual_seed_all
effects=seeds_torch role=seed host=0+new_state
    torch: set_rng_state
    torch.cuda torch.mps torch.xpu torch.mtia: set_rng_state
effects=seeds_torch role=seed host=0+new_states
    torch.cuda: set_rng_state_all
effects=seeds_torch+draws_system role=seed traits=own_seed
    torch: seed
    torch.cuda: seed seed_all
    torch.mps torch.xpu: seed
returns=tensor device=host same=draw
    torch: get_rng_state
    torch.cuda: get_rng_state get_rng_state_all
    torch.mps torch.xpu: get_rng_state
returns=number same=draw
    torch: initial_seed
    torch.cuda torch.xpu: initial_seed
    torch.utils.data: get_worker_info
returns=context effects=seeds_torch
    torch.random: fork_rng
returns=torch_generator role=generator traits=setup
    torch: Generator
returns=torch_generator traits=attribute
    torch: default_generator
    torch.cuda: default_generators
effects=seeds_given mutates=self role=seed returns=self
    <torch_generator>: manual_seed set_state
effects=seeds_given+draws_system mutates=self role=seed returns=number
    <torch_generator>: seed
returns=tensor same=draw
    <torch_generator>: get_state
returns=number same=draw
    <torch_generator>: initial_seed

# --- layers as functions ---
returns=tensor rows=each device=arguments traits=in_place_option
    torch.nn.functional: celu elu hardsigmoid hardswish hardtanh leaky_relu mish relu relu6 selu silu threshold
returns=tensor rows=each device=arguments
    torch.nn.functional: gelu glu hardshrink logsigmoid sigmoid softplus softshrink softsign tanh tanhshrink
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d lp_pool1d lp_pool2d
        lp_pool3d max_unpool1d max_unpool2d max_unpool3d adaptive_max_pool1d_with_indices
        adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices max_pool1d_with_indices
        max_pool2d_with_indices max_pool3d_with_indices fold unfold interpolate upsample upsample_bilinear
        upsample_nearest pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle pad one_hot affine_grid
        local_response_norm
    torch: avg_pool1d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_max_pool1d max_pool1d_with_indices
        affine_grid_generator
returns=tensor rows=each device=arguments
    torch.nn.functional: bilinear conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
        cosine_similarity embedding embedding_bag grid_sample group_norm layer_norm rms_norm linear
        pairwise_distance prelu
    torch: conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution embedding
        group_norm layer_norm grid_sampler grid_sampler_2d grid_sampler_3d gru_cell lstm_cell rnn_relu_cell
        rnn_tanh_cell
returns=tensor device=arguments
    torch.nn.functional: pdist grouped_mm scaled_mm scaled_grouped_mm
returns=tensor rows=along device=arguments
    torch.nn.functional: log_softmax normalize softmax softmin
returns=tensor device=arguments traits=differs_in_training mutates=1+2
    torch.nn.functional: batch_norm instance_norm
    torch: batch_norm instance_norm native_batch_norm
returns=argument mutates=0 rows=each device=arguments
    torch.nn.functional: *_
    torch: *_
returns=tensor rows=each device=arguments
    torchvision.ops: *
returns=tensor rows=selects device=arguments
    torchvision.ops: nms batched_nms remove_small_boxes

# --- losses: mean over the rows unless `reduction` says otherwise ---
role=loss returns=tensor rows=mean device=arguments
    torch.nn.functional: binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy
        ctc_loss gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss linear_cross_entropy
        margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss
        poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss
    torch: binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss kl_div
        margin_ranking_loss poisson_nll_loss triplet_margin_loss
    torchvision.ops: sigmoid_focal_loss generalized_box_iou_loss complete_box_iou_loss distance_box_iou_loss

# --- gradients ---
returns=context same=yes
    torch: no_grad enable_grad inference_mode autograd.no_grad autograd.enable_grad autograd.inference_mode
    torch.autograd: detect_anomaly set_detect_anomaly profiler.* graph.*
    torch.profiler: *
    torch: profiler.profile
effects=changes_library returns=context
    torch: set_grad_enabled
    torch.autograd: set_grad_enabled
effects=calls returns=tuple
    torch.autograd: grad
effects=calls
    torch.autograd: backward
    torch.autograd.functional: *
    torch.func: *
    torch: vmap cond while_loop
    torch.utils.checkpoint: checkpoint checkpoint_sequential
    torch.autograd: gradcheck gradgradcheck
-
    torch.autograd: Function function.Function

# --- devices ---
role=device returns=device asks=device
    torch: device
role=device returns=device same=no
    torch.cuda torch.xpu: current_device
    torch.accelerator: current_accelerator current_device_index current_device_idx
    torch: get_default_device
role=device_test returns=number same=yes asks=gpus
    torch.cuda: device_count
role=device_test returns=number same=yes asks=gpu
    torch.cuda: is_available
role=device_test returns=number same=yes
    torch.backends.mps: is_available is_built
    torch.mps torch.xpu torch.accelerator: is_available
returns=number same=yes
    torch.xpu torch.accelerator torch.mps: device_count
    torch.cuda: is_bf16_supported is_initialized get_device_name get_device_capability get_device_properties
        get_arch_list can_device_access_peer is_current_stream_capturing
    torch.backends.cuda: is_built
    torch.backends.cudnn: is_available version
    torch.backends.openmp torch.backends.mkl: is_available
    torch: is_vulkan_available compiled_with_cxx11_abi get_num_threads get_num_interop_threads
    torch.cuda.nccl: version
    torch.version: *
traits=attribute same=yes
    torch: __version__
    torch.version: cuda hip git_version
traits=attribute+shape_only same=yes returns=dtype
    torch: float float16 float32 float64 double half bfloat16 int int8 int16 int32 int64 long short uint8 bool cfloat
        complex64 complex128 float8_e4m3fn float8_e5m2
traits=attribute same=yes
    torch: channels_last contiguous_format preserve_format strided sparse_coo pi inf nan e
effects=changes_library
    torch.cuda: set_device set_per_process_memory_fraction init empty_cache reset_peak_memory_stats
        reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats ipc_collect set_stream
        set_sync_debug_mode
    torch.mps torch.xpu: empty_cache set_per_process_memory_fraction
    torch.xpu: set_device
    torch.accelerator: set_device_index set_device_idx set_stream empty_cache
    torch.cuda.memory: _record_memory_history
effects=waits
    torch.cuda torch.mps torch.xpu torch.accelerator: synchronize
    <cuda_event>: synchronize
returns=number same=no
    torch.cuda: memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached
        max_memory_cached mem_get_info memory_stats memory_summary memory_snapshot utilization temperature power_draw
    torch.mps: current_allocated_memory driver_allocated_memory
returns=context
    torch.cuda: device stream Stream current_stream default_stream graph CUDAGraph
    torch.xpu: device stream Stream
    torch.accelerator: current_stream
    torch: Stream
returns=cuda_event
    torch.cuda torch: Event
role=clock effects=reads_clock mutates=self
    <cuda_event>: record wait
role=clock effects=reads_clock returns=number
    <cuda_event>: elapsed_time

# --- settings ---
effects=changes_library
    torch: set_anomaly_enabled set_default_device set_default_dtype set_default_tensor_type
        set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads
        set_num_threads set_printoptions set_warn_always use_deterministic_algorithms set_autocast_enabled
        set_autocast_gpu_dtype set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_cache_enabled
        set_autocast_dtype clear_autocast_cache
    torch.backends.cuda: enable_flash_sdp enable_mem_efficient_sdp enable_math_sdp
    torch.backends.cudnn: flags
    torch._dynamo: reset config
    torch.utils.rename_privateuse1_backend: *
returns=number same=yes
    torch: are_deterministic_algorithms_enabled get_default_dtype get_deterministic_debug_mode
        get_float32_matmul_precision is_autocast_enabled is_autocast_cpu_enabled is_grad_enabled
        is_inference_mode_enabled is_anomaly_enabled is_warn_always_enabled get_autocast_gpu_dtype
        get_autocast_cpu_dtype get_autocast_dtype is_deterministic_algorithms_warn_only_enabled
        is_autocast_cache_enabled get_device_module typename finfo iinfo
returns=context
    torch.nn.attention: sdpa_kernel
    torch.backends.cuda: sdp_kernel
effects=calls
    torch.utils.benchmark: Timer
-
    torch.utils: _pytree.*
    torch.jit: is_scripting is_tracing annotate isinstance fork wait
    torch: Tag layout memory_format qscheme dtype

# --- the same values as a tensor ---
+ traits=same_values
    torch: tensor as_tensor asarray from_numpy
+ traits=same_values+view
    torch.autograd: Variable
+ traits=no_gradient
    torch: no_grad inference_mode autograd.no_grad autograd.inference_mode
+ traits=sets_gradient
    torch: no_grad inference_mode enable_grad set_grad_enabled autograd.no_grad autograd.inference_mode
        autograd.enable_grad
    torch.autograd: set_grad_enabled
+ traits=counts
    torch: arange range
+ traits=needs_number
    torch.cuda: set_per_process_memory_fraction
+ traits=picks_device
    torch.cuda torch.xpu: set_device
    torch.accelerator: set_device_index set_device_idx
"""
