import threading
import time

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.dataset import Dataset, Sample
from zoolens.inventory.datasets.loader import Preparation, batches


class OnDisk(Dataset):
    """Twenty samples that can only be read one by one; counts what is read."""

    name = "counted"

    def __init__(self, count=20, broken=None):
        self.count, self.broken, self.reads = count, broken, []

    def __len__(self):
        return self.count

    def read(self, index):
        self.reads.append(index)
        if index == self.broken:
            raise DatasetError(f"file-{index} cannot be decoded.")
        return Sample(f"file-{index}", np.full((2, 3), index, np.uint8), index % 4)

    def labels(self):
        return np.arange(self.count) % 4

    def fingerprint(self):
        return "0" * 64


def in_memory(count=20):
    values = np.repeat(np.arange(count, dtype=np.uint8), 6).reshape(count, 2, 3)
    return ArrayDataset(values, np.arange(count) % 4, name="memory")


def plain(sample):
    return sample.value.astype(np.float32)


def loader_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("zoolens-loader")]


def test_of_many_samples_the_one_that_cannot_be_prepared_is_named():
    def prepare(sample):
        if sample.value[0, 0] == 13:
            raise ManifestError("It has no words.")
        return plain(sample)

    def prepare_many(values):
        raise ManifestError("One of them has no words.")

    with pytest.raises(DatasetError, match=r"^Sample 13: It has no words\.$"):
        list(batches(in_memory(), Preparation(prepare, prepare_many), 20))


@pytest.mark.parametrize("make", [OnDisk, in_memory])
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize(("batch", "start"), [(1, 0), (6, 0), (7, 3), (50, 0), (4, 19), (4, 20)])
def test_every_sample_once_and_in_order(make, workers, batch, start):
    found = list(batches(make(), plain, batch, start=start, workers=workers))
    assert [len(one.labels) for one in found[:-1]] == [batch] * (len(found) - 1)
    indices = [int(i) for one in found for i in one.indices]
    assert indices == list(range(start, 20))
    assert [int(label) for one in found for label in one.labels] == [i % 4 for i in indices]
    for one in found:
        assert one.array.flags.c_contiguous
        assert one.array.flags.writeable
        assert one.array.dtype == np.float32
        assert one.array[:, 0, 0].tolist() == one.indices.tolist()
        assert [name.removeprefix("file-") for name in one.ids] == [str(i) for i in one.indices]


@pytest.mark.parametrize("make", [OnDisk, in_memory])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_memos_belong_to_their_samples(make, workers):
    preparation = Preparation(plain, lambda values: values, memo=lambda sample: sample.id)
    for batch in batches(make(), preparation, 6, workers=workers):
        assert batch.memos == batch.ids


@pytest.mark.parametrize("make", [OnDisk, in_memory])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_inputs_of_different_shapes_come_one_at_a_time(make, workers):
    def grown(sample):
        return np.zeros(1 + int(sample.value[0, 0]), np.float32)

    found = batches(make(), Preparation(grown, uneven=True), 1, workers=workers)
    assert [batch.array.shape for batch in found] == [(1, 1 + place) for place in range(20)]
    with pytest.raises(ValueError, match="one at a time"):
        batches(make(), Preparation(grown, uneven=True), 2)


def test_each_sample_is_read_once():
    dataset = OnDisk()
    list(batches(dataset, plain, 3, workers=2))
    assert sorted(dataset.reads) == list(range(20))


def test_rows_in_memory_are_prepared_together_or_one_by_one():
    calls = []

    def many(values):
        calls.append(len(values))
        return values.astype(np.float32)

    together = list(batches(in_memory(), Preparation(plain, many), 6))
    declined = list(batches(in_memory(), Preparation(plain, lambda values: None), 6))
    assert sum(calls) == 20
    for one, other in zip(together, declined, strict=True):
        np.testing.assert_array_equal(one.array, other.array)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_before_a_broken_sample_are_delivered_and_it_is_named(workers):
    found = []
    delivered = map(found.append, batches(OnDisk(broken=9), plain, 4, workers=workers))
    with pytest.raises(DatasetError, match="file-9 cannot be decoded"):
        list(delivered)
    assert [one.array[:, 0, 0].tolist() for one in found] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert not loader_threads()


@pytest.mark.parametrize("make", [OnDisk, in_memory])
@pytest.mark.parametrize("workers", [1, 2])
def test_errors_of_preparation_name_the_sample(make, workers):
    def fails(sample):
        if sample.id.endswith("5"):
            raise ManifestError("The image does not fit.", hint="Add a resize step.")
        return plain(sample)

    with pytest.raises(DatasetError, match=r"Sample (file-)?5: The image does not fit\. Add a resize step\."):
        list(batches(make(), fails, 4, workers=workers))


def test_programming_mistakes_surface_with_the_sample_noted():
    with pytest.raises(ZeroDivisionError) as caught:
        list(batches(OnDisk(), lambda sample: 1 / 0, 4))
    assert "sample file-0" in caught.value.__notes__[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_another_shape_are_refused_not_broadcast(workers):
    def uneven(sample):
        return np.zeros((1, 3) if sample.id == "file-6" else (2, 3), np.float32)

    with pytest.raises(DatasetError, match=r"Sample file-6 is 1×3 float32.*resize"):
        list(batches(OnDisk(), uneven, 4, workers=workers))


def test_closing_stops_threads_and_reads_no_further():
    dataset = OnDisk(count=10_000)
    iterator = batches(dataset, lambda s: time.sleep(0.001) or plain(s), 10, workers=2)
    next(iterator)
    iterator.close()
    assert not loader_threads()
    read = len(dataset.reads)
    time.sleep(0.02)
    assert len(dataset.reads) == read < 10 * 7


def test_reading_ahead_is_bounded_in_batches_and_in_bytes(monkeypatch):
    dataset = OnDisk(count=1000)
    iterator = batches(dataset, plain, 5, workers=2, prefetch=3)
    next(iterator)
    time.sleep(0.1)
    assert max(dataset.reads) < 5 * (1 + 1 + 3)
    iterator.close()
    monkeypatch.setattr("zoolens.inventory.datasets.loader.BYTES_AHEAD", 1)
    dataset = OnDisk(count=1000)
    iterator = batches(dataset, plain, 5, workers=2, prefetch=100)
    next(iterator)
    time.sleep(0.1)
    assert max(dataset.reads) < 5 * 3
    iterator.close()


def test_senseless_arguments():
    for arguments in (
        {"batch": 0},
        {"batch": 1, "workers": -1},
        {"batch": 1, "prefetch": 0},
        {"batch": 1, "start": -1},
    ):
        with pytest.raises(ValueError, match="are invalid"):
            batches(OnDisk(), plain, **arguments)
