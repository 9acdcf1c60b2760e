"""Which models, optimizers and loaders are prepared, and under which names?"""
