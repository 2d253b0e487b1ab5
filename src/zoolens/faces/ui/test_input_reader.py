"""Inputs of runs for the eye: the right ones, or a sentence."""

import io
import os
import time
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from zoolens.base.store.records import DatasetRecord, ModelRecord, StackRecord
from zoolens.base.store.store import open_store
from zoolens.faces.ui.endpoint import NotFound
from zoolens.faces.ui.input_reader import InputReader, InputState
from zoolens.inventory.datasets.opening import absolute_spec, open_dataset

CLASSES = ("ant", "bee")
COUNT = 12


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with open_store(tmp_path_factory.mktemp("store") / "store.sqlite") as opened:
        yield opened


def run_on(store, data, limit=None, seed=None):
    """A run that says that it was measured on these data."""
    with closing(open_dataset(data, limit=limit, seed=seed)) as dataset:
        record = DatasetRecord(dataset.fingerprint(), dataset.name, len(dataset))
    told = {"data": absolute_spec(str(data)), "limit": limit, "seed": seed}
    run = store.begin_run(ModelRecord("m", "demo:m@1", "onnx", {}), record, StackRecord("s", "fake", {}, {}))
    store.set_resolved(run.id, {"origin": told})  # the same content is the same run, wherever it lay before
    return store.run(run.id)


def image(number):
    """An image that no other number has."""
    return np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Images in folders of their classes, named so that their order is not that of their numbers."""
    for number in range(COUNT):
        place = tmp_path / "data" / CLASSES[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image(number)).save(place / f"{7 * number % COUNT:02}.png")
    return tmp_path / "data"


@pytest.fixture
def reader(folder):
    with InputReader([folder.parent]) as made:
        yield made


def seen_by(reader, run, indices):
    """What is seen, once the data are open."""
    seen = reader.look(run, indices, patience=60)
    assert seen.state is not InputState.OPENING
    return seen


def drawn(shown):
    pixels = np.asarray(Image.open(io.BytesIO(shown.png)))
    step = pixels.shape[0] // 8
    return pixels[::step, ::step]


@pytest.mark.parametrize(("limit", "seed"), [(None, None), (5, 3)])
def test_each_input_is_the_one_of_its_place(store, reader, folder, limit, seed):
    run = run_on(store, folder, limit, seed)
    seen = seen_by(reader, run, range(run.inputs))
    assert seen.state is InputState.READY
    with closing(open_dataset(folder, limit=limit, seed=seed)) as dataset:
        samples = list(dataset)
    assert len(samples) == len(seen.inputs) == (limit or COUNT)
    for sample, shown in zip(samples, seen.inputs, strict=True):
        assert shown.name == sample.id
        np.testing.assert_array_equal(drawn(shown), sample.value)
    assert seen_by(reader, run, [3]).inputs == (seen.inputs[3],)
    with pytest.raises(NotFound):
        reader.look(run, [run.inputs])


def test_arrays_and_rows_are_shown_and_numbers_are_described(store, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels = np.arange(4) % 2
    np.savez(tmp_path / "images.npz", x=np.stack([image(number) for number in range(4)]), y=labels)
    np.savez(tmp_path / "vectors.npz", x=np.arange(12, dtype=np.float32).reshape(4, 3), y=labels)
    encoded = []
    for number in range(4):
        stream = io.BytesIO()
        Image.fromarray(image(number)).save(stream, "PNG")
        encoded.append(stream.getvalue())
    pq.write_table(pa.table({"image": encoded, "label": labels}), tmp_path / "rows.parquet")
    with InputReader([tmp_path]) as reader:
        for name in ("images.npz", "rows.parquet"):
            (shown,) = seen_by(reader, run_on(store, tmp_path / name), [2]).inputs
            np.testing.assert_array_equal(drawn(shown), image(2))
        (shown,) = seen_by(reader, run_on(store, tmp_path / "vectors.npz"), [2]).inputs
        assert (shown.png, shown.words) == (None, "3 of float32: 6, 7, 8")


def test_data_that_changed_since_are_not_shown_and_come_back(store, reader, folder):
    run = run_on(store, folder)
    assert seen_by(reader, run, [0]).state is InputState.READY
    files = sorted(folder.rglob("*.png"))
    before = [file.read_bytes() for file in files[:2]]
    times = [file.stat() for file in files[:2]]
    for file, content, stat in zip(files[:2], reversed(before), times, strict=True):  # two images change places
        file.write_bytes(content)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    changed = seen_by(reader, run, [1])
    assert (changed.state, changed.inputs) == (InputState.UNAVAILABLE, ())
    assert "its content has changed" in changed.sentence
    assert run.id[:8] in changed.sentence
    later = run_on(store, folder)  # measured on what is there now
    np.testing.assert_array_equal(
        drawn(seen_by(reader, later, [1]).inputs[0]), drawn(seen_by(reader, run, [0]).inputs[0])
    )
    for file, content in zip(files[:2], before, strict=True):
        file.write_bytes(content)
    assert seen_by(reader, run, [1]).state is InputState.READY


def test_data_that_are_gone_are_a_sentence_until_they_are_there_again(store, reader, folder, monkeypatch):
    run = run_on(store, folder)
    away = folder.rename(folder.with_name("away"))
    gone = seen_by(reader, run, [0])
    assert gone.state is InputState.UNAVAILABLE
    assert "data" in gone.sentence
    away.rename(folder)
    monkeypatch.setattr("zoolens.faces.ui.input_reader._FAILED", 0.0)
    assert seen_by(reader, run, [0]).state is InputState.READY


def test_a_file_that_is_damaged_is_named_and_the_others_are_shown(store, reader, folder):
    (folder / "ant" / "00.png").write_bytes(b"no image")
    seen = seen_by(reader, run_on(store, folder), [0, 1])
    assert seen.inputs[0].png is None
    assert "not an image" in seen.inputs[0].words
    assert seen.inputs[1].png is not None


def test_only_allowed_folders_are_read_wherever_links_lead(store, folder, tmp_path_factory):
    run = run_on(store, folder)
    with InputReader() as reader:
        refused = reader.look(run, [0])
        assert refused.state is InputState.UNAVAILABLE
        assert "--allow" in refused.sentence
    allowed = tmp_path_factory.mktemp("allowed")
    (allowed / "link").symlink_to(folder)
    with InputReader([allowed]) as reader:
        for data in (str(folder), str(allowed / "link"), f"{allowed}/../{folder.parent.name}/data", "data", "~"):
            store.set_resolved(run.id, {"origin": {**run.origin, "data": f"imagefolder:{data}"}})
            refused = reader.look(store.run(run.id), [0])
            assert refused.state is InputState.UNAVAILABLE, data
            assert "--allow" in refused.sentence


def test_links_to_files_outside_are_not_followed(store, folder, tmp_path_factory):
    """The check looks at the folder; the sandbox sees to what lies in it."""
    allowed = tmp_path_factory.mktemp("allowed")
    (allowed / "data" / "ant").mkdir(parents=True)
    (allowed / "data" / "ant" / "a.png").symlink_to(folder / "ant" / "00.png")
    run = run_on(store, allowed / "data")
    with InputReader([allowed]) as reader:
        seen = seen_by(reader, run, [0])
    assert seen.state is InputState.UNAVAILABLE
    assert "cannot be read" in seen.sentence


@pytest.mark.parametrize("origin", [{"data": None}, {"data": ["demo"]}, {"limit": "5"}, {"seed": [1]}])
def test_a_run_that_does_not_say_where_its_data_lie(store, reader, origin):
    run = run_on(store, "demo", 5)
    store.set_resolved(run.id, {"origin": {**run.origin, **origin}})
    seen = reader.look(store.run(run.id), [0])
    assert seen.state is InputState.UNAVAILABLE
    assert "does not record where its dataset is" in seen.sentence


def test_nobody_waits_for_data_that_take_long_to_open(store, reader, folder):
    run = run_on(store, folder)
    assert reader.look(run, [0], patience=0).state is InputState.OPENING
    deadline = time.monotonic() + 60
    while (seen := reader.look(run, [0], patience=0)).state is InputState.OPENING:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert seen.state is InputState.READY
