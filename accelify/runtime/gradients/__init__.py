"""How several processes train one model: averaged gradients, precision, accumulation, optimizers."""
