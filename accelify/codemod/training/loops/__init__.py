"""The loops that train: which they are, what is round them, and what each learns from."""
