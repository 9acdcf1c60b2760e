"""accelify: migrate a plain PyTorch training script to many devices, and prove that it trains the same model."""

__version__ = "0.1.0"
