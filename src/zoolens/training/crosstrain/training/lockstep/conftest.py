import numpy as np
import pytest

from zoolens.training.crosstrain.training.recipe import Recipe


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    generator = np.random.default_rng(0)
    for name, count in (("train", 48), ("test", 9)):
        labels = np.arange(count) % 3
        images = generator.integers(0, 100, (count, 12, 12), np.uint8)
        images[np.arange(count), labels] += 100
        np.savez(tmp_path / f"{name}.npz", x=images, y=labels)

    def make(**changes):
        told = {"architecture": "convnorm", "learning_rate": 1e-3, "batch_size": 16, "epochs": 1, **changes}
        return Recipe(dataset=f"{tmp_path}/train.npz|{tmp_path}/test.npz", **told)

    return make
