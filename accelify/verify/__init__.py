"""Original and rewritten script run side by side, and what they must agree on. Start reading at `prove.py`.

Here, outside, scripts are copied, started and judged; `inside/` runs in the scripts' own processes and records what
they do. Only `inside/` knows torch.
"""
