"""What a qualified name stands for in training: an optimizer, a loader, a module? Asked of the table."""

from __future__ import annotations

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Role, Trait


def is_optimizer(name: str | None) -> bool:
    """`torch.optim.AdamW` and the optimizers of other libraries, not schedulers."""
    return _has_role(name, Role.OPTIMIZER)


def is_scheduler(name: str | None) -> bool:
    """Learning-rate schedulers of torch and of transformers."""
    return _has_role(name, Role.SCHEDULER)


def is_loader(name: str | None) -> bool:
    """What yields batches."""
    return _has_role(name, Role.LOADER)


def is_torch_loader(name: str | None) -> bool:
    """Loaders that are `torch.utils.data.DataLoader` or a subclass of it."""
    return _has_trait(name, Trait.TORCH_LOADER)


def is_module(name: str | None) -> bool:
    """Classes and factories of `nn.Module`s, losses included; base classes, too."""
    row = table.function(name)
    return (
        row is not None and row.role in (Role.MODEL, Role.LOSS, Role.WRAPPER) and table.is_kind(row.returns, "module")
    )


def is_loss(name: str | None) -> bool:
    """Loss modules: `torch.nn.CrossEntropyLoss`."""
    row = table.function(name)
    return row is not None and row.returns == "loss"


def is_wrapper(name: str | None) -> bool:
    """`nn.DataParallel` and `DistributedDataParallel`."""
    row = table.function(name)
    return row is not None and row.role is Role.WRAPPER and row.returns == "wrapper"


def returns_its_model(name: str | None) -> bool:
    """Calls whose result is their first argument, seen as a model."""
    return _has_role(name, Role.WRAPPER)


def adds_up_itself(name: str | None) -> bool:
    """Metrics that, asked for their value, add up over all processes by themselves."""
    return _has_trait(name, Trait.REDUCES_ITSELF)


def iteration(name: str | None) -> str | None:
    """How a call passes on what its arguments yield: `same`, `enumerate`, `zip`, `chain` or `filter`."""
    row = table.function(name)
    return None if row is None else row.passes


def is_device(name: str | None) -> bool:
    """Calls that return a device."""
    return _has_role(name, Role.DEVICE)


def is_cuda_test(name: str | None) -> bool:
    """Calls that ask whether there is an accelerator."""
    return _has_role(name, Role.DEVICE_TEST)


def is_autocast(name: str | None) -> bool:
    """`torch.autocast` and its older names."""
    return _has_role(name, Role.AUTOCAST)


def is_scaler(name: str | None) -> bool:
    """`GradScaler`, under its names."""
    return _has_role(name, Role.SCALER)


def is_distributed(name: str | None) -> bool:
    """Names whose use means that a script already spreads over processes by itself."""
    return _has_trait(name, Trait.SPREADS)


def runs_beside(name: str | None) -> bool:
    """Classes whose objects run in processes or threads of their own."""
    row = table.function(name)
    return row is not None and table.is_kind(row.returns, "thread")


def _has_role(name: str | None, role: Role) -> bool:
    row = table.function(name)
    return row is not None and row.role is role


def _has_trait(name: str | None, trait: Trait) -> bool:
    row = table.function(name)
    return row is not None and trait in row.traits
