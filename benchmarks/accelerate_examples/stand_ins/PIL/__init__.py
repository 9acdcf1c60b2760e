"""What the examples use of Pillow."""

from PIL import Image

__all__ = ["Image"]
