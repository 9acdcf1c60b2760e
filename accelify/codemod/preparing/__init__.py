"""What is prepared, where, and how the accelerator gets there."""
