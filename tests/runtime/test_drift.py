from tests.runtime.world import together

test_drift = together("drift")
