from tests.runtime.world import together

test_gradients = together("gradients")
