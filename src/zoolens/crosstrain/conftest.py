from contextlib import suppress

import pytest

from zoolens.crosstrain.training.trainer_pool import Workers

with suppress(ImportError):
    import torch  # noqa: F401  # before TensorFlow: imported after it, torch aborts in convolutions on some ARM machines


@pytest.fixture(scope="session")
def workers():
    """Training processes for all tests that do not look at the processes themselves: to import a framework takes
    longer than to train a small network."""
    with Workers() as opened:
        yield opened
