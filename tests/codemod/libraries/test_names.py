"""What names stand for in training."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accelify.codemod.libraries import names, vocabulary


@pytest.mark.parametrize(
    ("is_so", "yes", "no"),
    [
        (
            names.is_optimizer,
            "torch.optim.SGD torch.optim.adam.Adam transformers.AdamW transformers.optimization.Adafactor "
            "timm.optim.Lamb "
            "timm.optim.create_optimizer_v2 bitsandbytes.optim.AdamW8bit apex.optimizers.FusedAdam lion_pytorch.Lion",
            "torch.optim.lr_scheduler.StepLR torch.optim.swa_utils.AveragedModel torch.optim.lr_scheduler "
            "transformers.BertModel transformers.get_scheduler mylib.Adam",
        ),
        (
            names.is_scheduler,
            "torch.optim.lr_scheduler.OneCycleLR transformers.get_linear_schedule_with_warmup "
            "transformers.get_scheduler "
            "transformers.optimization.get_scheduler diffusers.optimization.get_scheduler "
            "timm.scheduler.CosineLRScheduler",
            "torch.optim.SGD transformers.AdamW diffusers.UNet2DModel",
        ),
        (
            names.is_loader,
            "torch.utils.data.DataLoader torch.utils.data.dataloader.DataLoader "
            "torch_geometric.loader.NeighborLoader "
            "dgl.dataloading.GraphDataLoader torchtext.data.BucketIterator monai.data.DataLoader",
            "torch.utils.data.Dataset torch_geometric.loader.Batch torchtext.data.Field",
        ),
        (
            names.is_torch_loader,
            "torch.utils.data.DataLoader torch_geometric.loader.NeighborLoader torch_geometric.data.DataLoader",
            "torchtext.data.BucketIterator torch.utils.data.TensorDataset",
        ),
        (
            names.is_module,
            "torch.nn.Linear torch.nn.Module torch.nn.modules.conv.Conv2d torch.nn.MSELoss "
            "torchvision.models.resnet18 "
            "timm.create_model transformers.AutoModel.from_pretrained transformers.BertForSequenceClassification "
            "torch.hub.load torch.nn.DataParallel torch_geometric.nn.GCNConv transformers.PreTrainedModel",
            "torch.nn.functional.relu torch.nn.init.zeros_ torch.nn.Parameter torch.nn.utils.clip_grad_norm_ "
            "torch.compile "
            "transformers.AutoTokenizer.from_pretrained torch.hub.load_state_dict_from_url torch.nn.ParameterList",
        ),
        (
            names.is_loss,
            "torch.nn.CrossEntropyLoss torch.nn.modules.loss.MSELoss",
            "torch.nn.Linear torch.nn.functional.cross_entropy mylib.Loss",
        ),
        (
            names.is_wrapper,
            "torch.nn.DataParallel torch.nn.parallel.DistributedDataParallel apex.parallel.DistributedDataParallel",
            "torch.compile torch.nn.Linear",
        ),
        (names.returns_its_model, "torch.compile torch.jit.script torch.nn.DataParallel", "torch.nn.Linear torch.nn"),
        (names.adds_up_itself, "torchmetrics.Accuracy", "torchmetrics.functional.accuracy sklearn.metrics.f1_score"),
        (
            names.is_device,
            "torch.device torch.cuda.current_device torch.get_default_device",
            "torch.cuda.device cluster.device torch.cuda.is_available",
        ),
        (
            names.is_cuda_test,
            "torch.cuda.is_available torch.cuda.device_count torch.backends.mps.is_available",
            "torch.cuda.synchronize torch.distributed.is_available",
        ),
        (names.is_autocast, "torch.autocast torch.cuda.amp.autocast torch.amp.autocast_mode.autocast", "torch.no_grad"),
        (names.is_scaler, "torch.cuda.amp.GradScaler torch.GradScaler torch.amp.grad_scaler.GradScaler", "torch.amp"),
        (
            names.is_distributed,
            "torch.distributed torch.distributed.all_reduce torch.nn.parallel.DistributedDataParallel "
            "horovod.torch.init "
            "torch.utils.data.distributed.DistributedSampler torch.multiprocessing.spawn deepspeed.initialize "
            "deepspeed "
            "mpi4py.MPI torch.distributed.checkpoint.save torch.utils.data.DistributedSampler",
            "torch.distributions.Normal torch.utils.data.DataLoader torch.nn.DataParallel multiprocessing.Pool",
        ),
        (names.runs_beside, "multiprocessing.Process threading.Thread torch.multiprocessing.Process", "queue.Queue"),
        (names.is_dataset, "torchvision.datasets.MNIST medmnist.PathMNIST", "torchvision.transforms.ToTensor"),
        (
            names.is_plain_sampler,
            "torch.utils.data.RandomSampler torch.utils.data.sampler.SequentialSampler",
            "torch.utils.data.DistributedSampler torch.utils.data.DataLoader",
        ),
        (names.is_plain_loader, "torch.utils.data.dataloader.DataLoader", "torch_geometric.data.DataLoader"),
        (
            names.is_factory,
            "torch.zeros torch.tensor torch.as_tensor torch.from_numpy torch.randn torch.LongTensor torch.tril_indices",
            "torch.zeros_like torch.rand_like torch.cat numpy.zeros torch.bernoulli torch.nn.Linear",
        ),
        (names.draws, "torch.rand numpy.random.choice random.random", "torch.nn.functional.dropout torch.zeros"),
        (names.is_seed, "torch.manual_seed random.seed transformers.set_seed", "torch.rand numpy.random.get_state"),
        (names.is_clock, "time.time datetime.datetime.now timeit.default_timer", "time.sleep datetime.timedelta"),
        (names.is_without_gradient, "torch.no_grad torch.inference_mode", "torch.enable_grad"),
        (names.sets_gradient, "torch.no_grad torch.enable_grad", "torch.autocast"),
        (names.clips_gradients, "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.parameters_to_vector"),
        (names.is_mock, "unittest.mock.MagicMock unittest.mock.Mock", "unittest.mock.patch torch.optim.SGD"),
        (names.binds_method, "types.MethodType", "functools.partial types.SimpleNamespace"),
        (names.makes_items, "dict collections.OrderedDict", "types.SimpleNamespace collections.defaultdict list"),
        (names.has_items_as_attributes, "munch.Munch easydict.EasyDict addict.Dict", "dict types.SimpleNamespace"),
        (names.same_values, "torch.tensor torch.as_tensor torch.autograd.Variable", "torch.zeros numpy.array"),
        (names.is_counter, "range itertools.count numpy.arange tqdm.trange", "enumerate torch.zeros"),
        (
            names.is_range,
            "range numpy.arange tqdm.trange tqdm.auto.trange",
            "itertools.count itertools.cycle enumerate",
        ),
        (names.asks_about, "len isinstance hasattr bool int", "print open torch.numel"),
        (names.describes, "len str repr isinstance", "int float abs input print open"),
        (names.converts, "int float bool str", "len list input print"),
        (
            names.keeps_signature,
            "torch.no_grad torch.inference_mode torch.compile staticmethod property functools.wraps torch.autocast",
            "functools.partial mylib.decorate torch.nn.DataParallel",
        ),
        (names.runs_command, "os.system subprocess.run subprocess.Popen", "threading.Thread exec"),
        (names.reads_command, "subprocess.check_output subprocess.getoutput", "subprocess.run os.system"),
        (names.makes_folder, "os.makedirs os.mkdir", "tempfile.mkdtemp torch.utils.tensorboard.SummaryWriter"),
        (names.exits, "exit sys.exit quit os._exit", "print"),
        (names.says, "print logging.info warnings.warn", "open torch.save"),
        (names.starts_group, "torch.distributed.init_process_group", "torch.distributed.barrier"),
        (names.picks_device, "torch.cuda.set_device torch.accelerator.set_device_index", "torch.cuda.device"),
        (names.may_differ_in_training, "torch.nn.Dropout timm.create_model torch.nn.BatchNorm2d", "torch.nn.Linear"),
        (names.reads_variable, "os.environ.get os.getenv", "os.environ.pop sys.argv os.putenv"),
        (names.is_progress, "tqdm.tqdm rich.progress.track", "enumerate"),
        (names.is_copy, "list tuple sorted", "set iter dict"),
        (names.copies, "copy.copy copy.deepcopy", "list torch.nn.ModuleList"),
    ],
)
def test_what_a_name_stands_for(is_so: Callable[[str | None], bool], yes: str, no: str) -> None:
    assert [name for name in yes.split() if not is_so(name)] == []
    assert [name for name in no.split() if is_so(name)] == []
    assert not is_so(None)


def test_how_calls_pass_on_what_their_arguments_yield() -> None:
    passed = {name: names.iteration(name) for name in ("enumerate", "zip", "tqdm.tqdm", "tqdm.auto.tqdm", "filter")}
    assert list(passed.values()) == ["enumerate", "zip", "same", "same", "filter"]
    assert names.iteration("itertools.chain.from_iterable") == "chain"
    assert names.iteration("len") is None


def test_texts_and_options_that_mean_a_device() -> None:
    assert all(map(vocabulary.is_device_text, ("cuda", "cuda:1", "cpu", "mps")))
    assert not any(map(vocabulary.is_device_text, ("adam", "cudnn", 0, None)))
    assert all(map(vocabulary.is_device_name, ("device", "gpu_id", "teacher_device", "gpus", "local_rank", "rank")))
    assert all(map(vocabulary.is_device_name, ("gpuid", "gpuids", "main_gpuid", "deviceid")))
    assert not any(map(vocabulary.is_device_name, ("devices_seen", "ranking", "gpu_memory", "gpuidle", "cudaidx")))
    assert vocabulary.low_precision("torch.half") == "fp16"
    assert vocabulary.low_precision("torch.float32") is None


def test_libraries_that_run_the_training_loop() -> None:
    assert vocabulary.training_library("lightning.pytorch.loggers") == "lightning"
    assert vocabulary.training_library("accelify.runtime") == "accelify.runtime"
    assert vocabulary.training_library("torch.optim") is None
    assert vocabulary.runs_training("lightning", "Trainer")
    assert vocabulary.runs_training("fastai", "vision_learner")
    assert not vocabulary.runs_training("ignite", "Accuracy")
