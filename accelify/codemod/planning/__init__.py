"""From a model to a plan: what will be done to each file, what is left out, and the records that results report."""
