"""A GPU that is not present: `install` makes one, as far as Python can see. Start reading at `tensors.py`.

What this cannot show: numbers as a GPU's kernels round them, memory that runs out, time, CUDA graphs, kernels of the
script's own, peer access. It needs a torch with backends written in Python (2.13).
"""
