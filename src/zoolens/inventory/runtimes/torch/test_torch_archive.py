"""Torch's archives: what torch's zip reader could read differently from Python's is refused. No torch is needed."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.torch import torch_archive
from zoolens.inventory.runtimes.torch.torch_archive import _ends_with_index, check_pickle, opened, text_of

END = struct.Struct("<4sHHHHIIH")
END_64 = struct.Struct("<4sQHHIIQQQQ")
LOCATOR_64 = struct.Struct("<4sIQI")


def _bytes(entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _file(tmp_path, content):
    path = tmp_path / "net.pt"
    path.write_bytes(content)
    return path


def _names(path):
    with opened(path, "TorchScript") as (_, entries):
        return entries


def test_entries_are_named_inside_the_one_folder(tmp_path):
    path = _file(tmp_path, _bytes({"net/version": b"3\n", "net/code/a.py": b"pass", "net/data/0": b"\x01"}))
    with opened(path, "TorchScript") as (archive, entries):
        assert entries == {"version": "net/version", "code/a.py": "net/code/a.py", "data/0": "net/data/0"}
        assert text_of(archive, entries["code/a.py"]) == b"pass"


@pytest.mark.parametrize(
    "name", ["loose", "net/../a", "net/a..b", "net//a", "/net/a", "net\\a", "net/a\n", "net/ä", "net/a:b", "net/"]
)
def test_names_that_are_not_plain_are_refused(tmp_path, name):
    with pytest.raises(ModelError, match=r"carries an entry named .*which zoolens does not run") as caught:
        _names(_file(tmp_path, _bytes({"net/version": b"3", name: b""})))
    assert caught.value.hint == "Save it again with torch, and do not repack the archive."


def test_plain_names_of_every_character_pass(tmp_path):
    assert _names(_file(tmp_path, _bytes({"my-net_1.2+3 4/.data/x": b"", "my-net_1.2+3 4/y": b""}))) == {
        ".data/x": "my-net_1.2+3 4/.data/x",
        "y": "my-net_1.2+3 4/y",
    }


def test_two_folders_are_refused(tmp_path):
    with pytest.raises(ModelError, match="an archive of 2 folders instead of one"):
        _names(_file(tmp_path, _bytes({"net/a": b"", "other/a": b""})))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_differ_in_case_only_are_refused(tmp_path):
    with pytest.raises(ModelError, match="two entries"):
        _names(_file(tmp_path, _bytes({"net/a": b"", "net/A": b""})))


def test_a_name_that_differs_between_the_index_and_the_data_is_refused(tmp_path):
    whole = _bytes({"net/code.py": b"pass"})
    first = whole.index(b"net/code.py")
    changed = whole[:first] + b"net/evil.py" + whole[first + 11 :]
    with pytest.raises(ModelError, match=r"is not a TorchScript archive: File name in directory"):
        _names(_file(tmp_path, changed))


def _leave(path, error, kind="TorchScript"):
    with opened(path, kind):
        raise error


def test_what_is_no_archive_and_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(ModelError, match=r"net\.pt is not a torch\.export archive: ") as caught:
        _leave(_file(tmp_path, b"no archive at all"), AssertionError(), "torch.export")
    assert caught.value.hint == "Is it complete? Weights alone are the format torch-state-dict."
    path = _file(tmp_path, _bytes({"net/a": b""}))
    for error in (KeyError("there is no item"), EOFError("ended"), zipfile.BadZipFile("bad")):
        with pytest.raises(ModelError, match="is not a TorchScript archive"):
            _leave(path, error)
    with pytest.raises(ModelError, match=r"net\.pt cannot be read: No space left on device\."):
        _leave(path, OSError(28, "No space left on device"))
    with pytest.raises(ModelError, match=r"net\.pt cannot be read: odd\."):
        _leave(path, OSError("odd"))


def _text(path, entry):
    with opened(path, "TorchScript") as (archive, entries):
        return text_of(archive, entries[entry])


def test_an_entry_larger_than_texts_may_be_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_archive, "MAX_TEXT_BYTES", 1000)
    path = _file(tmp_path, _bytes({"net/code.py": bytes(1000), "net/large.py": bytes(1001)}))
    assert _text(path, "code.py") == bytes(1000)
    with pytest.raises(ModelError, match="unpacks to more than the 1,000 bytes"):
        _text(path, "large.py")


# --- the index


def _parts(entries=("net/a", "net/b", "net/c")):
    """The archive without its end record, and the fields of that record."""
    whole = _bytes(dict.fromkeys(entries, b"x" * 40))
    return whole[: -END.size], list(END.unpack(whole[-END.size :]))


def _judged(content):
    """Whether the end of these bytes says what Python found in the archive."""
    body, fields = _parts()
    with zipfile.ZipFile(io.BytesIO(body + END.pack(*fields))) as archive:
        return _ends_with_index(io.BytesIO(content), archive)


def test_an_index_at_the_end_passes():
    body, fields = _parts()
    assert _judged(body + END.pack(*fields)) is True


MARK, DISK, START_DISK, HERE, TOTAL, SIZE, OFFSET, COMMENT = range(8)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        (MARK, lambda value: b"PK\x05\x07"),
        (DISK, lambda value: 1),
        (START_DISK, lambda value: 1),
        (HERE, lambda value: value - 1),
        (TOTAL, lambda value: value + 1),
        (SIZE, lambda value: value - 1),
        (SIZE, lambda value: value + 1),
        (OFFSET, lambda value: value - 1),
        (COMMENT, lambda value: 1),
    ],
)
def test_an_end_record_that_says_otherwise_is_refused(field, change):
    body, fields = _parts()
    fields[field] = change(fields[field])
    assert _judged(body + END.pack(*fields)) is False


def test_counts_that_agree_with_each_other_and_not_with_the_index_are_refused():
    body, fields = _parts()
    fields[HERE] = fields[TOTAL] = 2
    assert _judged(body + END.pack(*fields)) is False


def test_another_index_of_the_same_end_is_refused():
    body, fields = _parts()
    fields[SIZE] -= 46
    fields[OFFSET] += 46
    assert _judged(body + END.pack(*fields)) is False


def test_bytes_after_the_index_are_refused():
    body, fields = _parts()
    assert _judged(body + b"x" + END.pack(*fields)) is False


def _large(change_record=None, change_locator=None, change_end=None, gap=b""):
    """The same archive with the records of a large one before its end."""
    body, fields = _parts()
    record = [b"PK\x06\x06", 44, 45, 45, 0, 0, fields[HERE], fields[TOTAL], fields[SIZE], fields[OFFSET]]
    locator = [b"PK\x06\x07", 0, len(body), 1]
    for changed, change in ((record, change_record), (locator, change_locator), (fields, change_end)):
        for place, value in (change or {}).items():
            changed[place] = value
    return body + END_64.pack(*record) + gap + LOCATOR_64.pack(*locator) + END.pack(*fields)


def test_the_records_of_a_large_archive_pass():
    assert _judged(_large()) is True
    assert _judged(_large(change_end={HERE: 0xFFFF, TOTAL: 0xFFFF, SIZE: 0xFFFFFFFF, OFFSET: 0xFFFFFFFF})) is True


@pytest.mark.parametrize(
    "content",
    [
        _large(change_record={0: b"PK\x06\x05"}),
        _large(change_record={4: 1}),
        _large(change_record={5: 1}),
        _large(change_record={6: 2}),
        _large(change_record={7: 2}),
        _large(change_record={6: 2}, change_end={HERE: 0xFFFF}),
        _large(change_record={6: 2, 7: 2}, change_end={HERE: 0xFFFF, TOTAL: 0xFFFF}),
        _large(change_record={8: 1}, change_end={SIZE: 0xFFFFFFFF}),
        _large(change_record={9: 1}, change_end={OFFSET: 0xFFFFFFFF}),
        _large(change_locator={2: 0}),
        _large(change_end={HERE: 0xFFFE}),
        _large(change_end={TOTAL: 0xFFFE}),
        _large(change_end={SIZE: 0xFFFE}),
        _large(change_end={OFFSET: 0xFFFE}),
        _large(change_end={SIZE: 0xFFFF}),
        _large(change_end={HERE: 1, TOTAL: 1}),
        _large(gap=b"x"),
    ],
)
def test_records_of_a_large_archive_that_say_otherwise_are_refused(content):
    assert _judged(content) is False


def test_a_small_archive_has_no_room_for_the_records_of_a_large_one():
    """The smallest one that can be: its index is looked at where it is, and nothing before the file."""
    body, fields = _parts(("n/a",))
    content = body + END.pack(*fields)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert _ends_with_index(io.BytesIO(content), archive) is True


def test_something_before_the_archive_is_refused(tmp_path):
    whole = _bytes({"net/a": b"", "net/b": b""})
    for changed in (b"#!/bin/sh\n" + whole, whole + b"\n"):
        with pytest.raises(ModelError, match=r"data before or after its archive|is not a"):
            _names(_file(tmp_path, changed))
    with pytest.raises(ModelError, match="data before or after its archive"):
        _names(_file(tmp_path, b"x" + whole))


# --- pickles


def _global(name):
    module, _, attribute = name.partition(" ")
    return b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + b"."


@pytest.mark.parametrize(
    "name",
    [
        "collections OrderedDict",
        "torch FloatStorage",
        "torch device",
        "torch Size",
        "torch QInt8Storage",
        "torch per_channel_affine",
        "torch._utils _rebuild_tensor_v2",
        "torch._utils _rebuild_qtensor",
        "torch.jit._pickle build_intlist",
        "torch.jit._pickle restore_type_tag",
        "__torch__ Net",
        "__torch__.torch.nn.modules.conv Conv2d",
        "__torch__.torch.classes.quantized Conv2dPackedParamsBase",
    ],
)
def test_names_of_containers_tensors_and_the_archives_own_classes_pass(tmp_path, name):
    check_pickle(tmp_path / "net.pt", "data.pkl", _global(name))


@pytest.mark.parametrize(
    "name",
    [
        "os system",
        "builtins eval",
        "collections OrderedDictX",
        "xcollections OrderedDict",
        "torch load",
        "torch.hub load",
        "torch._utils _rebuild_wrapper_subclass",
        "torch.jit._pickle build",
        "__torch__.torch.classes.dist_c10d Work",
        "__torch__.torch.classes Net",
        "__torch__x Net",
    ],
)
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(ModelError, match=r"net\.pt carries the Python name .* in data\.pkl") as caught:
        check_pickle(tmp_path / "net.pt", "data.pkl", _global(name))
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"(ios\nsystem\n.", "INST"),
        (pickle.dumps(len, 4), "STACK_GLOBAL"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02\x83\x01\x01.", "EXT2"),
        (b"\x80\x02\x84\x01\x01\x01\x01.", "EXT4"),
    ],
)
def test_instructions_that_name_things_otherwise_are_refused(tmp_path, content, words):
    with pytest.raises(ModelError, match=f"the pickle instruction {words} in data.pkl"):
        check_pickle(tmp_path / "net.pt", "data.pkl", content)


@pytest.mark.parametrize("content", [b"", b"\x80", b"\xff", b"X\x08\x00\x00\x00abc", b"\x80\x02ccollections"])
def test_a_damaged_pickle_is_said(tmp_path, content):
    with pytest.raises(ModelError, match=r"net\.pt has a damaged entry data\.pkl\."):
        check_pickle(tmp_path / "net.pt", "data.pkl", content)
