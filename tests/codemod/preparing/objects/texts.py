"""The beginning and the training step of the small scripts here."""

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
STEP = """\
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
