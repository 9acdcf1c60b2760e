"""Loggers, experiment trackers, and plots: what draws into a figure in memory, shows it, or sets how plots look."""

ROWS = """\
# --- loggers ---
role=logger returns=logger
    logging: getLogger
    loguru: logger
    absl: logging
    structlog: get_logger
    accelerate.logging: get_logger
    transformers.utils.logging: get_logger
    datasets.logging datasets.utils.logging: get_logger
effects=logs
    logging: debug info warning warn error critical exception log fatal
    absl.logging: debug info warning warn error exception log fatal vlog
    loguru.logger: debug info warning error critical exception log success trace
    warnings: warn
    <logger>: debug info warning warn error critical exception log success trace fatal
effects=changes_library+writes_files traits=opens_log
    logging: basicConfig
    loguru.logger: add remove
    logging.config: dictConfig
effects=changes_library
    logging: disable captureWarnings addLevelName setLoggerClass
mutates=self keeps=0 traits=sets_up_log
    <logger>: addHandler
mutates=self keeps=0
    <logger>: addFilter setLevel
mutates=self traits=sets_up_log
    <logger>: removeHandler
mutates=self
    <logger>: add remove
returns=number
    <logger>: isEnabledFor getEffectiveLevel hasHandlers
returns=handler
    logging: StreamHandler NullHandler
returns=handler effects=writes_files traits=opens+opens_log
    logging: FileHandler
    logging.handlers: *
-
    logging: Formatter LogRecord Filter getLevelName
mutates=self traits=sets_up_log
    <handler>: setFormatter setLevel addFilter close flush

# --- trackers ---
role=logger returns=tensorboard effects=writes_files traits=opens
    torch.utils.tensorboard: *
    tensorboardX: *
    tensorboard_logger: Logger
    tensorflow.summary: FileWriter create_file_writer
effects=writes_files+logs mutates=self
    <tensorboard>: add_scalar add_scalars add_histogram add_histogram_raw add_image add_images add_image_with_boxes
        add_figure add_hparams
        add_text add_video add_audio add_embedding add_graph add_mesh add_pr_curve add_custom_scalars log_value
        add_summary add_tensor *  # a writer has hardly a method that does not write
effects=writes_files mutates=self
    <tensorboard>: flush close
-
    <tensorboard>: as_default get_logdir
effects=writes_files+logs traits=opens
    tensorboard_logger: configure
effects=writes_files+logs
    tensorboard_logger: log_value log_histogram log_images
    tensorflow.summary: scalar image histogram text
-
    tensorflow: Summary Summary.*
role=logger effects=writes_files+asks_network+changes_library+starts returns=run traits=opens
    wandb: init agent sweep login
    comet_ml: Experiment OfflineExperiment ExistingExperiment start
    neptune: init init_run create_experiment
    neptune.new: init
    mlflow: autolog
    aim: Run
    clearml: Task.init
    swanlab: init
    dvclive: Live
    trackio: init
role=logger effects=asks_network traits=begins_run+observes_run
    sacred.observers: *Observer *Observer.create
role=logger effects=writes_files+asks_network+logs mutates=self
    wandb: log watch finish alert define_metric unwatch
    swanlab trackio: log finish
    neptune: log_metric log_text send_metric append_tag
    <run>: log log_metric log_metrics log_parameter log_parameters log_params log_figure track log_histogram watch
        finish end stop set_name add_tag log_other report_scalar log_hyperparams alert define_metric
role=logger effects=writes_files+logs returns=run traits=opens      # nothing switches it off
    mlflow: start_run
role=logger effects=writes_files+logs mutates=self
    mlflow: set_experiment set_tracking_uri create_experiment log_metric log_metrics log_param log_params log_figure
        log_image end_run set_tag set_tags log_dict log_text set_experiment_tag set_experiment_tags log_input log_table
    mlflow.pytorch: log_model save_model log_state_dict save_state_dict
role=logger effects=reads_files+writes_files+logs mutates=self      # the files that they are given
    wandb: log_artifact log_model save
    mlflow: log_artifact log_artifacts
    neptune: log_image log_artifact
    <run>: log_artifact log_artifacts log_image log_video log_audio log_asset log_asset_folder log_model save upload
        upload_files upload_file
    <artifact>: add_file add_dir
traits=attribute
    wandb: run config summary
effects=reads_files      # where it is given the name of a file
    wandb: Image Video Audio Html Object3D Molecule
    swanlab trackio: Image Video Audio
    aim: Image Audio
returns=artifact
    wandb: Artifact
-
    wandb: Table Histogram Settings plot.* Graph
role=logger effects=asks_network returns=tracker
    visdom: Visdom
effects=shows+asks_network mutates=self
    <tracker>: line scatter images image text bar heatmap histogram

+ traits=setup
    wandb: watch
    <run>: watch
+ traits=sweeps
    wandb: agent sweep
effects=calls+draws_system+logs mutates=self traits=sweeps
    <study>: optimize
    hyperopt: fmin
    skopt: gp_minimize forest_minimize gbrt_minimize dummy_minimize
    ray.tune: run run_experiments Tuner
    ax: optimize
effects=logs returns=study
    optuna: create_study load_study
    optuna.study: create_study load_study Study
+ traits=begins_run+off_by_mode
    wandb swanlab: init
+ traits=begins_run+off_by_flag
    comet_ml: Experiment OfflineExperiment
+ traits=begins_run
    comet_ml: ExistingExperiment start
    neptune: init init_run create_experiment
    neptune.new: init
    mlflow: start_run
    aim: Run
    clearml: Task.init
    dvclive: Live
    trackio: init

# --- plots ---
effects=plots returns=figure
    matplotlib.pyplot: *
    matplotlib: *
    seaborn: *
    plotly: *
    bokeh altair: *
    scienceplots: *
    mpl_toolkits: *
effects=plots returns=figure
    matplotlib.figure: Figure
effects=plots returns=figure traits=takes_text
    matplotlib.pyplot: title suptitle xlabel ylabel legend
effects=plots traits=closes
    matplotlib.pyplot: close clf cla
effects=writes_files returns=pages traits=opens
    matplotlib.backends.backend_pdf: PdfPages
effects=writes_files mutates=self
    <pages>: savefig close attach_note
effects=plots returns=animation
    matplotlib.animation: *Animation
    celluloid: Camera.animate
effects=writes_files mutates=self
    <animation>: save
mutates=self
    <animation>: pause resume
returns=string
    <animation>: to_html5_video to_jshtml
effects=plots returns=tuple
    matplotlib.pyplot: subplots
effects=shows
    matplotlib.pyplot: show pause draw waitforbuttonpress ginput
    plotly.io: show
    <figure>: show
effects=prints
    IPython.display: display clear_output
-
    IPython.display: HTML Markdown
effects=reads_files
    IPython.display: Image Audio Video
effects=shows+writes_files mutates=self
    <figure>: canvas.print_figure
effects=changes_library
    matplotlib: use rc rcdefaults
    matplotlib.pyplot: switch_backend style.use ion ioff rc rcdefaults set_cmap
    matplotlib.style: use
    seaborn: set set_style set_theme set_context set_palette
    plotly.io.templates: *
traits=attribute effects=changes_library
    matplotlib: rcParams
    matplotlib.pyplot: rcParams
-
    matplotlib.cm matplotlib.colors matplotlib.ticker: *
    matplotlib.pyplot: get_cmap cm.* colormaps
    matplotlib: colormaps
    seaborn: color_palette
effects=plots mutates=self
    <figure>: plot scatter bar barh hist hist2d imshow matshow contour contourf pcolormesh fill_between errorbar boxplot
        violinplot pie step stem quiver axhline axvline axis set_title set_xlabel set_ylabel set_xlim set_ylim
        set_xticks set_yticks set_xticklabels set_yticklabels set_xscale set_yscale legend text annotate grid
        tick_params invert_yaxis set_aspect set_axis_off add_subplot add_axes suptitle tight_layout colorbar twinx
        add_patch clear cla clf subplots_adjust set_size_inches autofmt_xdate set update_layout add_trace add_collection
        subplots set_facecolor semilogy semilogx loglog plot_surface
returns=axes
    <figure>: gca
returns=figure traits=attribute
    <figure>: axes canvas figure patch spines xaxis yaxis transAxes

+ traits=takes_text
    <figure>: set_title set_xlabel set_ylabel suptitle legend
+ traits=blocks
    matplotlib.pyplot: show waitforbuttonpress ginput
+ traits=unblocks
    matplotlib: use
    matplotlib.pyplot: switch_backend ion
"""
