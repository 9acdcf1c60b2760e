"""What a run keeps: checkpoints that are complete or absent, and a model's weights."""
