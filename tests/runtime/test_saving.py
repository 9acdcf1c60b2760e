from tests.runtime.world import together

test_saving = together("saving")
