"""The objects that are prepared, where, and how the accelerator gets there."""
