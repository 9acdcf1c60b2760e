"""One module for each command of `accelify`: its options, and what it calls. `accelify/cli.py` says how to add one."""
