import pytest

from zoolens.crosstrain.training.trainer_pool import Workers


@pytest.fixture(scope="session")
def workers():
    """Training processes for all tests that do not look at the processes themselves: to import a framework takes
    longer than to train a small network."""
    with Workers() as opened:
        yield opened
