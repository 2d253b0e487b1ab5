"""Folders of save_to_disk, written here as the datasets library writes them: streams of Arrow and two JSON files."""

import io
import json

import pyarrow as pa
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.saved import open_saved

FEATURES = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}


def png(shade=0):
    stream = io.BytesIO()
    Image.new("RGB", (4, 3), (shade, 0, 0)).save(stream, "png")
    return stream.getvalue()


def table(shades, labels, **more):
    images = [{"bytes": png(shade), "path": f"{shade}.png"} for shade in shades]
    made = pa.table({"image": images, "label": labels, **more})
    return made.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})})


def write_arrow(path, content, **options):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, content.schema, **options) as stream:
        stream.write_table(content, max_chunksize=2)


def write(folder, *tables, state=None):
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{number:05}-of-{len(tables):05}.arrow" for number in range(len(tables))]
    for name, content in zip(names, tables, strict=True):
        write_arrow(folder / name, content)
    files = [{"filename": name} for name in names]
    (folder / "state.json").write_text(json.dumps({"_data_files": files, **(state or {})}))
    (folder / "dataset_info.json").write_text("{}")
    return str(folder)


def test_images_labels_and_names_of_classes(tmp_path):
    dataset = open_dataset(write(tmp_path / "pets", table([1, 2, 3], [0, 1, 1]), table([4], [0])))
    assert (dataset.name, dataset.classes, dataset.alphabetical) == ("pets", ("cat", "dog"), False)
    assert dataset.labels().tolist() == [0, 1, 1, 0]
    assert [int(sample.value[0, 0, 0]) for sample in dataset] == [1, 2, 3, 4]
    dataset.close()


def test_labels_of_more_than_two_gibibytes_are_one_sentence(tmp_path, monkeypatch):
    class TooLong:
        """What pyarrow does with a chunk of large strings that no 32-bit offsets reach."""

        type, chunks = pa.large_string(), ()

        def column(self, name):
            return self

        def validate(self, full):
            pass

        def cast(self, kind):
            raise pa.ArrowInvalid("input array too large")

    monkeypatch.setattr(pa, "concat_tables", lambda tables: TooLong())
    with pytest.raises(DatasetError, match=r"The labels of .* cannot be read: input array too large"):
        open_saved(write(tmp_path, table([1], [0])))


def test_splits(tmp_path):
    for name in ("train", "test"):
        write(tmp_path / "pets" / name, table([1], [0]))
    (tmp_path / "pets" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DatasetError, match="has the splits train, test. Say which".replace(".", r"\.")):
        open_dataset(tmp_path / "pets")
    assert open_saved(str(tmp_path / "pets"), split="test").name == "pets test"


def test_words_as_labels_and_arrays_as_inputs(tmp_path):
    made = pa.table({"data": [[1.0, 2.0], [3.0, 4.0]], "label": ["dog", "cat"]})
    dataset = open_saved(write(tmp_path, made))
    assert (dataset.classes, dataset.labels().tolist()) == (("cat", "dog"), [1, 0])
    assert dataset.read(1).value.tolist() == [3.0, 4.0]
    assert not open_saved(write(tmp_path, made), y="none").labelled


def test_a_file_alone_in_both_forms_of_arrow(tmp_path):
    content = table([1, 2, 3], [0, 1, 0])
    write_arrow(tmp_path / "stream.arrow", content)
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as file, pa.ipc.new_file(file, content.schema) as to:
        to.write_table(content, max_chunksize=2)
    for name in ("stream", "file"):
        dataset = open_dataset(tmp_path / f"{name}.arrow")
        assert [int(sample.value[0, 0, 0]) for sample in dataset] == [1, 2, 3]


def test_files_of_several_splits_are_not_joined(tmp_path):
    for name in ("pets-train", "pets-test"):
        write_arrow(tmp_path / f"{name}.arrow", table([1], [0]))
    with pytest.raises(DatasetError, match="has 2 .arrow files and no state.json".replace(".", r"\.")):
        open_saved(str(tmp_path))


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"_indices_data_files": [{"filename": "indices.arrow"}]}, "a list of chosen rows"),
        ({"_data_files": []}, "lists no files"),
        ({"_data_files": [{"filename": "../other.arrow"}]}, "'../other.arrow', which leads out"),
        ({"_data_files": [{"filename": "gone.arrow"}]}, r"gone.arrow cannot be read as Arrow: No such file"),
    ],
)
def test_bad_states_are_explained(tmp_path, state, sentence):
    with pytest.raises(DatasetError, match=sentence):
        open_saved(write(tmp_path, table([1], [0]), state=state))


def test_damaged_packed_and_strange_files_are_explained(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(path, table([1, 2, 3], [0, 1, 0]))
    whole = path.read_bytes()
    for content in (b"", b"some words", whole[: len(whole) // 2], whole[:20], whole[:8] + bytes(200)):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match="cannot be read"):
            open_saved(str(path)).read(0)
    write_arrow(path, table([1], [0]), options=pa.ipc.IpcWriteOptions(compression="zstd"))
    with pytest.raises(DatasetError, match="its batches are compressed"):
        open_saved(str(path))
    write_arrow(path, pa.table({"x": [1], "label": pa.array(["a"]).dictionary_encode()}))
    with pytest.raises(DatasetError, match="write columns without dictionaries"):
        open_saved(str(path))


def test_images_that_are_only_paths_are_refused(tmp_path):
    made = pa.table({"image": pa.array([{"bytes": None, "path": "/x.png"}]), "label": [0]})
    made = made.cast(
        pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())])
    )
    with pytest.raises(DatasetError, match="embed the image's bytes"):
        open_saved(write(tmp_path, made)).read(0)


def test_a_file_that_begins_with_another_message_is_refused_before_pyarrow_takes_it_for_a_schema(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(path, table([1], [0]))
    whole = path.read_bytes()
    path.write_bytes(whole[8 + int.from_bytes(whole[4:8], "little") :])
    with pytest.raises(DatasetError, match="does not begin with a schema"):
        open_saved(str(path))
