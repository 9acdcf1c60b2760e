"""Optimizers, schedules, precision, metrics, and libraries that run the training loop themselves."""

ROWS = """\
# --- optimizers ---
role=optimizer returns=optimizer keeps=0
    torch.optim: *
    apex.optimizers apex.contrib.optimizers: Fused* Adam* *Adam *AdamW *SGD *Lamb *LAMB *LARS
    bitsandbytes.optim: Adam* *Lion *LAMB *LARS *SGD *Adagrad* *RMSprop*
    lion_pytorch: Adam* *Lion
    timm.optim torch_optimizer pytorch_transformers pytorch_pretrained_bert: Adam* Fused* *.Lion *.LAMB *.Lamb *.LARS
        *.SGD *.Adafactor *.AdamP *.SGDP *.RAdam *.Adam *.AdamW create_optimizer* *.create_optimizer* BertAdam*
        *.BertAdam* OpenAIAdam* *.OpenAIAdam*
    transformers: *.AdamW *.Adafactor *.Adam* *.Fused* *.create_optimizer* *.BertAdam* *.OpenAIAdam* *.Lion *.SGD
role=optimizer returns=closure_optimizer keeps=0
    torch.optim: LBFGS
role=optimizer returns=averaging_optimizer keeps=0
    torchcontrib.optim: SWA swa.SWA
effects=calls traits=own_gradients
    opacus: PrivacyEngine *.PrivacyEngine optimizers.*Optimizer* optimizers.optimizer.DPOptimizer
    private_transformers fastDP: PrivacyEngine *.PrivacyEngine
unknown
    torch.optim: lr_scheduler swa_utils
-
    torch.optim: swa_utils.get_ema_multi_avg_fn swa_utils.get_swa_multi_avg_fn swa_utils.get_ema_avg_fn
returns=module traits=may_differ_in_training
    torch.optim.swa_utils: AveragedModel
mutates=1 effects=calls traits=goes_over
    torch.optim.swa_utils: update_bn
    torchcontrib.optim.SWA: bn_update
    <averaging_optimizer>: bn_update
mutates=self
    <averaging_optimizer>: swap_swa_sgd update_swa update_swa_group
mutates=self effects=calls
    <optimizer>: step
mutates=self
    <optimizer>: zero_grad
mutates=self keeps=0
    <optimizer>: add_param_group load_state_dict
traits=attribute
    <optimizer>: param_groups state defaults
mutates=0 returns=tensor
    torch.nn.utils: clip_grad_norm_ clip_grad_value_ clip_grad_norm clip_grads_with_norm_
    apex.fp16_utils: clip_grad_norm
returns=tensor
    torch.nn.utils: get_total_norm parameters_to_vector
mutates=1
    torch.nn.utils: vector_to_parameters
returns=tensor device=arguments rows=each
    torch.nn.utils.rnn: pad_packed_sequence pad_sequence pack_sequence unpad_sequence unpack_sequence PackedSequence
        invert_permutation
returns=tensor device=arguments rows=each host=1+lengths
    torch.nn.utils.rnn: pack_padded_sequence

# --- schedules ---
role=scheduler returns=scheduler keeps=0
    torch.optim.lr_scheduler: *
    -: *.lr_scheduler.*
    torch.optim.swa_utils: SWALR
    transformers pytorch_transformers pytorch_pretrained_bert: get_scheduler *.get_scheduler *schedule* *Schedule*
    diffusers: *get_scheduler *schedule*
    timm.scheduler: *Scheduler* *schedule* *get_scheduler
role=scheduler returns=plateau_scheduler keeps=0
    torch.optim.lr_scheduler: ReduceLROnPlateau
mutates=self
    <scheduler>: step load_state_dict step_update
mutates=self
    <plateau_scheduler>: step
returns=list
    <scheduler>: get_last_lr get_lr

# --- precision ---
role=autocast returns=context
    torch torch.amp torch.cuda.amp torch.cpu.amp torch.amp.autocast_mode torch.cuda.amp.autocast_mode: autocast
role=scaler returns=scaler
    torch torch.amp torch.cuda.amp torch.cpu.amp torch.amp.grad_scaler torch.cuda.amp.grad_scaler: GradScaler
returns=tensor device=arguments mutates=self
    <scaler>: scale
mutates=self+0 effects=calls
    <scaler>: step
mutates=0
    <scaler>: unscale_
mutates=self
    <scaler>: update load_state_dict
returns=number
    <scaler>: get_scale is_enabled get_growth_factor get_backoff_factor get_growth_interval
effects=changes_library
    apex.amp: initialize
returns=context
    apex.amp: scale_loss disable_casts
returns=iterator
    apex.amp: master_params
-
    torch.cuda.amp torch.amp: custom_fwd custom_bwd
returns=module
    apex.fp16_utils: *

# --- seeds of several libraries at once ---
effects=seeds_torch+seeds_numpy+seeds_python+changes_library role=seed
    lightning.pytorch lightning.fabric lightning.pytorch.utilities.seed lightning.fabric.utilities.seed: seed_everything
    transformers transformers.trainer_utils accelerate.utils: set_seed
    transformers: enable_full_determinism
    mmcv.runner mmengine.runner: set_random_seed
    fastai.torch_core fastai.vision.all: set_seed
    catalyst.utils: set_global_seed
    ignite.utils: manual_seed
    monai.utils: set_determinism
    torch_geometric: seed_everything
    torch_geometric.seed: seed_everything
    detectron2.utils.env: seed_all_rng
    dgl: seed

# --- metrics ---
role=metric returns=module_metric traits=reduces_itself
    torchmetrics: *
returns=tensor
    torchmetrics.functional: *
returns=module_metric traits=reduces_itself role=metric keeps=0
    torchmetrics: MetricCollection
mutates=self keeps=0+1
    <metric>: update forward __call__
mutates=self
    <metric>: reset add add_batch
returns=tensor same=yes effects=waits
    <module_metric>: compute
effects=asks_network+reads_files role=metric returns=metric
    evaluate datasets: load load_metric
    torcheval.metrics: *
    ignite.metrics: *
returns=number rows=mean
    sklearn.metrics: *
    torcheval.metrics.functional: *
    pytorch_msssim: *
    piq: *
    lpips: im2tensor
    seqeval.metrics: *
    sacrebleu: *
    nltk.translate: *
    rouge_score: *
    pytorch_fid: *
    skimage.metrics: *
    torchvision.ops: box_iou generalized_box_iou
returns=ndarray rows=sum
    sklearn.metrics: confusion_matrix multilabel_confusion_matrix
effects=plots
    sklearn.metrics: ConfusionMatrixDisplay* plot_confusion_matrix plot_roc_curve RocCurveDisplay*

# --- progress ---
role=progress returns=progress passes=same
    tqdm: tqdm auto.tqdm autonotebook.tqdm notebook.tqdm std.tqdm tqdm_notebook
    -: tqdm
    progressbar: progressbar
    barbar: Bar
    alive_progress: alive_it
    fastprogress: progress_bar
    rich.progress: track
role=progress returns=progress
    tqdm: trange auto.trange notebook.trange std.trange tnrange
    alive_progress: alive_bar
    progress.bar: *
    fastprogress: master_bar
    rich.progress: Progress
    progressbar: ProgressBar
effects=shows mutates=self
    <progress>: update set_postfix set_postfix_str set_description set_description_str refresh display next finish
        start advance reset clear add_task stop
    <progress>: close
effects=prints
    <progress>: write
    tqdm: tqdm.write auto.tqdm.write notebook.tqdm.write
returns=console
    rich.console: Console
    rich: get_console
effects=prints
    <console>: print print_json print_exception rule
effects=shows
    rich: *
-
    rich: table.Table table.Table.grid table.Column table.Row panel.Panel panel.Panel.fit tree.Tree text.Text
        text.Text.* syntax.Syntax markdown.Markdown columns.Columns padding.Padding box.* style.Style
        style.Style.* theme.Theme align.Align align.Align.* rule.Rule layout.Layout console.Group console.group
        constrain.Constrain emoji.Emoji styled.Styled json.JSON pretty.Pretty pretty.pretty_repr bar.Bar
        progress_bar.ProgressBar spinner.Spinner progress.*Column markup.escape
effects=changes_library
    rich: pretty.install traceback.install reconfigure

effects=calls traits=runs_apart
    marimo: App
+ traits=counts
    tqdm: trange auto.trange notebook.trange std.trange tnrange
+ traits=clips_gradients
    torch.nn.utils: clip_grad_norm_ clip_grad_value_ clip_grad_norm
+ traits=setup
    apex.amp: initialize
"""
