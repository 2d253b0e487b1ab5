import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.data.epoch_order import batches, steps
from zoolens.training.pairs.data.train_data import TrainData


def data(count=50):
    images = np.random.default_rng(0).integers(1, 256, (count, 6, 5, 3), np.uint8)
    labels = np.arange(count, dtype=np.int32)
    return TrainData(images, labels, images[:1], labels[:1], count)


def recipe(**changes):
    return Recipe(**{"architecture": "mlp", "learning_rate": 0.1, "batch_size": 8, "epochs": 3, **changes})


def test_every_sample_once_with_its_own_image():
    told, found = data(), batches(data(), recipe(), 1)
    assert sorted(found.y) == list(range(50))
    np.testing.assert_array_equal(found.x, told.train_x[found.y])
    assert not np.array_equal(found.y, told.train_y)


@given(count=st.integers(1, 60), batch=st.integers(1, 70))
def test_batches_cover_the_epoch(count, batch):
    told = recipe(batch_size=batch)
    found = batches(data(count), told, 1)
    parts = list(found.slices())
    assert len(parts) == steps(told, count)
    np.testing.assert_array_equal(np.concatenate([found.y[part] for part in parts]), found.y)


def test_order_depends_on_seed_and_epoch_alone():
    first = batches(data(), recipe(), 1).y
    np.testing.assert_array_equal(first, batches(data(), recipe(augmentation="flip", batch_size=3), 1, salt="torch").y)
    assert not np.array_equal(first, batches(data(), recipe(), 2).y)
    assert not np.array_equal(first, batches(data(), recipe(seed=1), 1).y)


def test_an_order_of_ones_own():
    own = recipe(order="own")
    assert not np.array_equal(batches(data(), own, 1, salt="torch").y, batches(data(), own, 1, salt="jax").y)


def test_the_order_is_fixed_for_ever():
    """A change here makes every finished study incomparable with a new one."""
    assert batches(data(8), recipe(), 1).y.tolist() == [1, 0, 6, 3, 4, 7, 2, 5]


def test_flips_are_mirrors_of_some():
    found, plain = batches(data(), recipe(augmentation="flip"), 1), batches(data(), recipe(), 1)
    same = np.array([np.array_equal(a, b) for a, b in zip(found.x, plain.x, strict=True)])
    assert 5 < same.sum() < 45
    np.testing.assert_array_equal(found.x[~same], plain.x[~same][:, :, ::-1])


def test_crops_are_windows_of_the_padded_image():
    found, flipped = (
        batches(data(), recipe(augmentation="flip-crop"), 1),
        batches(data(), recipe(augmentation="flip"), 1),
    )
    offsets = set()
    for crop, image in zip(found.x, flipped.x, strict=True):
        padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
        places = [
            (down, right)
            for down in range(9)
            for right in range(9)
            if np.array_equal(padded[down : down + 6, right : right + 5], crop)
        ]
        assert places
        offsets.add(places[0])
    assert len(offsets) > 15


@pytest.mark.parametrize("augmentation", ["none", "flip", "flip-crop"])
def test_the_dataset_is_left_alone(augmentation):
    told = data()
    before = told.train_x.copy()
    batches(told, recipe(augmentation=augmentation), 1)
    np.testing.assert_array_equal(told.train_x, before)
