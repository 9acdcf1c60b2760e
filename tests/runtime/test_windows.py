from tests.runtime.world import together

test_windows = together("windows")
