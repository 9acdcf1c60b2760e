"""What the examples use of `transformers`: a tokenizer, two small models, two schedules, seeds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any  # the values of a batch

import numpy
import torch
from datasets import WORDS
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR


class Batch(dict[str, torch.Tensor]):
    """Tensors by name, which move together."""

    def to(self, device: Any) -> Batch:
        for name, value in self.items():
            self[name] = value.to(device)
        return self


class AutoTokenizer:
    """A number for each word."""

    eos_token, eos_token_id = "end", len(WORDS) + 1
    pad_token, pad_token_id = "pad", 0

    @classmethod
    def from_pretrained(cls, name: str) -> AutoTokenizer:
        return cls()

    def __call__(
        self,
        first: Sequence[str],
        second: Sequence[str] | None = None,
        return_attention_mask: bool = True,
        **options: Any,
    ) -> dict[str, list[list[int]]]:
        texts = first if second is None else [f"{a} {b}" for a, b in zip(first, second, strict=True)]
        numbers = [[1 + WORDS.index(word) for word in text.split()] for text in texts]
        made = {"input_ids": numbers}
        return {**made, "attention_mask": [[1] * len(n) for n in numbers]} if return_attention_mask else made

    def pad(self, examples: Any, padding: Any, max_length: int | None = None, **options: Any) -> Batch:
        """Sentences all have one length; `max_length` may be longer."""
        rows = {name: [example[name] for example in examples] for name in examples[0] if name != "idx"}
        made = Batch({name: torch.tensor(values) for name, values in rows.items()})
        missing = (max_length or 0) - made["input_ids"].shape[1] if padding == "max_length" else 0
        made["input_ids"] = functional.pad(made["input_ids"], (0, max(missing, 0)))
        return made


class _Model(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS) + 2, 16)
        self.hidden = nn.Linear(16, 16)
        self.head = nn.Linear(16, outputs)

    @classmethod
    def from_pretrained(cls, name: str, return_dict: bool = True) -> Any:
        return cls()


class AutoModelForSequenceClassification(_Model):
    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor, **others: Any) -> Any:
        logits = self.head(torch.tanh(self.hidden(self.embedding(input_ids).mean(1))))
        return SimpleNamespace(logits=logits, loss=functional.cross_entropy(logits, labels))


class AutoModelForCausalLM(_Model):
    def __init__(self) -> None:
        super().__init__(len(WORDS) + 2)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **others: Any) -> Any:
        logits = self.head(torch.tanh(self.hidden(self.embedding(input_ids))))
        loss = None if labels is None else functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return SimpleNamespace(logits=logits, loss=loss)


def get_linear_schedule_with_warmup(optimizer: Any, num_warmup_steps: int, num_training_steps: int) -> LambdaLR:
    """Up to the learning rate, then down to zero; an eighth of the examples' warm-up, of whose steps few are taken."""
    warm = num_warmup_steps // 8

    def factor(step: int) -> float:
        return (
            step / max(1, warm)
            if step < warm
            else max(0.0, (num_training_steps - step) / max(1, num_training_steps - warm))
        )

    return LambdaLR(optimizer, factor)


def get_constant_schedule(optimizer: Any) -> LambdaLR:
    return LambdaLR(optimizer, lambda step: 1.0)


def set_seed(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
