from zoolens.contrib.crossedwires.design import PUBLISHED_SPACE
from zoolens.contrib.crossedwires.released import hits, published_search
from zoolens.training.crosstrain.training.trials import Study, Trial

POINT = {"learning_rate": 0.01, "batch_size": 64, "optimizer.epsilon": 1e-3, "epochs": 5}


def study(**changes):
    settings = {"learning_rate": 0.01, "batch_size": 64, "adam_epsilon": 1e-3, "epochs": 5, **changes}
    return Study("released", ("pytorch", "tensorflow"), (Trial("1", settings, ()),))


def test_points_are_hit_to_nine_decimals_and_integers_exactly():
    assert set(POINT) == {dimension.name for dimension in PUBLISHED_SPACE}
    assert hits((POINT, POINT), study()) == 2
    assert hits((POINT,), study(learning_rate=0.01 + 5e-10)) == 1
    assert hits((POINT,), study(learning_rate=0.01 + 5e-9)) == 0
    assert hits((POINT,), study(epochs=6)) == 0


def test_the_published_search_halves_every_dimension():
    assert published_search().split is None
    assert (published_search().overlap, published_search(0.5).overlap) == (0.25, 0.5)
