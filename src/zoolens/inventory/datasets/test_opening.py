import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base import plugins
from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.kinds import BUILT_IN, load_kind
from zoolens.inventory.datasets.opening import open_dataset, parse_spec
from zoolens.inventory.datasets.subset import select


def numbers(count):
    return ArrayDataset(np.arange(count).reshape(-1, 1), np.arange(count) % 3, name="numbers")


@pytest.fixture
def npz(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((9, 4, 4), np.uint8), y=np.arange(9))
    return tmp_path / "d.npz"


def test_a_spec_is_a_path_or_kind_location_options(npz):
    assert parse_spec(str(npz)) == ("npz", str(npz), {})
    assert parse_spec(f"{npz}?y=y") == ("npz", str(npz), {"y": "y"})
    assert parse_spec("npz:some/where?x=a&y=b%20c") == ("npz", "some/where", {"x": "a", "y": "b c"})
    assert parse_spec("demo") == ("demo", "", {})


def test_the_kinds_that_are_written_out_are_the_entry_points_and_can_be_loaded():
    project = Path(__file__).parents[4] / "pyproject.toml"
    points = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert points[plugins.DATASETS] == BUILT_IN
    assert all(callable(load_kind(name)) for name in BUILT_IN)


def test_a_dataset_prints_as_one_line(npz):
    dataset = open_dataset(npz, limit=2)
    assert repr(dataset) == f"<Dataset {dataset.name}: 2 samples>"


def test_limit_and_seed_select(npz):
    assert open_dataset(npz, limit=4).labels().tolist() == [0, 1, 2, 3]
    chosen = open_dataset(npz, limit=4, seed=1).labels().tolist()
    assert chosen == sorted(chosen) != [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no/such/path", "no such path exists"),
        ("imagefoldr:x", "Did you mean imagefolder"),
        ("", "No dataset given"),
        ("npz:{npz}?colour=red", "no option 'colour'.*They have x, y, value, present, layout, classes"),
        ("npz:{npz}?colour", "not written as"),
        ("{folder}/empty", "is empty"),
        ("{folder}/text", "not recognised"),
        ("{folder}/none.npz", "is empty"),
        ("imagefolder:{folder}/gone", "There is no folder"),
    ],
)
def test_what_cannot_be_opened_is_explained(tmp_path, npz, spec, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "none.npz", x=np.zeros((0, 4, 4), np.uint8), y=np.zeros(0, int))
    with pytest.raises(DatasetError, match=message):
        open_dataset(spec.format(npz=npz, folder=tmp_path))


@given(st.integers(1, 60), st.integers(1, 80), st.one_of(st.none(), st.integers(0, 2**64 - 1)))
def test_selection_is_deterministic_sorted_and_without_repeats(count, limit, seed):
    dataset = numbers(count)
    first, second = select(dataset, limit, seed), select(numbers(count), limit, seed)
    values = [int(first.read(i).value[0]) for i in range(len(first))]
    assert len(values) == min(limit, count)
    assert values == sorted(set(values))
    assert first.fingerprint() == second.fingerprint()
    assert first.labels().tolist() == [value % 3 for value in values]
    np.testing.assert_array_equal(first.read_rows(np.arange(len(first))).values[:, 0], values)
    if limit >= count:
        assert first is dataset
    elif seed is None:
        assert values == list(range(limit))


def test_a_seed_means_the_same_samples_for_ever():
    subset = select(numbers(1000), 5, seed=42)
    assert [subset.read(i).id for i in range(5)] == ["646", "740", "743", "810", "997"]


def test_fingerprints_tell_subsets_apart():
    dataset = numbers(100)
    found = {select(dataset, limit, seed).fingerprint() for limit, seed in ((10, None), (11, None), (10, 1), (10, 2))}
    assert len(found | {dataset.fingerprint()}) == 5


@pytest.mark.parametrize(("limit", "seed"), [(0, None), (-3, None), (2, -1)])
def test_senseless_selections(limit, seed):
    with pytest.raises(DatasetError):
        select(numbers(5), limit, seed)


def test_one_picture_is_no_dataset(tmp_path):
    (tmp_path / "photo.png").touch()
    with pytest.raises(DatasetError, match=r"is one picture, and no dataset\. Name the folder"):
        open_dataset(tmp_path / "photo.png")


def test_a_table_of_pictures_that_is_taken_for_texts_is_told_how_to_be_named(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\na.png,1\n")
    with pytest.raises(DatasetError, match=r"imagefolder:.*\?labels=labels\.csv"):
        open_dataset(tmp_path / "labels.csv")
