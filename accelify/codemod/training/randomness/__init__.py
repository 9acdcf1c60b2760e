"""What is drawn at random, and so may give each process something else."""
