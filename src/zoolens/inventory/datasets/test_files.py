"""Each kind of dataset on small files made here, good ones and bad ones."""

import csv
import gzip
import io
import itertools
import json
import os
import pickle
import struct
import sys
import tracemalloc
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets import images as images_module
from zoolens.inventory.datasets import labelled_files
from zoolens.inventory.datasets.arrays import ArrayDataset, file_bytes
from zoolens.inventory.datasets.cifar10 import RECORD
from zoolens.inventory.datasets.opening import detect, open_dataset

RNG = np.random.default_rng(7)


def picture(height=6, width=5, channels=3):
    return RNG.integers(0, 256, (height, width, channels), dtype=np.uint8)


def png(array):
    buffer = io.BytesIO()
    Image.fromarray(array.squeeze()).save(buffer, "PNG")
    return buffer.getvalue()


def write_idx(path, array):
    data = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def class_folders(tmp_path):
    pictures = {"cat/a.png": picture(), "cat/b.png": picture(), "dog/c.png": picture()}
    for name, array in pictures.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png(array))
    return tmp_path, pictures


# --- image folders


def test_class_subfolders_give_sorted_classes_and_exact_pixels(class_folders):
    folder, pictures = class_folders
    dataset = open_dataset(folder)
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels().tolist() == [0, 0, 1]
    for index, (name, array) in enumerate(pictures.items()):
        sample = dataset.read(index)
        assert (sample.id, sample.label) == (name, [0, 0, 1][index])
        np.testing.assert_array_equal(sample.value, array)


def test_class_file_gives_the_indices_of_folders(class_folders):
    folder, _ = class_folders
    (folder / "synset_words.txt").write_text("zebra striped\ndog a pet\ncat another\n")
    assert open_dataset(folder).labels().tolist() == [2, 2, 1]
    (folder / "synset_words.txt").write_text("zebra\ndog\n")
    with pytest.raises(DatasetError, match=r"'cat'.*does not list"):
        open_dataset(folder)


def test_a_class_file_of_windows_has_no_mark_in_its_first_name(class_folders):
    folder, _ = class_folders
    (folder / "classes.txt").write_bytes("dog\r\ncat\r\n".encode("utf-8-sig"))
    assert open_dataset(folder).classes == ("dog", "cat")
    assert open_dataset(folder).labels().tolist() == [1, 1, 0]


def test_a_class_that_the_class_file_lists_twice_is_refused(class_folders):
    folder, _ = class_folders
    (folder / "classes.txt").write_text("cat\ndog\ncat\n")
    with pytest.raises(DatasetError, match=r"'cat', which the class file lists 2 times \(as the classes 0 and 2\)"):
        open_dataset(folder)


def test_pictures_that_are_left_out_are_counted(class_folders):
    folder, _ = class_folders
    assert open_dataset(folder).notes == ()
    (folder / "cat" / "d.HEIC").write_bytes(b"x")
    (folder / "cat" / "Thumbs.db").write_bytes(b"x")
    (folder / "dog" / "e.jfif").write_bytes(png(picture()))
    (folder / "preview.png").write_bytes(png(picture()))
    dataset = open_dataset(folder)
    assert len(dataset) == 4
    assert (
        open_dataset(folder, limit=2).notes
        == dataset.notes
        == (
            "1 picture that lies beside the folders of classes is left out",
            "pictures of kinds that are not read are left out: 1 .heic",
        )
    )


def test_numbered_folders_are_indices_not_words(tmp_path):
    for name in ("2", "10"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(png(picture()))
    assert sorted(open_dataset(tmp_path).labels().tolist()) == [2, 10]


@pytest.mark.parametrize("header", [["file", "label"], ["name", "what"], None])
def test_labels_csv_with_and_without_header(tmp_path, header):
    (tmp_path / "images").mkdir()
    for name in ("b.png", "a.png"):
        (tmp_path / "images" / name).write_bytes(png(picture()))
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([*([header] if header else []), ["images/b.png", 3], ["a.png", 1]])
    dataset = open_dataset(tmp_path)
    assert [dataset.read(i).id for i in range(2)] == ["images/b.png", "a.png"]
    assert dataset.labels().tolist() == [3, 1]


def test_a_label_is_not_taken_from_whichever_column_comes_second(tmp_path):
    (tmp_path / "a.png").write_bytes(png(picture()))
    (tmp_path / "labels.csv").write_text("file,width,height,breed\na.png,5,6,pug\n")
    with pytest.raises(DatasetError, match="columns file, width, height, breed, and none is called label"):
        open_dataset(tmp_path)
    (tmp_path / "labels.csv").write_text("file,width,height,category\na.png,5,6,pug\n")
    assert open_dataset(tmp_path).classes == ("pug",)


@pytest.mark.parametrize(
    ("line", "message"),
    [("../secret.png,1", "outside"), ("gone.png,1", "does not exist"), ("only.png", "one column")],
)
def test_bad_csv_lines_are_named(tmp_path, line, message):
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(png(picture()))
    (folder / "labels.csv").write_text(f"file,label\n{line}\n")
    with pytest.raises(DatasetError, match=message) as caught:
        open_dataset(folder)
    assert "line 2" in str(caught.value)


@pytest.mark.parametrize("digits", [10, 20, 5000])
def test_a_label_that_is_no_number_of_an_output_is_refused(tmp_path, digits):
    (tmp_path / "a.png").write_bytes(png(picture()))
    (tmp_path / "labels.csv").write_text(f"file,label\na.png,{'9' * digits}\n")
    with pytest.raises(DatasetError, match=f"a number of {digits:,} digits"):
        open_dataset(tmp_path)


def test_gray_images_become_rgb_unless_kept(tmp_path):
    (tmp_path / "0").mkdir()
    gray = picture(channels=1)
    (tmp_path / "0" / "g.png").write_bytes(png(gray))
    np.testing.assert_array_equal(open_dataset(tmp_path).read(0).value, np.repeat(gray, 3, axis=2))
    kept = open_dataset(tmp_path, gray="keep")
    np.testing.assert_array_equal(kept.read(0).value, gray)
    assert kept.fingerprint() != open_dataset(tmp_path).fingerprint()


def test_damaged_and_monstrous_images_are_named(class_folders, monkeypatch):
    folder, _ = class_folders
    (folder / "cat" / "a.png").write_bytes(png(picture(40, 40))[:200])
    (folder / "cat" / "b.png").write_bytes(b"not an image at all")
    dataset = open_dataset(folder)
    with pytest.raises(DatasetError, match=r"a\.png cannot be decoded"):
        dataset.read(0)
    with pytest.raises(DatasetError, match=r"b\.png is not an image"):
        dataset.read(1)
    monkeypatch.setattr(images_module, "MAX_PIXELS", 29)
    with pytest.raises(DatasetError, match=r"c\.png claims 5×6 pixels"):
        dataset.read(2)


def test_a_bomb_larger_than_pillow_allows_is_refused(tmp_path):
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + png(picture())[33:])
    with pytest.raises(DatasetError, match=r"bomb\.png claims"):
        open_dataset(tmp_path).read(0)


def test_folder_fingerprint_follows_bytes_labels_and_order_not_names(class_folders, tmp_path_factory):
    folder, _ = class_folders
    before = open_dataset(folder).fingerprint()
    (folder / "cat" / "a.png").rename(folder / "cat" / "aa.png")
    assert open_dataset(folder).fingerprint() == before
    (folder / "cat" / "aa.png").rename(folder / "cat" / "z.png")  # now last of its class
    reordered = open_dataset(folder).fingerprint()
    assert reordered != before
    (folder / "cat" / "b.png").write_bytes(png(picture()))
    assert open_dataset(folder).fingerprint() not in (before, reordered)


# --- IDX


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_folder(tmp_path, suffix):
    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    values, labels = RNG.integers(0, 256, (5, 4, 3), dtype=np.uint8), np.array([9, 0, 1, 2, 3], np.uint8)
    write_idx(folder / f"t10k-images-idx3-ubyte{suffix}", values)
    write_idx(folder / f"t10k-labels-idx1-ubyte{suffix}", labels)
    dataset = open_dataset(folder)
    assert dataset.classes[9] == "Ankle boot"
    assert dataset.labels().tolist() == labels.tolist()
    np.testing.assert_array_equal(dataset.read(2).value, values[2][:, :, None])
    assert detect(folder / f"t10k-images-idx3-ubyte{suffix}") == "idx"


def test_idx_fingerprint_is_that_of_the_content_however_packed(tmp_path):
    values, labels = RNG.integers(0, 256, (5, 4, 3), dtype=np.uint8), np.arange(5, dtype=np.uint8)
    found = []
    for suffix in ("", ".gz"):
        write_idx(tmp_path / f"t10k-images-idx3-ubyte{suffix}", values)
        write_idx(tmp_path / f"t10k-labels-idx1-ubyte{suffix}", labels)
        found.append(open_dataset(tmp_path / f"t10k-images-idx3-ubyte{suffix}").fingerprint())
    write_idx(tmp_path / "t10k-labels-idx1-ubyte", labels[::-1])
    found.append(open_dataset(tmp_path / "t10k-images-idx3-ubyte").fingerprint())
    assert found[0] == found[1] != found[2]


def test_bad_idx_files(tmp_path):
    images, labels = tmp_path / "t10k-images-idx3-ubyte", tmp_path / "t10k-labels-idx1-ubyte"
    write_idx(images, np.zeros((5, 4, 3), np.uint8))
    with pytest.raises(DatasetError, match=r"no IDX file|cannot be read"):
        open_dataset(images, labels="absent").labels()
    write_idx(labels, np.zeros(4, np.uint8))
    with pytest.raises(DatasetError, match="5 inputs but 4 labels"):
        open_dataset(images)
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(DatasetError, match="declared as 5×4×3"):
        open_dataset(images)
    images.write_bytes(b"\x01\x02\x03")
    with pytest.raises(DatasetError, match="not an IDX file"):
        open_dataset(f"idx:{images}")


def test_gzip_bombs_and_truncated_gzip(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\0" * 5000))
    with pytest.raises(DatasetError, match="unpacks to more than"):
        file_bytes(path, limit=4999)
    path.write_bytes(gzip.compress(bytes(RNG.integers(0, 256, 5000, dtype=np.uint8)))[:-100])
    with pytest.raises(DatasetError, match="cannot be read"):
        file_bytes(path)


# --- CIFAR-10


def cifar_records(count):
    records = RNG.integers(0, 256, (count, RECORD), dtype=np.uint8)
    records[:, 0] %= 10
    return records


def test_cifar_records_are_planar_rgb(tmp_path):
    records = cifar_records(4)
    (tmp_path / "test_batch.bin").write_bytes(records.tobytes())
    dataset = open_dataset(tmp_path)
    sample = dataset.read(3)
    assert sample.label == records[3, 0]
    assert sample.value.shape == (32, 32, 3)
    assert sample.value[5, 7].tolist() == [records[3, 1 + plane * 1024 + 5 * 32 + 7] for plane in range(3)]
    with gzip.open(tmp_path / "copy.bin.gz", "wb") as file:
        file.write(records.tobytes())
    assert open_dataset(tmp_path / "copy.bin.gz").fingerprint() == dataset.fingerprint()


def test_cifar_training_batches_join(tmp_path):
    records = cifar_records(7)
    (tmp_path / "data_batch_1.bin").write_bytes(records[:3].tobytes())
    (tmp_path / "data_batch_2.bin").write_bytes(records[3:].tobytes())
    dataset = open_dataset(f"cifar10:{tmp_path}?split=train")
    assert dataset.labels().tolist() == records[:, 0].tolist()
    rows = dataset.read_rows(np.array([2, 3, 6]))
    for row, index in enumerate((2, 3, 6)):
        np.testing.assert_array_equal(dataset.read(index).value, rows.values[row])
        np.testing.assert_array_equal(rows.values[row].transpose(2, 0, 1).ravel(), records[index, 1:])


def test_cifar_pickles_and_truncated_files_are_refused(tmp_path):
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": 1}, protocol=2))
    with pytest.raises(DatasetError, match="pickle"):
        open_dataset(tmp_path)
    (tmp_path / "half.bin").write_bytes(cifar_records(2).tobytes()[:-5])
    with pytest.raises(DatasetError, match="not a multiple of 3073"):
        open_dataset(f"cifar10:{tmp_path / 'half.bin'}")


# --- npz


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_planar_images_are_turned(tmp_path, save):
    planar = RNG.integers(0, 256, (6, 3, 8, 9), dtype=np.uint8)
    save(tmp_path / "d.npz", images=planar, labels=np.arange(6))
    dataset = open_dataset(tmp_path / "d.npz")
    np.testing.assert_array_equal(dataset.read(4).value, planar[4].transpose(1, 2, 0))
    assert dataset.labels().tolist() == list(range(6))


def test_npz_both_packings_have_one_fingerprint_and_floats_keep_their_layout(tmp_path):
    values = RNG.normal(size=(6, 3, 8, 9)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=values, y=np.arange(6))
    np.savez_compressed(tmp_path / "b.npz", x=values, y=np.arange(6))
    first, second = open_dataset(tmp_path / "a.npz"), open_dataset(tmp_path / "b.npz")
    assert first.fingerprint() == second.fingerprint()
    assert first.read(0).value.shape == (3, 8, 9)
    turned = open_dataset(f"{tmp_path / 'a.npz'}?layout=NCHW")
    assert turned.read(0).value.shape == (8, 9, 3)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("-" * 9000 + "1", "not a numpy array"),  # Python gives up on it with a MemoryError
        ("(" * 150 + ")" * 150, "not a numpy array"),
        ("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (0,)}", "datetime"),
        ("{'descr': '|V8', 'fortran_order': False, 'shape': (0,)}", "void"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,)}", "void"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "a single number"),
    ],
)
def test_npz_headers_that_describe_nothing_usable(tmp_path, header, words):
    text = header.encode()
    member = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, member)
    with pytest.raises(DatasetError, match=words):
        open_dataset(tmp_path / "d.npz")


def test_a_header_of_a_packed_array_is_not_read_to_its_claimed_end(tmp_path):
    """Packed a thousand times, a header of 4 GB fits into a file of 4 MB."""
    size = 1 << 28
    path = tmp_path / "d.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", size))
        for _ in range(size >> 24):
            member.write(b" " * (1 << 24))
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match="not a numpy array"):
            open_dataset(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_npz_refusals(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object), y=np.zeros(1, int))
    with pytest.raises(DatasetError, match="pickled"):
        open_dataset(path)
    np.savez(path, pictures=np.zeros((2, 4, 4), np.uint8), y=np.zeros(2, int))
    with pytest.raises(DatasetError, match="pictures, y"):
        open_dataset(path)
    assert len(open_dataset(path, x="pictures")) == 2
    np.savez(path, x=np.zeros((2, 4, 4), np.uint8), y=np.full(2, 0.5))
    with pytest.raises(DatasetError, match="integer"):
        open_dataset(path)
    np.savez(path, x=np.zeros((2, 4, 4), np.uint8), y=np.array([0, -1]))
    with pytest.raises(DatasetError, match="negative label -1"):
        open_dataset(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DatasetError, match="cannot be read"):
        open_dataset(f"npz:{path}")


# --- Parquet


def test_parquet_as_hugging_face_writes_it(tmp_path):
    pictures = [picture() for _ in range(7)]
    column = pa.array([{"bytes": png(array), "path": None} for array in pictures])
    features = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    table = pa.table({"image": column, "label": [0, 1, 0, 1, 0, 1, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table.slice(0, 5), tmp_path / "part-0.parquet", row_group_size=2)
    pq.write_table(table.slice(5), tmp_path / "part-1.parquet", row_group_size=2)
    dataset = open_dataset(tmp_path)
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels().tolist() == [0, 1, 0, 1, 0, 1, 1]
    for index in (6, 0, 5, 3, 4, 1, 2):  # any order, so that row groups come and go
        np.testing.assert_array_equal(dataset.read(index).value, pictures[index])
    dataset.close()
    dataset.close()


def test_metadata_that_are_nested_too_deeply_name_no_classes(tmp_path):
    table = pa.table({"x": [[1.0], [2.0]], "label": [0, 1]})
    table = table.replace_schema_metadata({"huggingface": "[" * 100_000 + "]" * 100_000})
    pq.write_table(table, tmp_path / "d.parquet")
    assert open_dataset(tmp_path / "d.parquet").labels().tolist() == [0, 1]


def test_parquet_of_arrays_and_words(tmp_path):
    values = RNG.normal(size=(4, 3)).astype(np.float32)
    pq.write_table(pa.table({"x": list(values), "label": ["b", "a", "b", "c"]}), tmp_path / "d.parquet")
    dataset = open_dataset(tmp_path / "d.parquet")
    assert dataset.classes == ("a", "b", "c")
    assert dataset.labels().tolist() == [1, 0, 1, 2]
    assert dataset.read(2).value.dtype == np.float32
    np.testing.assert_array_equal(dataset.read(2).value, values[2])


def test_a_column_of_parquet_that_is_called_label_is_not_passed_over(tmp_path):
    path = tmp_path / "d.parquet"
    for labels in ([2.0, 0.0], [True, False]):
        pq.write_table(pa.table({"x": [[0.5], [1.5]], "label": labels}), path)
        assert open_dataset(path).labels().tolist() == [int(label) for label in labels]
    pq.write_table(pa.table({"x": [[0.5], [1.5]], "label": [0.25, 1.0]}), path)
    with pytest.raises(DatasetError, match=r"holds double, not an integer or a word for each row\. .*y=none"):
        open_dataset(path)
    assert not open_dataset(path, y="none").labelled


@pytest.mark.parametrize(
    ("y", "labels", "classes"),
    [
        ([True, False], [1, 0], None),
        ([2.0, 0.0], [2, 0], None),
        (["dog", "cat"], [1, 0], ("cat", "dog")),
        (["10", "2"], [10, 2], None),
    ],
)
def test_labels_of_npz_may_be_words_and_whole_numbers_of_any_type(tmp_path, y, labels, classes):
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3)), y=np.array(y))
    dataset = open_dataset(tmp_path / "d.npz")
    assert (dataset.labels().tolist(), dataset.classes, dataset.alphabetical) == (labels, classes, bool(classes))


def test_quantities_are_no_labels_and_can_be_left_out(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3)), y=np.array([0.5, 1.0]))
    with pytest.raises(DatasetError, match=r"not one integer or word for each sample\. .*y=none"):
        open_dataset(tmp_path / "d.npz")
    assert not open_dataset(tmp_path / "d.npz", y="none").labelled
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3)), y=np.eye(2))
    with pytest.raises(DatasetError, match="argmax"):
        open_dataset(tmp_path / "d.npz")


def test_numbers_written_as_text_are_class_numbers_in_parquet_too(tmp_path):
    """By the alphabet class 10 would be the third."""
    numbers = [str(number) for number in range(11)]
    pq.write_table(pa.table({"x": [[0.0]] * 11, "label": numbers}), tmp_path / "d.parquet")
    dataset = open_dataset(tmp_path / "d.parquet")
    assert (dataset.labels().tolist(), dataset.classes, dataset.alphabetical) == (list(range(11)), None, False)


def test_parquet_refusals(tmp_path, monkeypatch):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"image": pa.array([None, b"junk"], pa.binary()), "label": [0, 1]}), path)
    dataset = open_dataset(path)
    with pytest.raises(DatasetError, match="Row 0 of d has no image"):
        dataset.read(0)
    with pytest.raises(DatasetError, match="Row 1 of d is not an image"):
        dataset.read(1)
    monkeypatch.setattr("zoolens.inventory.datasets.parquet.MAX_ROW_GROUP", 1)
    with pytest.raises(DatasetError, match="smaller row_group_size"):
        open_dataset(path).read(0)
    monkeypatch.undo()
    with pytest.raises(DatasetError, match="no column 'picture'"):
        open_dataset(path, x="picture")
    pq.write_table(pa.table({"image": [b"x"] * 2, "label": pa.array([None, 1], pa.int64())}), path)
    with pytest.raises(DatasetError, match="without a label"):
        open_dataset(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DatasetError, match="cannot be read as Parquet"):
        open_dataset(path)


def test_parquet_sizes_are_those_of_the_pages(tmp_path, monkeypatch):
    """A run of equal values takes no room in the file, and the footer says so."""
    path = tmp_path / "d.parquet"
    rows = pa.array([[0] * 1000] * 1000, pa.list_(pa.uint8()))
    pq.write_table(pa.table({"x": rows, "y": [0] * 1000}), path)
    assert pq.ParquetFile(path).metadata.row_group(0).total_byte_size < 10_000
    assert open_dataset(path).read(0).value.shape == (1000,)
    monkeypatch.setattr("zoolens.inventory.datasets.parquet.MAX_ROW_GROUP", 1 << 19)
    with pytest.raises(DatasetError, match="smaller row_group_size"):
        open_dataset(path).read(0)


def test_parquet_keeps_equal_images_and_words_once(tmp_path):
    path = tmp_path / "d.parquet"
    image = io.BytesIO()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(image, "PNG")
    table = pa.table({"image": pa.array([{"bytes": image.getvalue(), "path": "p"}] * 4), "label": ["b", "a", "b", "a"]})
    pq.write_table(table, path, row_group_size=2)
    dataset = open_dataset(path)
    assert dataset.labels().tolist() == [1, 0, 1, 0]
    assert dataset.classes == ("a", "b")
    assert dataset.read(3).value[0, 0].tolist() == [1, 2, 3]


def test_parquet_shards_that_do_not_belong_together(tmp_path):
    pq.write_table(pa.table({"x": [[1.0]], "y": [0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [[1.0]], "z": [0]}), tmp_path / "b.parquet")
    with pytest.raises(DatasetError):
        open_dataset(tmp_path)


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has only names in UTF-8")
def test_names_that_are_not_utf8_are_written_so_that_they_can_be_stored(tmp_path):
    """Archives from other systems bring such names: Python has them as text that no store and no stream takes."""
    for folder, file in ((b"caf\xe9", b"a.png"), ("tür".encode(), b"\xff\xfe.png")):
        place = tmp_path / os.fsdecode(folder)
        place.mkdir()
        (place / os.fsdecode(file)).write_bytes(png(picture()))
    (tmp_path / os.fsdecode(b"caf\xe9") / "broken.png").write_bytes(b"x")
    dataset = open_dataset(tmp_path)
    assert dataset.classes == ("caf\\xe9", "tür")
    assert [dataset.read(index).id for index in (0, 2)] == ["caf\\xe9/a.png", "tür/\\xff\\xfe.png"]
    with pytest.raises(DatasetError, match="broken") as refused:
        dataset.read(1)
    str(refused.value).encode()


def test_links_that_lead_to_ever_more_places_are_given_up(tmp_path, monkeypatch):
    """Each folder has two links to the next one: thirty folders are a billion."""
    monkeypatch.setattr(labelled_files, "MAX_FOLDERS", 1000)
    chain = [tmp_path / "data" / "cat", *(tmp_path / f"next{number}" for number in range(30))]
    for folder in chain:
        folder.mkdir(parents=True)
    for folder, onward in itertools.pairwise(chain):
        for name in ("left", "right"):
            (folder / name).symlink_to(onward)
    for spec in (tmp_path / "data", f"imagefolder:{tmp_path / 'data'}"):
        with pytest.raises(DatasetError, match="more than 1,000 folders"):
            open_dataset(spec)


def test_folders_inside_each_other_without_end_are_refused(tmp_path):
    deepest = tmp_path.joinpath("data", "cat", *["a"] * 200)
    deepest.mkdir(parents=True)
    with pytest.raises(DatasetError, match="64 deep"):
        open_dataset(f"imagefolder:{tmp_path / 'data'}")


def test_links_that_lead_round_and_round_are_followed_once(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "0.png")
    for name in ("a", "b"):  # 2⁴⁰ ways to the same picture
        (tmp_path / "cat" / name).symlink_to(".")
    assert len(open_dataset(tmp_path)) == 1


def test_names_that_no_file_can_have(tmp_path):
    for spec in (f"npz:{'a' * 5000}", "npz:a\0b", "imagefolder:~no-such-user-here/x"):
        with pytest.raises(DatasetError):
            open_dataset(spec)


def test_idx_with_sides_of_nought(tmp_path):
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(struct.pack(">4B4I", 0, 0, 8, 4, 1 << 31, 1 << 31, 1 << 31, 0))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 0))
    with pytest.raises(DatasetError):
        open_dataset(tmp_path)


def test_a_dataset_gives_its_samples_in_order():
    from itertools import islice

    from zoolens.inventory.datasets.demo import open_demo

    found = open_demo()
    assert [one.id for one in islice(found, 3)] == [found.read(index).id for index in range(3)]
    assert sum(1 for _ in found) == len(found)


def test_a_folder_of_splits_is_not_taken_for_one_of_classes(tmp_path):
    for split in ("train", "Val"):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / split / name / "one.png")
    with pytest.raises(DatasetError, match=r"splits of a dataset \(Val, train\)"):
        open_dataset(str(tmp_path))
    assert open_dataset(str(tmp_path / "Val")).classes == ("cat", "dog")


def test_whole_numbers_may_be_written_as_pandas_does(tmp_path):
    rows = [f"{number}.png,{number}.0" for number in range(12)]
    for number in range(12):
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    dataset = open_dataset(str(tmp_path))
    assert dataset.labels().tolist() == list(range(12))  # not 0.0, 1.0, 10.0, 11.0, 2.0 …
    assert not dataset.alphabetical
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows[:5], "5.png,"]))
    with pytest.raises(DatasetError, match=r"line 7 has no label"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"cat": 0, "dog": 0}',
        '{"cat": 1, "dog": 2}',
        '{"cat": "x"}',
        "[1, 2]",
        '"cat"',
        '{"cat": true}',
    ],
)
def test_a_class_file_in_json_that_lists_no_classes_is_refused(class_folders, text):
    folder, _ = class_folders
    (folder / "class_to_idx.json").write_text(text)
    with pytest.raises(DatasetError, match=r"class_to_idx\.json"):
        open_dataset(folder)


@pytest.mark.parametrize("labels", [[0.5, 1.0], [1.0, float("nan")], ["cat", "dog"]])
def test_labels_of_arrays_that_are_no_whole_numbers_are_refused_and_not_cut(labels):
    with pytest.raises(DatasetError, match="not integer class indices"):
        ArrayDataset(np.zeros((2, 3)), np.array(labels), name="own")
    assert ArrayDataset(np.zeros((2, 3)), np.array([0.0, 1.0]), name="own").labels().tolist() == [0, 1]
