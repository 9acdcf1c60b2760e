"""Kinds of objects, the kinds they are based on, and modules that go by several names."""

from __future__ import annotations

# A kind has the methods of the one it is based on, where it has none of its own.
BASED_ON = {
    "container": "module",
    "dropout": "module",
    "normalization": "module",
    "loss": "module",
    "recurrent": "module",
    "wrapper": "module",
    "module_metric": "metric",
    "parameter": "tensor",
    "plateau_scheduler": "scheduler",
    "closure_optimizer": "optimizer",
    "averaging_optimizer": "optimizer",
    "defaultdict": "dict",
    "counter": "dict",
    "environ": "dict",
    "state": "dict",
    "deque": "list",
    "bytes": "string",
    "binary_file": "file",
    "buffer": "file",
    "stream": "file",
    "progress": "iterator",
    "process": "thread",
    "loader_iterator": "iterator",
    "geometric_batch": "tensor",
    "tensor_dataset": "dataset",
    "fixed_transform": "transform",
    "vector_environment": "environment",
    "axes": "figure",
    "tensorboard": "tracker",
    "run": "tracker",
}

# Nothing changes an object of these kinds.
IMMUTABLE = frozenset("number string bytes none dtype size device datetime timedelta".split())

# `+` puts what these hold side by side.
SEQUENCES = frozenset("list tuple".split())

# Names that one module defines and another one shows under the name that the documentation uses.
OTHER_NAMES = dict(
    line.split()
    for line in """\
numpy.core numpy
numpy.matlib numpy
numpy.lib.stride_tricks numpy
numpy.random.mtrand numpy.random
torch.nn.modules torch.nn
torch.nn.modules.activation torch.nn
torch.nn.modules.adaptive torch.nn
torch.nn.modules.batchnorm torch.nn
torch.nn.modules.container torch.nn
torch.nn.modules.conv torch.nn
torch.nn.modules.distance torch.nn
torch.nn.modules.dropout torch.nn
torch.nn.modules.flatten torch.nn
torch.nn.modules.linear torch.nn
torch.nn.modules.loss torch.nn
torch.nn.modules.module torch.nn
torch.nn.modules.normalization torch.nn
torch.nn.modules.instancenorm torch.nn
torch.nn.modules.padding torch.nn
torch.nn.modules.pooling torch.nn
torch.nn.modules.rnn torch.nn
torch.nn.modules.sparse torch.nn
torch.nn.modules.transformer torch.nn
torch.nn.modules.upsampling torch.nn
torch.nn.modules.utils torch.nn.utils
torch.nn.parameter torch.nn
torch.nn.functional.functional torch.nn.functional
torch.functional torch
torch.random torch
torch.serialization torch
torch._C torch
torch._tensor torch
torch.autograd.variable torch.autograd
torch.autograd.grad_mode torch.autograd
torch.cuda.random torch.cuda
torch.cuda.memory torch.cuda
torch.distributed.distributed_c10d torch.distributed
torch.distributed.deprecated torch.distributed
torch.multiprocessing.spawn torch.multiprocessing
torch.utils.data.dataloader torch.utils.data
torch.utils.data.dataset torch.utils.data
torch.utils.data.sampler torch.utils.data
torch.nn.utils.clip_grad torch.nn.utils
torch.nn.utils.rnn torch.nn.utils.rnn
torch.optim.optimizer torch.optim
torchvision.transforms.transforms torchvision.transforms
torchvision.transforms.v2 torchvision.transforms
torchvision.transforms.v2.functional torchvision.transforms.functional
tensorboardX.writer tensorboardX
PIL.Image.Image PIL.Image
matplotlib.pylab matplotlib.pyplot
pylab matplotlib.pyplot
gymnasium gym
gymnasium.vector gym.vector
gymnasium.wrappers gym.wrappers
imageio.v2 imageio
imageio.v3 imageio
pytorch_lightning lightning.pytorch
lightning lightning.pytorch
torchtext.legacy torchtext
pytorch_transformers transformers
pytorch_pretrained_bert transformers
horovod.tensorflow horovod.torch
horovod.keras horovod.torch
tensorflow.compat.v1 tensorflow
ruamel.yaml yaml
cPickle pickle
_pickle pickle
dill pickle
cloudpickle pickle
sklearn.externals.joblib joblib
simplejson json
ujson json
pathlib2 pathlib
Queue queue
billiard multiprocessing
torch.multiprocessing multiprocessing
multiprocess multiprocessing
""".splitlines()
)
