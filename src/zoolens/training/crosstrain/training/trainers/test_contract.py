"""The built-in trainers keep the contract that is shipped for those of third parties."""

from importlib.util import find_spec

import pytest

from zoolens.base import plugins
from zoolens.testing.trainer_contract import TrainerContract


class _Contract(TrainerContract):
    @pytest.fixture(scope="class")
    def workers(self, workers):
        """The processes that all tests of trainings share: they have trained before, as those of a study have."""
        return workers


def _trainer(name: str, package: str) -> type[TrainerContract]:
    """Skipped where the framework is not installed: the contract trains."""
    made = type(f"TestTrainer{name}", (_Contract,), {"trainer_class": plugins.load(plugins.TRAINERS, name)})
    absent = find_spec(package) is None
    return pytest.mark.skipif(absent, reason=f"{package} IS NOT INSTALLED")(made)


TestTorchTrainer = _trainer("torch", "torch")
TestTorchTrainer.loop = "eager"
TestTensorflowTrainer = _trainer("tensorflow", "tensorflow")
TestJaxTrainer = _trainer("jax", "jax")
