from tests.runtime.world import together

test_loaders = together("loaders")
