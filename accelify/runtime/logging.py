"""Loggers, under the name of Accelerate's module: `get_logger` and the class of what it gives."""

from accelify.runtime.logger import ProcessLogger as MultiProcessAdapter
from accelify.runtime.logger import get_logger

__all__ = ["MultiProcessAdapter", "get_logger"]
