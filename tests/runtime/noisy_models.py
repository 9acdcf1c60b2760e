"""Small models that live on random numbers drawn in the training loop: what they draw, and what they come to."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from tests.runtime.training import seed

ROWS, WIDTH, WORDS = 16, 4, 8


def _gan(data):
    generator, critic = nn.Linear(2, WIDTH), nn.Linear(WIDTH, 1)

    def losses(x):
        noise = torch.randn(len(x), 2)
        yield functional.softplus(-critic(x)).mean() + functional.softplus(critic(generator(noise).detach())).mean()
        yield functional.softplus(-critic(generator(noise))).mean()
        return noise

    return nn.ModuleList([generator, critic]), losses


def _vae(data):
    encoder, decoder = nn.Linear(WIDTH, 4), nn.Linear(2, WIDTH)

    def losses(x):
        mean, spread = encoder(x).chunk(2, dim=1)
        noise = torch.randn_like(mean)
        yield (decoder(mean + noise * spread.exp()) - x).square().mean() + (mean.square() + spread.square()).mean()
        return noise

    return nn.ModuleList([encoder, decoder]), losses


def _diffusion(data):
    model = nn.Linear(WIDTH + 1, WIDTH)

    def losses(x):
        times, noise = torch.randint(1000, (len(x), 1)) / 1000, torch.randn_like(x)
        mixed = x * (1 - times) + noise * times
        yield (model(torch.cat([mixed, times], dim=1)) - noise).square().mean()
        return torch.cat([times, noise], dim=1)

    return model, losses


def _masked_words(data):
    model = nn.Sequential(nn.Embedding(WORDS + 1, WIDTH), nn.Linear(WIDTH, WORDS))

    def losses(x):
        words = (x.abs() * 10).long() % WORDS
        is_masked = torch.rand(words.shape) < 0.5
        yield functional.cross_entropy(model(words.masked_fill(is_masked, WORDS)).flatten(0, 1), words.flatten())
        return is_masked

    return model, losses


def _dropout(data):
    first, last = nn.Linear(WIDTH, 32), nn.Linear(32, 2)

    def losses(x):
        hidden = functional.dropout(first(x), 0.5)
        yield functional.cross_entropy(last(hidden), (x.sum(1) > 0).long())
        return hidden == 0

    return nn.ModuleList([first, last]), losses


KINDS = {"gan": _gan, "vae": _vae, "diffusion": _diffusion, "masked words": _masked_words, "dropout": _dropout}


def train(kind, accelerator=None):
    """What each batch drew, and the weights at the end; without an accelerator as the plain script does."""
    seed(0)
    loader = DataLoader(TensorDataset(torch.randn(ROWS, WIDTH)), batch_size=4, shuffle=True)
    model, losses = KINDS[kind](loader)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if accelerator is not None:
        loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    drawn = []

    def batch_of(x):
        drawn.append((yield from losses(x)).tolist())

    for _ in range(2):
        for (x,) in loader:
            for loss in batch_of(x):
                optimizer.zero_grad()
                loss.backward() if accelerator is None else accelerator.backward(loss)
                optimizer.step()
    return drawn, [parameter.tolist() for parameter in model.parameters()]
