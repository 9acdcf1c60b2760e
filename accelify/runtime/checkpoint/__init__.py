"""The state of a run on disk: checkpoints that are complete or absent, and a model's weights."""
