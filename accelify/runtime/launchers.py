"""Launchers for notebooks and tests, under the name of Accelerate's module."""

from accelify.runtime.launch.notebook import debug_launcher, notebook_launcher

__all__ = ["debug_launcher", "notebook_launcher"]
