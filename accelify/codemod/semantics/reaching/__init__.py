"""Reaching definitions over the control-flow graph of each function: `semantics.definitions` asks them."""
