import resource
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.conftest import ASSETS
from zoolens.training.crosstrain.study.yaml_files import load_plan, load_recipe
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.data.prepared_data import balanced, load, prepared

EXAMPLES = Path(__file__).parents[5] / "examples" / "crosstrain"
FASHION = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_ASSETS", str(ASSETS))


def recipe(dataset, **changes):
    told = {"architecture": "mlp", "learning_rate": 0.1, "batch_size": 8, "epochs": 1, "dataset": dataset, **changes}
    return Recipe(**told)


def saved(path, count, seed=0, side=8):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (count, side, side), np.uint8)
    np.savez(path, x=images, y=generator.integers(0, 3, count))
    return images


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 45))
def test_limits_are_balanced(labels, limit):
    labels = np.array(labels)
    chosen = balanced(labels, limit)
    assert len(chosen) == min(limit, len(labels))
    assert (np.diff(chosen) > 0).all()
    counts = {label: int((labels[chosen] == label).sum()) for label in np.unique(labels)}
    for label, count in counts.items():  # a class is behind only where it has no more
        assert count >= max(counts.values()) - 1 or count == (labels == label).sum()


def test_two_datasets(tmp_path):
    train, test = saved(tmp_path / "a.npz", 20), saved(tmp_path / "b.npz", 6, seed=1)
    found = prepared(recipe(f"{tmp_path}/a.npz|{tmp_path}/b.npz"))
    data = load(found.folder)
    np.testing.assert_array_equal(data.train_x, train[..., None])
    np.testing.assert_array_equal(data.test_x, test[..., None])
    assert (data.classes, found.classes, found.input_shape) == (3, 3, (1, 8, 8))
    assert found.record.size == 6


def test_made_once_and_keyed_by_content_and_limits(tmp_path):
    saved(tmp_path / "a.npz", 20)
    saved(tmp_path / "b.npz", 6, seed=1)
    spec = f"{tmp_path}/a.npz|{tmp_path}/b.npz"
    first = prepared(recipe(spec))
    made = (first.folder / "train_x.npy").stat().st_mtime_ns
    again = prepared(recipe(spec, learning_rate=0.5))
    assert again == first
    assert (first.folder / "train_x.npy").stat().st_mtime_ns == made
    fewer = prepared(recipe(spec, train_limit=5))
    assert fewer.folder != first.folder
    assert fewer.record.fingerprint != first.record.fingerprint
    assert len(load(fewer.folder).train_y) == 5


def test_an_emptied_cache_is_made_anew_and_damage_is_told(tmp_path):
    saved(tmp_path / "a.npz", 20)
    spec = f"{tmp_path}/a.npz|{tmp_path}/a.npz"
    folder = prepared(recipe(spec)).folder
    (folder / "about.json").unlink()
    assert len(load(prepared(recipe(spec)).folder).train_y) == 20
    (folder / "test_y.npy").write_bytes(b"torn")
    with pytest.raises(DatasetError, match="Delete that folder"):
        load(folder)


def test_a_folder_of_images_of_several_sizes(tmp_path):
    for name, side in (("a", 8), ("b", 9)):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("RGB", (side, side)).save(tmp_path / "images" / name / "one.png")
    with pytest.raises(DatasetError, match="several sizes"):
        prepared(recipe(f"{tmp_path}/images|{tmp_path}/images"))


def test_sides_of_different_size(tmp_path):
    saved(tmp_path / "a.npz", 6)
    saved(tmp_path / "b.npz", 6, side=9)
    with pytest.raises(DatasetError, match="differ in size"):
        prepared(recipe(f"{tmp_path}/a.npz|{tmp_path}/b.npz"))


def test_one_set_is_not_enough(tmp_path):
    saved(tmp_path / "a.npz", 6)
    with pytest.raises(DatasetError, match=r"TRAIN\|TEST"):
        prepared(recipe(f"{tmp_path}/a.npz"))


def test_unknown_data():
    with pytest.raises(DatasetError, match="fashion-mnist"):
        prepared(recipe("fashionmnist"))


def test_absent_data_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("zoolens.training.pairs.data.prepared_data._FASHION", tmp_path)
    with pytest.raises(DatasetError, match="dataset-fashion-mnist"):
        prepared(recipe("fashion-mnist"))
    monkeypatch.delenv("ZOOLENS_ASSETS")
    with pytest.raises(DatasetError, match="ZOOLENS_ASSETS"):
        prepared(recipe("cifar10-subset"))


def test_the_images_that_come_with_zoolens():
    found = prepared(recipe("demo"))
    data = load(found.folder)
    assert (data.train_x.shape, data.test_x.shape) == ((1500, 28, 28, 1), (500, 28, 28, 1))
    assert (found.classes, len(np.unique(data.test_y))) == (10, 10)
    trained = {image.tobytes() for image in data.train_x}
    assert not any(image.tobytes() in trained for image in data.test_x)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda one: one.stem)
def test_the_examples_need_no_data_but_what_comes_with_zoolens(example, monkeypatch):
    monkeypatch.delenv("ZOOLENS_ASSETS", raising=False)
    monkeypatch.setattr("zoolens.training.pairs.data.prepared_data._FASHION", Path("/nowhere"))
    told = load_recipe(example) if "architecture" in yaml.safe_load(example.read_text()) else load_plan(example).recipe
    assert prepared(told).record.size == 500


@pytest.mark.skipif(not FASHION.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
@pytest.mark.parametrize("spec", ["fashion-mnist", str(FASHION)])
def test_fashion_mnist(spec):
    data = load(prepared(recipe(spec, train_limit=1000, test_limit=100)).folder)
    assert data.train_x.shape == (1000, 28, 28, 1)
    assert np.bincount(data.train_y).tolist() == [100] * 10
    assert np.bincount(data.test_y).tolist() == [10] * 10


@pytest.mark.assets
@pytest.mark.skipif(not ASSETS.is_dir(), reason="the reference assets (ZOOLENS_ASSETS) are not here")
def test_cifar10_subset():
    found = prepared(recipe("cifar10-subset"))
    data = load(found.folder)
    assert data.train_x.shape == (5170, 32, 32, 3)
    assert data.test_x.shape == (1017, 32, 32, 3)
    assert found.classes == 10


def test_a_full_disk_is_told_in_words(tmp_path):
    """A limit on the size of files acts as a disk that is full does: a write ends before its end."""
    kept, ours = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, kept[1]))
    try:
        with pytest.raises(DatasetError, match=r"The training data \(1.6 MB\) cannot be written to .* Make room there"):
            prepared(recipe("demo"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, ours)
    assert prepared(recipe("demo")).record.size == 500  # nothing half-written is in the way


def test_classes_are_those_of_the_training_data_by_their_names(tmp_path):
    for part, names in (("train", "abc"), ("test", "bc"), ("other", "bx")):
        for place, name in enumerate(names):
            (tmp_path / part / name).mkdir(parents=True)
            Image.new("RGB", (8, 8), (place, 0, 0)).save(tmp_path / part / name / "one.png")
    data = load(prepared(recipe(f"{tmp_path}/train|{tmp_path}/test")).folder)
    assert (data.train_y.tolist(), data.test_y.tolist(), data.classes) == ([0, 1, 2], [1, 2], 3)
    with pytest.raises(DatasetError, match="other has the class 'x', which train does not have"):
        prepared(recipe(f"{tmp_path}/train|{tmp_path}/other"))


def test_data_without_classes_are_refused(tmp_path):
    saved(tmp_path / "a.npz", 6)
    with pytest.raises(DatasetError, match="a has no class for 6 of its 6 samples"):
        prepared(recipe(f"npz:{tmp_path}/a.npz|npz:{tmp_path}/a.npz?y=none"))
