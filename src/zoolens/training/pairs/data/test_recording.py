"""The user's own data: what is recorded is what both sides replay, and what cannot be recorded is said in words."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import count

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ModelError, WorkerTimeout
from zoolens.training.pairs.data.recording import is_function, record
from zoolens.training.pairs.data.source_reopening import open_source
from zoolens.training.pairs.data.sources import described
from zoolens.training.pairs.data.stream import ARRAYS, INDEX, RecordedStream
from zoolens.training.pairs.sides.network_sides import InputShape

IMAGE = [InputShape((3, 4, 5))]


def images(samples, *, last=False, seed=0):
    draw = np.random.default_rng(seed)
    shape = (4, 5, 3) if last else (3, 4, 5)
    return draw.standard_normal((samples, *shape)).astype(np.float32), draw.integers(0, 7, samples)


def recorded(data, inputs=IMAGE, *, epochs=1, **settings):
    """The notes and the batches of all epochs."""
    with record(data, inputs, epochs=epochs, **settings) as stream:
        stream = open_source(described(stream))  # as another process does
        passes = [
            [([array.copy() for array in batch.inputs], batch.targets.copy()) for batch in stream.batches(epoch, seed)]
            for seed in range(settings.get("seeds", 1))
            for epoch in range(1, epochs + 1)
        ]
        return stream.about, passes


def test_batches_come_back_as_they_were_given_in_their_order():
    given = [images(4, seed=seed) for seed in range(3)] + [images(2, seed=9)]
    about, [replayed] = recorded(lambda: iter(given))
    for (inputs, targets), (want, labels) in zip(replayed, given, strict=True):
        np.testing.assert_array_equal(inputs[0], want)
        np.testing.assert_array_equal(targets, labels)
    assert about.targets.kind == "classes"
    assert about.inputs[0].order == "channels_first"


def test_channels_that_come_last_are_replayed_first_without_a_copy():
    values, labels = images(4, last=True)
    with record([(values, labels)], IMAGE, epochs=1) as stream:
        [batch] = stream.batches(1, 0)
        np.testing.assert_array_equal(batch.inputs[0], values.transpose(0, 3, 1, 2))
        assert batch.inputs[0].transpose(0, 2, 3, 1).flags.c_contiguous
        assert not batch.inputs[0].flags.writeable  # a network that works in place cannot spoil the next epoch
        assert any("channels of the data come last" in note for note in stream.notes)


def test_an_order_of_channels_that_cannot_be_seen_is_asked_for():
    cube = [(np.arange(54, dtype=np.float32).reshape(2, 3, 3, 3), np.zeros(2, np.int64))]
    with pytest.raises(DatasetError, match=r"channels first or last.*--data-order"):
        recorded(cube, [InputShape((3, 3, 3))])
    _, [[(inputs, _)]] = recorded(cube, [InputShape((3, 3, 3))], order="channels_last")
    np.testing.assert_array_equal(inputs[0], cube[0][0].transpose(0, 3, 1, 2))
    with pytest.raises(DatasetError, match="with the channels last"):
        recorded([images(2)], order="channels_last")


def test_epochs_are_recorded_one_by_one_and_equal_ones_once():
    numbers = count()

    def shuffled():
        yield images(4, seed=next(numbers))

    about, passes = recorded(shuffled, epochs=2, seeds=2)
    assert len(about.blocks) == 4
    assert not np.array_equal(passes[0][0][0][0], passes[1][0][0][0])
    about, passes = recorded([images(4)], epochs=2, seeds=2)
    assert len(about.blocks) == 1
    np.testing.assert_array_equal(passes[0][0][0][0], passes[3][0][0][0])
    assert any("the same in each epoch" in note for note in about.notes)


def test_epochs_of_several_lengths():
    lengths = iter([3, 2])
    _, passes = recorded(lambda: (images(2, seed=seed) for seed in range(next(lengths))), epochs=2)
    assert [len(batches) for batches in passes] == [3, 2]


def test_arrays_are_shuffled_anew_for_each_epoch_and_seed():
    values, labels = images(10)
    about, passes = recorded((values, labels), epochs=2, seeds=2, batch_size=4)
    assert [len(targets) for _, targets in passes[0]] == [4, 4, 2]
    orders = [np.concatenate([inputs[0] for inputs, _ in batches]) for batches in passes]
    assert len({order.tobytes() for order in orders}) == 4
    for order in orders:
        np.testing.assert_array_equal(np.sort(order, axis=None), np.sort(values, axis=None))
    assert len(about.blocks) == 1


@pytest.mark.parametrize("last", [False, True])
def test_augmented_arrays_are_flipped_or_not(last):
    values, _ = images(40, last=last)
    _, [batches] = recorded((values, np.arange(40)), batch_size=40, augmentation="flip")
    [(inputs, targets)] = batches
    whole = values.transpose(0, 3, 1, 2) if last else values
    flips = [np.array_equal(image, whole[place, :, :, ::-1]) for image, place in zip(inputs[0], targets, strict=True)]
    same = [np.array_equal(image, whole[place]) for image, place in zip(inputs[0], targets, strict=True)]
    assert all(flip or kept for flip, kept in zip(flips, same, strict=True))
    assert any(flips)
    assert any(same)


def test_an_endless_stream_is_cut_where_an_epoch_ends():
    def endless():
        return (images(2, seed=seed) for seed in count())

    _, passes = recorded(endless, epochs=2, epoch_steps=3)
    values = [inputs[0] for batches in passes for inputs, _ in batches]
    for seed, value in enumerate(values):  # the second epoch goes on where the first one ended
        np.testing.assert_array_equal(value, images(2, seed=seed)[0])
    with pytest.raises(DatasetError, match="--epoch-steps"):
        recorded(endless, limit=1 << 16)
    with pytest.raises(DatasetError, match=r"has not ended after .* batches"):
        recorded(lambda: (images(2) for _ in count()), limit=1 << 16)  # keeps one batch, and so no bytes


@pytest.mark.parametrize(
    ("targets", "kind", "classes", "dtype"),
    [
        ([2, 0], "classes", 3, np.int64),
        ([[4], [1]], "classes", 5, np.int64),
        ([[0, 1, 0], [1, 0, 0]], "one-hot", 3, np.float32),
        ([[0.0, 1.0], [1.0, 0.0]], "one-hot", 2, np.float32),
        ([[0.25, 0.75], [0.5, 0.5]], "probabilities", 2, np.float32),
        ([0.5, 3.0], "numbers", None, np.float32),
        ([1, -100], "numbers", None, np.int64),
        ([True, False], "numbers", None, np.float32),
    ],
)
def test_targets(targets, kind, classes, dtype):
    about, [[(_, replayed)]] = recorded([(images(2)[0], np.array(targets))])
    assert (about.targets.kind, about.targets.classes, replayed.dtype) == (kind, classes, dtype)
    np.testing.assert_array_equal(replayed.ravel(), np.array(targets, dtype).ravel())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "The stream is empty in epoch 1"),
        ([images(4), images(4, last=True)], r"Batch 2 of epoch 1 has samples of 4×5×3; those before it have 3×4×5"),
        ([(images(4)[0], np.zeros(3))], "has 4 inputs and 3 targets"),
        ([(images(4)[0], np.array(list("abcd")))], "The targets of batch 1 of epoch 1 are texts"),
        ([("a text", [1])], "are an object of str"),
        ([(images(1)[0][0], 3)], "single samples of 3×4×5, not batches"),
        ([(images(2)[0][:, 0], [1, 2])], "The samples have 4×5; --input says 3×4×5"),
        ([(*images(4), np.ones(4))], "is 3 things, not"),
        ([{"image": 1}], "is an object of builtins.dict"),
        ([images(4), (images(4)[0], np.zeros(4))], "The targets of batch 2 of epoch 1 are float64"),
        (images(4)[0], "inputs without targets"),
        (3, "gives no batches"),
        ("nothing", "names no function"),
        ((value for value in [images(4)]), "can be read once"),
    ],
)
def test_streams_that_cannot_be_recorded(data, words):
    with pytest.raises(DatasetError, match=words):
        recorded(data)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"epochs": 0}, "at least one epoch"),
        ({"epochs": 1, "seeds": 0}, "at least one epoch and one seed"),
        ({"epochs": 1, "batch_size": 0}, "1 to 1,048,576 samples; got 0"),
        ({"epochs": 1, "augmentation": "blur"}, "no augmentation"),
    ],
)
def test_a_recording_of_nothing_is_refused(plan, words):
    with pytest.raises(DatasetError, match=words), record((np.zeros((4, 2), np.float32), np.zeros(4)), ["2"], **plan):
        pass


def test_a_recording_is_not_kept_in_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DatasetError, match="is a file"):
        recorded([images(4)], folder=tmp_path / "file")


def test_what_must_be_said_is_said():
    values, labels = images(4)
    values[1, 0, 0, 0] = np.nan
    about, _ = recorded(([(values, labels)], [(values[:2], labels[:2])]))
    assert any("NaN or infinite; the first is batch 1 of epoch 1" in note for note in about.notes)
    assert any("2 of the 2 held-out samples are trained on" in note for note in about.notes)
    about, _ = recorded([((images(2)[0] * 50).astype(np.uint8), labels[:2])])
    assert any("as uint8 and are recorded as float32, not scaled" in note for note in about.notes)


def test_networks_with_several_inputs():
    shapes = [InputShape((3,)), InputShape((2,), "int")]
    batch = ((np.ones((4, 3)), np.arange(8).reshape(4, 2)), np.zeros(4))
    _, [[(inputs, _)]] = recorded([batch], shapes)
    assert [array.dtype for array in inputs] == [np.float32, np.int64]
    with pytest.raises(DatasetError, match="has 1 inputs, and --input describes 2"):
        recorded([(np.ones((4, 3)), np.zeros(4))], shapes)
    with pytest.raises(DatasetError, match="says whole numbers"):
        recorded([(np.ones((4, 2)), np.zeros(4))], [InputShape((2,), "int")])


def test_a_kept_recording_is_replayed_and_must_be_the_one_that_is_asked_for(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy as np\nprint('noise')\n"
        "def data():\n    print('more noise', flush=True)\n"
        "    yield np.random.rand(4, 3, 4, 5).astype('f'), np.arange(4)\n"
    )
    name, folder = f"{path}:data", tmp_path / "kept"
    with record(name, IMAGE, epochs=2, folder=folder) as stream:
        first = stream.fingerprint
    path.write_text("raise RuntimeError('must not run again')\n")
    with record(name, IMAGE, epochs=2, folder=folder) as stream:
        assert stream.fingerprint == first
        assert any("is replayed" in note and "Its code has changed since" in note for note in stream.notes)
    for settings, words in (({"epochs": 3}, "it has 2 epochs"), ({"epochs": 2, "seeds": 2}, "it has 1 seeds")):
        with pytest.raises(DatasetError, match=words), record(name, IMAGE, folder=folder, **settings):
            pass
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.name != "__pycache__") == ["kept", "mine.py"]


def test_users_code_that_goes_wrong_leaves_nothing(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy as np\n"
        "def data():\n    yield np.ones((4, 3, 4, 5)), np.arange(4)\n    raise ValueError('bad file')\n"
    )
    words = r"mine\.py:4 raises ValueError: bad file"
    with pytest.raises(ModelError, match=words), record(f"{path}:data", IMAGE, epochs=1, folder=tmp_path / "kept"):
        pass
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "__pycache__"] == ["mine.py"]


def test_recordings_that_are_damaged(tmp_path):
    with pytest.raises(DatasetError, match="holds no finished recording"):
        RecordedStream.open(tmp_path)
    folder = tmp_path / "kept"
    with record([images(4)], IMAGE, epochs=1, folder=folder):
        pass
    index = json.loads((folder / INDEX).read_text())

    def refused(words, **changes):
        (folder / INDEX).write_text(json.dumps({**index, **changes}))
        with pytest.raises(DatasetError, match=words):
            RecordedStream.open(folder)

    refused("outside the file", blocks=[{"samples": 400, "offsets": [0, 1024]}])
    refused("outside the file", blocks=[{"samples": 4, "offsets": [1 << 40, 1024]}])
    refused("does not exist", passes=[[7]])
    refused("number of epochs", passes=[[]])
    refused("damaged", further=1)
    (folder / INDEX).write_text(json.dumps(index))
    (folder / ARRAYS).write_bytes((folder / ARRAYS).read_bytes()[:-1])
    with pytest.raises(DatasetError, match="bytes, and the index says"):
        RecordedStream.open(folder)


def test_names():
    assert is_function("mine.py:data")
    assert is_function("package.module:data")
    assert not is_function("demo")
    assert not is_function("npz:file")
    assert not is_function("idx:folder?split=train")
    assert not is_function(None)


@pytest.mark.slow
def test_a_killed_recording_is_none(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import time\nimport numpy as np\n"
        "def data():\n    while True:\n        time.sleep(0.01)\n"
        "        yield np.random.rand(4, 3, 4, 5), np.arange(4)\n"
    )
    folder = tmp_path / "kept"
    code = (
        "from pathlib import Path\nfrom zoolens.training.pairs.sides.network_sides import InputShape\n"
        "from zoolens.training.pairs.data.recording import record\n"
        f"name, folder = {f'{tmp_path}/mine.py:data'!r}, Path({str(folder)!r})\n"
        "with record(name, [InputShape((3, 4, 5))], epochs=1, folder=folder):\n    pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    for _ in range(600):
        if any(path.stat().st_size for path in tmp_path.glob(f".kept-*/{ARRAYS}")):
            break
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not folder.exists()
    assert not list(tmp_path.glob(f".kept-*/{INDEX}"))


@pytest.mark.slow
def test_a_batch_that_never_comes(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import time\nimport numpy as np\n"
        "def data():\n    yield np.ones((4, 3, 4, 5)), np.arange(4)\n    time.sleep(1000)\n"
    )
    with (
        pytest.raises(WorkerTimeout, match=r"while waiting for its batches|while calling data"),
        record(f"{tmp_path}/mine.py:data", IMAGE, epochs=1, timeout=20),
    ):
        pass


LOADERS = """
import numpy as np

values = np.random.default_rng(0).random((40, 4, 5, 3), dtype=np.float32)
labels = np.arange(40) % 7

def torch_loaders():
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.tensor(values.transpose(0, 3, 1, 2)), torch.tensor(labels))
    train, test = torch.utils.data.random_split(data, [30, 10])
    return DataLoader(train, 8, shuffle=True, num_workers=2), DataLoader(test, 8)

def tensorflow_data():
    import tensorflow as tf
    data = tf.data.Dataset.from_tensor_slices((values, tf.one_hot(labels, 7))).shuffle(40).batch(8)
    return data.map(lambda images, targets: (tf.image.random_flip_left_right(images), targets))

def keras_data():
    import keras

    class Mine(keras.utils.PyDataset):
        def __len__(self):
            return 5

        def __getitem__(self, number):
            return values[number * 8 : number * 8 + 8], labels[number * 8 : number * 8 + 8]

    return Mine()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "package", "kind", "steps"),
    [
        ("torch_loaders", "torch", "classes", 4),
        ("tensorflow_data", "tensorflow", "one-hot", 5),
        ("keras_data", "keras", "classes", 5),
    ],
)
def test_loaders_of_frameworks(tmp_path, function, package, kind, steps):
    pytest.importorskip(package)
    (tmp_path / "mine.py").write_text(LOADERS)
    with record(f"{tmp_path}/mine.py:{function}", IMAGE, epochs=2) as stream:
        assert (stream.steps, stream.about.targets.kind, stream.classes) == (steps, kind, 7)
        first, second = (list(stream.batches(epoch, 0)) for epoch in (1, 2))
        reshuffled = not all(np.array_equal(a.targets, b.targets) for a, b in zip(first, second, strict=True))
        assert reshuffled == (function != "keras_data")
        assert stream.held_out_samples == (10 if function == "torch_loaders" else 0)
