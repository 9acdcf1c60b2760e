"""`nn.Module`s of torch and of other libraries, and what a module does when it is called, trained or evaluated."""

ROWS = """\
# --- layers with weights: their weights are drawn when they are built ---
role=model returns=module effects=draws_torch
    torch.nn: Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding
        EmbeddingBag
        LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyLinear
        AdaptiveLogSoftmaxWithLoss
role=model returns=recurrent effects=draws_torch
    torch.nn: RNN LSTM GRU RNNCell LSTMCell GRUCell RNNBase RNNCellBase
role=model returns=module effects=draws_torch traits=differs_in_training
    torch.nn: MultiheadAttention Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
        TransformerEncoderLayer
role=model returns=module
    torch.nn: GroupNorm LayerNorm RMSNorm CrossMapLRN2d LocalResponseNorm PReLU
role=model returns=normalization traits=differs_in_training
    torch.nn: BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyBatchNorm1d
        LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d SyncBatchNorm

# --- layers without ---
role=model returns=dropout traits=has_no_weights+differs_in_training
    torch.nn: AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout RReLU
role=model returns=module traits=has_no_weights
    torch.nn: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
        AdaptiveMaxPool3d
        AvgPool1d AvgPool2d AvgPool3d CELU ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d
        ConstantPad2d ConstantPad3d CosineSimilarity ELU Flatten Fold GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh
        Identity LPPool1d LPPool2d LPPool3d LeakyReLU LogSigmoid LogSoftmax MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d
        MaxUnpool2d MaxUnpool3d Mish PairwiseDistance PixelShuffle PixelUnshuffle ReLU ReLU6 ReflectionPad1d
        ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU SiLU Sigmoid Softmax
        Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold Unflatten Unfold Upsample
        UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
role=model returns=dropout traits=has_no_weights
    torch.nn: FractionalMaxPool2d FractionalMaxPool3d
role=model returns=container keeps=0
    torch.nn: Sequential ModuleDict ModuleList Container
returns=container keeps=0
    torch.nn: ParameterDict ParameterList
role=model returns=module traits=has_no_weights
    torch.nn: Module
role=model returns=module
    torch.jit: ScriptModule
role=model returns=module effects=draws_torch traits=may_differ_in_training
    torch.ao.nn torch.nn.quantized torch.nn.qat torch.nn.intrinsic: *
    -: PreTrainedModel *.PreTrainedModel MessagePassing *.MessagePassing

# --- losses ---
role=loss returns=loss traits=has_no_weights
    torch.nn: BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss HingeEmbeddingLoss
        HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss
        MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss
        TripletMarginLoss TripletMarginWithDistanceLoss
role=loss returns=loss effects=draws_torch
    torch.nn: LinearCrossEntropyLoss
role=loss returns=loss
    torch.nn: *Loss *Criterion
    segmentation_models_pytorch.losses: *
unknown
    torch.nn.functional torch.nn.utils torch.nn.init: *Loss *Criterion

# --- what is not a module ---
returns=parameter device=option
    torch.nn: UninitializedParameter UninitializedBuffer
-
    torch.nn.utils.stateless: functional_call
    torch.nn: factory_kwargs LinearCrossEntropyOptions

# --- one model in another form ---
role=wrapper returns=wrapper traits=spreads+moves_inputs
    torch.nn.parallel: DistributedDataParallel distributed.DistributedDataParallel
    apex.parallel: DistributedDataParallel
role=wrapper returns=wrapper traits=moves_inputs
    torch.nn: DataParallel
    torch.nn.parallel: DataParallel data_parallel.DataParallel
returns=tensor effects=calls traits=several_gpus
    torch.nn.parallel: data_parallel data_parallel.data_parallel
effects=calls traits=several_gpus
    torch.nn.parallel: replicate replicate.replicate parallel_apply parallel_apply.parallel_apply
    <wrapper>: replicate scatter gather parallel_apply
role=wrapper returns=argument effects=calls
    torch: compile
    torch.jit: script trace trace_module optimize_for_inference freeze
returns=module
    torch.nn.SyncBatchNorm: convert_sync_batchnorm
    torch.nn.utils: weight_norm spectral_norm parametrizations.* remove_weight_norm remove_spectral_norm
        parametrize.register_parametrization fusion.* fuse_* skip_init convert_*
    torch.nn.utils.prune: *
    apex.parallel: convert_syncbn_model

# --- models of libraries ---
role=model returns=module effects=draws_torch+reads_files+asks_network traits=may_differ_in_training
    torchvision.models: *
    timm timm.models: create_model
    segmentation_models_pytorch: *
    efficientnet_pytorch pretrainedmodels: *
    torch_geometric.nn dgl.nn: *
    open_clip: create_model create_model_and_transforms create_model_from_pretrained
    sentence_transformers: SentenceTransformer
    monai.networks.nets: *
    torchaudio.models torchaudio.pipelines: *
    diffusers: UNet2DModel UNet2DConditionModel AutoencoderKL
role=model returns=module effects=draws_torch+reads_files+asks_network traits=may_differ_in_training+fetches
    torch.hub clip: load
role=model returns=module effects=draws_torch+reads_files+asks_network traits=may_differ_in_training
    -: *.from_pretrained
role=model returns=module effects=draws_torch traits=may_differ_in_training
    transformers: *Model *ForSequenceClassification *ForTokenClassification *ForQuestionAnswering *ForMaskedLM
        *ForCausalLM *ForConditionalGeneration *LMHeadModel *ForPreTraining *ForImageClassification *.from_config
    torchvision.models.detection: *
effects=reads_files+asks_network
    -: *Tokenizer.from_pretrained *TokenizerFast.from_pretrained *Config.from_pretrained *Processor.from_pretrained
        *FeatureExtractor.from_pretrained *Scheduler.from_pretrained *Pipeline.from_pretrained
        *ImageProcessor.from_pretrained
-
    torchvision.models: *_Weights.* get_weight get_model_weights list_models
    timm: list_models
    torch_geometric.nn: global_mean_pool global_add_pool global_max_pool knn_graph radius_graph
    transformers: *Config logging.set_verbosity_*
effects=changes_library
    transformers.logging transformers.utils.logging datasets.logging datasets.utils.logging: *
effects=reads_files+asks_network returns=state
    torch.hub torchvision.models.utils: load_state_dict_from_url
    torch.utils.model_zoo: load_url
effects=asks_network+writes_files
    torch.hub: download_url_to_file
effects=changes_library
    torch.hub: set_dir
returns=string effects=reads_environment
    torch.hub: get_dir
effects=asks_network
    torch.hub: list help

# --- a module's members ---
returns=self mutates=self
    <module>: train eval requires_grad_
returns=self mutates=self device=given
    <module>: to to_empty
returns=self mutates=self device=accelerator
    <module>: cuda xpu ipu
returns=self mutates=self device=host
    <module>: cpu
returns=self mutates=self
    <module>: float double half bfloat16 type share_memory compile
returns=self mutates=self effects=calls
    <module>: apply
mutates=self
    <module>: zero_grad set_submodule
mutates=self keeps=1
    <module>: add_module register_module register_buffer register_parameter
mutates=self keeps=0
    <module>: register_forward_hook register_forward_pre_hook register_full_backward_hook register_backward_hook
        register_full_backward_pre_hook register_state_dict_pre_hook register_state_dict_post_hook
        register_load_state_dict_pre_hook register_load_state_dict_post_hook
effects=changes_library+calls
    torch.nn.modules.module: register_module_forward_hook register_module_forward_pre_hook
        register_module_backward_hook register_module_full_backward_hook
mutates=self keeps=0 rows=each traits=replaces
    <module>: load_state_dict
returns=state
    <module> <optimizer> <scheduler> <scaler>: state_dict
returns=iterator traits=parameters
    <module>: parameters named_parameters trainable_parameters
returns=iterator
    <module>: buffers named_buffers
returns=iterator traits=parts
    <module>: children named_children modules named_modules
-
    <module>: get_extra_state extra_repr
returns=module
    <module>: get_submodule
returns=tensor traits=view
    <module>: get_parameter get_buffer
returns=number traits=attribute asks=training
    <module>: training
returns=parameter traits=attribute
    <module>: weight bias
returns=tensor traits=attribute
    <module>: running_mean running_var
returns=module traits=attribute
    <wrapper>: module
returns=tensor device=arguments
    <module>: __call__ forward
returns=tensor effects=draws_in_training device=arguments
    <dropout>: __call__ forward
returns=tensor effects=updates_in_training device=arguments
    <normalization>: __call__ forward
returns=tensor rows=mean device=arguments role=loss
    <loss>: __call__ forward
mutates=self keeps=0
    <container>: append extend update
mutates=self keeps=1
    <container>: insert
mutates=self effects=writes_files+asks_network
    <module>: push_to_hub
effects=writes_files
    <module>: save_pretrained save
returns=tensor effects=draws_torch device=arguments
    <module>: generate
mutates=self
    <optimizer>: register_step_post_hook register_step_pre_hook
    <module>: set_extra_state resize_token_embeddings gradient_checkpointing_enable enable_input_require_grads
        tie_weights
        remove_hook remove flatten_parameters
mutates=self effects=draws_torch
    <module>: reset_parameters

# --- initialisation ---
returns=argument mutates=0 effects=draws_torch
    torch.nn.init: uniform_ normal_ trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_
        orthogonal_ sparse_ uniform normal xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal sparse
    timm.models.layers timm.layers: trunc_normal_ lecun_normal_ variance_scaling_
returns=argument mutates=0
    torch.nn.init: constant_ ones_ zeros_ eye_ dirac_ constant eye dirac
returns=number
    torch.nn.init: calculate_gain

+ traits=switches_mode
    <module>: train eval
+ traits=rescales_rows
    torch.nn: Embedding EmbeddingBag
+ traits=setup+keeps_signature
    torch: compile
+ traits=keeps_signature+compiles
    torch.jit: script
+ traits=setup
    torch.nn: DataParallel
    torch.nn.parallel: DataParallel DistributedDataParallel distributed.DistributedDataParallel
    apex.parallel: DistributedDataParallel
"""
