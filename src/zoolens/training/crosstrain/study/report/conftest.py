"""Hand-made studies, and the published one where the assets are."""

import numpy as np
import pytest

from zoolens.conftest import ASSETS
from zoolens.contrib.crossedwires.trials import read_published
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial

EVIL = "<script>alert(1)</script>"


def made_study(trials=40, frameworks=("torch", "jax"), name="made"):
    """The last side loses accuracy where the rate is large and the optimizer is adam."""
    rng = np.random.default_rng(7)
    found = []
    for i in range(trials):
        rate, optimizer = float(10 ** rng.uniform(-5, -1)), str(rng.choice(["adam", "sgd"]))
        lost = 0.4 if rate > 1e-3 and optimizer == "adam" else 0.0
        accuracies = rng.normal(0.8, 0.005, len(frameworks)) - lost * (np.arange(len(frameworks)) > 0)
        sides = tuple(TrainedSide(one, accuracy=float(a)) for one, a in zip(frameworks, accuracies, strict=True))
        found.append(Trial(f"t{i}", {"rate": rate, "optimizer": optimizer, "epochs": 3}, sides))
    return Study(name, tuple(frameworks), tuple(found))


@pytest.fixture
def published():
    """By architecture: the released trials of Zvyagin et al. 2021."""
    folder = ASSETS / "crossedwires"
    if not folder.exists():
        pytest.skip(f"REFERENCE DATA ABSENT: nothing at {folder}; set ZOOLENS_ASSETS to test against them")
    return {study.name.removeprefix("crossedwires-"): study for study in read_published(folder)}
