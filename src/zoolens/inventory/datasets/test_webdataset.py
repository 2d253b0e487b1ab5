"""WebDataset: grouping by base name, where labels are, and archives of strangers."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets import tar_members
from zoolens.inventory.datasets.imagefolder import open_image_folder
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.webdataset import open_webdataset


def png(shade=0):
    stream = io.BytesIO()
    Image.new("RGB", (4, 3), (shade, 0, 0)).save(stream, "png")
    return stream.getvalue()


def write(path, members, form=tarfile.USTAR_FORMAT):
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in members:
            content = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def opened(folder, *members, **options):
    return open_webdataset(str(write(folder / "a.tar", members)), **options)


def test_files_of_one_base_name_are_a_sample(tmp_path):
    dataset = opened(
        tmp_path,
        ("./x/1.png", png(7)),
        ("./x/1.cls", "2\n"),
        ("x/2.cls", "0"),
        ("x/2.PNG", png()),
        ("x/2.txt", "a cat"),
    )
    assert [sample.id for sample in dataset] == ["x/1", "x/2"]
    assert dataset.labels().tolist() == [2, 0]
    assert dataset.read(0).value[0, 0].tolist() == [7, 0, 0]
    assert dataset.read_encoded(0) == png(7)
    assert (dataset.classes, dataset.encoded, dataset.truth_kind) == (None, True, None)


def test_shards_are_in_the_order_of_their_names_and_may_count_from_nought_each(tmp_path):
    for name, shade in (("b", 2), ("a", 1)):
        write(tmp_path / f"{name}.tar", [("0.png", png(shade)), ("0.cls", str(shade))])
    dataset = open_dataset(tmp_path)
    assert [sample.id for sample in dataset] == ["a/0", "b/0"]
    assert dataset.labels().tolist() == [1, 2]


def test_the_fingerprint_is_that_of_the_same_images_in_a_folder(tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "x.png").write_bytes(png(3))
    dataset = opened(tmp_path, ("x.png", png(3)), ("x.cls", "0"))
    assert dataset.fingerprint() == open_image_folder(str(tmp_path)).fingerprint()


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_of_all_forms(tmp_path, form):
    name = f"{'folder/' * 20}{'n' * (90 if form == tarfile.USTAR_FORMAT else 150)}é"
    path = write(tmp_path / "a.tar", [(f"{name}.png", png()), (f"{name}.cls", "1")], form)
    assert open_webdataset(str(path)).read(0).id == name


def test_labels_in_json_and_in_text(tmp_path):
    sample = (("1.png", png()), ("1.json", json.dumps({"label": 3, "kind": "dog"})), ("1.txt", "dog"))
    assert opened(tmp_path, *sample).labels().tolist() == [3]
    named = opened(tmp_path, *sample, field="kind", classes="cat,dog")
    assert (named.labels().tolist(), named.classes, named.alphabetical) == ([1], ("cat", "dog"), False)
    assert opened(tmp_path, *sample, label="txt").classes == ("dog",)
    assert not opened(tmp_path, *sample, label="none").labelled
    # A caption is no class: nothing says that it is one.
    assert not opened(tmp_path, ("1.png", png()), ("1.txt", "A dog on a beach.")).labelled
    assert not opened(tmp_path, ("1.png", png()), ("1.json", '{"caption": "a dog"}')).labelled


def test_one_of_several_images_is_chosen(tmp_path):
    sample = (("1.jpg", png(1)), ("1.seg.png", png(2)), ("1.png", png(3)), ("1.cls", "0"))
    with pytest.raises(DatasetError, match=r"'1' has several images among its files \(cls, jpg, png, seg.png\)"):
        opened(tmp_path, *sample)
    assert opened(tmp_path, *sample, image="seg.png").read(0).value[0, 0, 0] == 2


def test_files_that_are_no_samples_are_counted(tmp_path):
    dataset = opened(tmp_path, ("._1.png", b"x"), ("README", b"x"), ("1.png", png()), ("1.cls", "0"))
    assert dataset.notes == ("files in the archives that belong to no sample are left out: 2",)


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([("1.png", png()), ("1.cls", "")], "the label of '1' is '', which is no class"),
        ([("1.png", png()), ("1.cls", "0"), ("2.png", png())], "the sample '2' has no .cls"),
        ([("1.cls", "0")], "the sample '1' has no image among its files"),
        ([("1.png", png()), ("2.png", png()), ("1.cls", "0")], "'1' do not follow each other"),
        ([("1.png", png()), ("2.png", png()), ("1.png", png())], "'1' do not follow each other"),
        ([("1.png", png()), ("1.png", png())], "two files '1.png'"),
        ([("../1.png", png())], "'../1.png' has a name that leads out of it"),
        ([("/etc/1.png", png())], "'/etc/1.png' has a name that leads out of it"),
        ([("README", "x")], "holds no samples"),
        ([("1.png", png()), ("1.json", "[1]")], "the .json of '1' is not an object"),
        ([("1.png", png()), ("1.json", "{")], "the .json of '1' is not JSON"),
        ([("1.png", png()), ("1.json", '{"label": 1.5}')], "has no class in 'label'"),
    ],
)
def test_bad_samples_are_explained(tmp_path, members, sentence):
    with pytest.raises(DatasetError, match=sentence):
        opened(tmp_path, *members)


def test_an_image_that_is_none_is_named(tmp_path):
    dataset = opened(tmp_path, ("1.png", b"not a picture"), ("1.cls", "0"))
    with pytest.raises(DatasetError, match=r"1 in .*a.tar is not an image of a known kind"):
        dataset.read(0)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_pipes_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("1.png")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DatasetError, match=r"'1.png' is (a link|of the kind '6')"):
        open_webdataset(str(tmp_path / "a.tar"))


def good(folder):
    return write(folder / "a.tar", [("1.png", png()), ("1.cls", "0")]).read_bytes()


def refused(folder, content):
    (folder / "a.tar").write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        open_webdataset(str(folder / "a.tar"))
    return str(caught.value)


def test_damaged_archives_are_explained(tmp_path):
    content = good(tmp_path)
    assert "it ends in the middle of the member at byte 0" in refused(tmp_path, content[:530])
    assert "it has no end: it was cut off" in refused(tmp_path, content[:600])
    assert "it has no end: it was cut off" in refused(tmp_path, content[:2048])
    assert "ends in the middle of a header" in refused(tmp_path, content[:300])
    assert "no tar archive, or is damaged, at byte 0" in refused(tmp_path, b"x" + content[1:])
    assert "no tar archive" in refused(tmp_path, b"some text " * 100)
    assert "it is compressed" in refused(tmp_path, gzip.compress(np.random.default_rng(0).bytes(2000)))
    assert "archives cannot be joined with cat" in refused(tmp_path, content + content)
    assert "it has no end" in refused(tmp_path, b"")
    assert "holds no samples" in refused(tmp_path, bytes(1024))


def test_a_size_beyond_the_file_is_refused(tmp_path):
    content = bytearray(good(tmp_path))
    content[124:136] = b"\x80" + (1 << 60).to_bytes(11, "big")
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    assert "it ends in the middle of the member at byte 0" in refused(tmp_path, bytes(content))


def test_extended_headers_are_read_up_to_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(tar_members, "_MAX_EXTENDED", 100)
    path = write(tmp_path / "a.tar", [(f"{'n' * 150}.png", png())], tarfile.PAX_FORMAT)
    with pytest.raises(DatasetError, match="more than the 100 that are read"):
        open_webdataset(str(path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"holds no .tar archives"):
        open_webdataset(str(tmp_path / "empty"))
