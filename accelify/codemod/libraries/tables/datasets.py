"""Loaders, samplers, data sets, transforms and simulations: what yields batches and samples."""

ROWS = """\
# --- loaders ---
role=loader returns=loader traits=torch_loader keeps=0
    torch.utils.data: DataLoader
    torchdata.stateful_dataloader: StatefulDataLoader
    monai.data: DataLoader
    -: DataLoader
role=loader returns=loader traits=torch_loader+yields_graphs keeps=0
    torch_geometric.data: DataLoader
    torch_geometric.loader dgl.dataloading: *Loader *Iterator
traits=torch_loader+yields_graphs returns=loader keeps=0
    torch_geometric.loader dgl.dataloading: *
role=loader returns=loader keeps=0
    torchtext.data: *Loader *Iterator
returns=number rows=count traits=shape_only
    <loader> <dataset> <sampler>: __len__
returns=sampler traits=attribute
    <loader>: sampler batch_sampler
traits=attribute
    <loader>: dataset batch_size drop_last num_workers collate_fn
returns=loader_iterator
    <loader>: __iter__

# --- samplers ---
role=sampler returns=sampler keeps=0
    torch.utils.data: SequentialSampler BatchSampler Sampler
role=sampler returns=sampler keeps=0 rows=shuffles
    torch.utils.data: RandomSampler SubsetRandomSampler WeightedRandomSampler
role=sampler returns=sampler traits=spreads
    torch.utils.data torch.utils.data.distributed: DistributedSampler
mutates=self
    <sampler>: set_epoch

# --- data sets ---
role=dataset returns=tensor_dataset keeps=0 traits=yields_tensors
    torch.utils.data: TensorDataset
role=dataset returns=dataset keeps=0
    torch.utils.data: Subset ConcatDataset StackDataset
role=dataset returns=dataset keeps=0 traits=streams
    torch.utils.data: ChainDataset BufferedShuffleDataset
role=dataset returns=list effects=draws_torch keeps=0 rows=shuffles
    torch.utils.data: random_split
role=dataset returns=dataset
    torch.utils.data: Dataset MapDataPipe
role=dataset returns=dataset traits=streams
    torch.utils.data: IterableDataset IterDataPipe
role=dataset returns=dataset effects=reads_files+asks_network+writes_files traits=yields_tensors
    torchvision.datasets: *
role=dataset returns=dataset effects=reads_files+asks_network+writes_files
    torchaudio.datasets medmnist: *
    datasets: load_dataset load_from_disk
role=dataset returns=dataset effects=reads_files+asks_network+writes_files traits=fetches
    torch_geometric.datasets torchtext.datasets: *
    torch_geometric.data: Dataset InMemoryDataset OnDiskDataset
    ogb.nodeproppred ogb.linkproppred ogb.graphproppred ogb.lsc dgl.data: *Dataset
    sklearn.datasets: fetch_*
role=dataset returns=dataset effects=reads_files traits=yields_tensors
    torchvision.datasets: ImageFolder DatasetFolder FakeData VisionDataset
role=dataset returns=dataset effects=reads_files
    torchtext.data: Dataset TabularDataset
    torchtext.datasets: TranslationDataset LanguageModelingDataset SequenceTaggingDataset
effects=draws_numpy returns=tuple
    sklearn.datasets: make_*
    sklearn.model_selection: train_test_split
returns=tuple effects=reads_files
    sklearn.datasets: load_*
-
    torch.utils.data: default_collate default_convert _utils.*
    torch.utils.data.datapipes: *
    sklearn.model_selection: ParameterGrid
    sklearn.preprocessing: *
    sklearn.decomposition sklearn.cluster sklearn.linear_model sklearn.neighbors sklearn.svm sklearn.ensemble: *
traits=folds
    sklearn.model_selection: *Fold TimeSeriesSplit LeaveOneOut LeavePOut LeaveOneGroupOut LeavePGroupsOut
        PredefinedSplit *ShuffleSplit
    iterstrat.ml_stratifiers: *
effects=reads_files+asks_network
    nltk: *
    spacy: load
    torchtext.vocab: *
    gensim: *
effects=reads_files+asks_network+writes_files traits=fetches
    torchtext.vocab: GloVe FastText CharNGram Vectors
    gensim.downloader: *
effects=reads_files+asks_network+writes_files traits=fetches
    kagglehub: *_download
effects=asks_network+writes_files traits=downloads
    nltk: download
    fasttext.util: download_model
    dgl.data.utils: download extract_archive
    ogb.utils.url torch_geometric.data: download_url extract_zip extract_tar extract_gz
effects=asks_network+writes_files
    huggingface_hub: *                   # which lets the processes wait for each other
    torchvision.datasets.utils: download_url download_and_extract_archive download_file_from_google_drive

# --- texts ---
returns=text_field keeps=tokenize+preprocessing+postprocessing
    torchtext.data: Field LabelField NestedField ReversibleField SubwordField RawField
mutates=self effects=calls+reads_files+asks_network+writes_files traits=fetches_vectors
    <text_field>: build_vocab

# --- transforms ---
returns=transform
    torchvision.transforms torchaudio.transforms monai.transforms timm.data: *
    albumentations albumentations.pytorch kornia.augmentation kornia.geometry: *
effects=seeds_given mutates=self returns=self role=seed
    <transform>: set_random_state                # MONAI's
returns=transform traits=setup keeps=0
    torchvision.transforms torchvision.transforms.v2: Compose
returns=transform traits=setup
    torchvision.transforms: Lambda
returns=fixed_transform traits=setup
    torchvision.transforms torchvision.transforms.v2: ToTensor Normalize Resize CenterCrop Grayscale Pad PILToTensor
        ConvertImageDtype FiveCrop TenCrop ToImage ToDtype
returns=tensor device=arguments
    torchvision.transforms.functional torchvision.transforms.v2.functional torchaudio.functional: *
returns=tensor device=arguments
    torchvision.utils: make_grid draw_bounding_boxes draw_segmentation_masks
    einops: *
returns=tensor device=host
    einops.layers.torch: *
returns=tensor rows=each device=arguments
    einops: rearrange repeat
returns=to_image traits=setup
    torchvision.transforms torchvision.transforms.v2: ToPILImage ToImagePIL
returns=image
    <to_image>: __call__ forward
effects=draws_torch
    <transform>: __call__ forward
-
    <fixed_transform>: __call__ forward
mutates=self keeps=0
    <transform>: append
-
    <transform>: get_params

+ traits=plain_loader
    torch.utils.data: DataLoader
    torchdata.stateful_dataloader: StatefulDataLoader
# --- simulations: environments whose next state depends on all that was done in them before ---
returns=environment effects=simulates
    gym: make
    gym.wrappers: *
    gym pettingzoo ple pybullet pybullet_envs retro procgen atari_py gym_super_mario_bros nes_py minigrid: *
    dm_control.suite: load
    stable_baselines3.common: *
    isaacgym envpool brax: *
returns=environment effects=simulates+writes_files
    gym.wrappers: Monitor RecordVideo
    baselines.bench stable_baselines3.common.monitor: Monitor
returns=environment effects=simulates traits=normalizes
    gym.wrappers: NormalizeObservation NormalizeReward
    stable_baselines3.common: vec_env.VecNormalize
returns=vector_environment effects=simulates
    gym: vector.make make_vec
    gym.vector: SyncVectorEnv
returns=vector_environment effects=simulates+starts
    gym.vector: AsyncVectorEnv
returns=space
    gym.spaces: *
effects=simulates mutates=self
    <environment>: step reset
mutates=self
    <environment>: close
effects=seeds_given mutates=self
    <environment>: seed
effects=simulates
    <environment>: render
traits=attribute returns=space
    <environment>: action_space observation_space
traits=attribute
    <environment>: spec unwrapped reward_range envs
effects=draws_given mutates=self
    <space>: sample
    <replay>: sample sample_batch
effects=seeds_given mutates=self
    <space>: seed
returns=number
    <space>: contains
traits=attribute
    <space>: n shape low high nvec spaces
"""
