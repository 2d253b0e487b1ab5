"""Calls take what other calls return: entries, datasets, runs and outcomes stand for their names."""

import pytest

import zoolens
from zoolens.inventory.catalog.lookup import model_text


@pytest.fixture
def outcomes(home, fake_model, data):
    entries = [zoolens.find_model(path) for path in (fake_model("one", behaviour="label_leak"), fake_model("two"))]
    return zoolens.evaluate(entries, zoolens.open_dataset(data), batches=(), cold=False, trust=True)


def test_an_entry_and_a_dataset_are_evaluated(outcomes):
    assert [outcome.errors for outcome in outcomes] == [(), ()]
    assert [outcome.run.dataset.size for outcome in outcomes] == [300, 300]


def test_a_part_of_a_dataset_is_evaluated_as_that_part(home, fake_model, data):
    part = zoolens.open_dataset(data, limit=20, seed=3)
    (from_object,) = zoolens.evaluate(fake_model("one"), part, batches=(), cold=False)
    (from_name,) = zoolens.evaluate(fake_model("one"), data, limit=20, seed=3, batches=(), cold=False)
    assert from_object.run.id == from_name.run.id
    assert from_object.run.dataset.fingerprint == part.fingerprint()
    with pytest.raises(zoolens.ZoolensError, match="is a part of a dataset already"):
        zoolens.evaluate(fake_model("one"), part, limit=5)
    with pytest.raises(zoolens.ZoolensError, match="is needed as a whole, and 20 samples of it were opened"):
        zoolens.equiv("a", "b", data=part)


def test_runs_and_outcomes_stand_for_their_ids(outcomes):
    first, second = outcomes
    by_id = zoolens.compare(first.run.id, second.run.id)
    for a, b in [(first, second), (first.run, second.run), (first, second.run.id)]:
        assert zoolens.compare(a, b) == by_id
    assert zoolens.equiv(first, second.run).agreement == zoolens.equiv(first.run.id, second.run.id).agreement
    assert zoolens.reproduce(first).original.id == zoolens.reproduce(first.run).original.id == first.run.id
    assert zoolens.agreement_matrix([first, second.run]).agreement.shape == (2, 2)
    assert zoolens.disagree(first.run).run.id == first.run.id


def test_an_outcome_without_a_run_says_why(outcomes):
    failed = type(outcomes[0])("net in runtime", errors=("It does not open.",))
    with pytest.raises(zoolens.ZoolensError, match=r"net in runtime has no run: It does not open\."):
        zoolens.compare(failed, outcomes[0])


def test_entries_are_found_by_their_text_again(home, fake_model):
    for entry in (zoolens.find_model("demo:lenet-wide"), zoolens.find_model(fake_model("one"))):
        assert zoolens.find_model(model_text(entry)) == entry
    lenet = next(asset for asset in entry_files() if asset.suffix == ".onnx")
    bare = zoolens.find_model(lenet)
    assert model_text(bare) == str(lenet.resolve())


def entry_files():
    entry = zoolens.find_model("demo:lenet-wide")
    return [entry.folder / file.location for asset in entry.manifest.assets for file in asset.files]


def test_texts_stand_for_paths_in_port_too(tmp_path):
    """Each is refused for what it names, and not for being a text."""
    network = f"{tmp_path}/nowhere.py:net"
    with pytest.raises(zoolens.ZoolensError, match="There is no folder"):
        zoolens.port.move_weights(network, network, ["4"], f"{tmp_path}/absent/b.safetensors")
    with pytest.raises(zoolens.ZoolensError, match="is no Python file"):
        zoolens.port.scaffold(network, ["4"], "keras", out=f"{tmp_path}/port.txt")
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(zoolens.ZoolensError, match="is a file"),
        zoolens.port.record([], ["4"], epochs=1, folder=f"{tmp_path}/file"),
    ):
        pass
    with pytest.raises(zoolens.ZoolensError, match="is a folder"):
        zoolens.port.train(network, network, ["4"], store=str(tmp_path))


def test_a_long_text_in_the_place_of_a_name_is_cut():
    with pytest.raises(zoolens.ZoolensError) as caught:
        zoolens.models(zoo="x" * 5000)
    assert len(str(caught.value)) < 600
