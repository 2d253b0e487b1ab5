import errno
import io
import os
import socket
import struct
import tracemalloc
import zipfile

import pytest

from zoolens.base.safety import untrusted
from zoolens.base.safety.untrusted import (
    Refused,
    check_unpacked,
    open_archive,
    open_entry,
    open_regular,
    parse_json,
    read_bytes,
    read_entry,
    read_limited,
    read_text,
)


def test_regular_files_are_read_up_to_a_limit(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("ä\r\nb".encode())
    assert read_bytes(path, 6) == "ä\r\nb".encode()
    assert read_text(path, 6) == "ä\nb"
    with pytest.raises(Refused, match=r"^it has more than the 4 bytes") as caught:
        read_bytes(path, 4)
    assert caught.value.errno == errno.EINVAL
    path.write_bytes(b"a\rb")
    assert read_text(path, 3) == "a\nb"
    large = os.urandom(3 << 20)
    path.write_bytes(large)
    assert read_bytes(path, 3 << 20) == large


def test_a_file_that_is_too_long_is_not_read_at_all(tmp_path):
    path = tmp_path / "holes"
    with path.open("wb") as file:
        file.truncate(1 << 32)
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="more than the 67,108,864 bytes"):
            read_bytes(path, 1 << 26)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_links_are_judged_by_what_they_lead_to(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "good").symlink_to("a")
    (tmp_path / "bad").symlink_to("/dev/zero")
    assert read_bytes(tmp_path / "good", 1) == b"1"
    with pytest.raises(Refused, match="it is a device"):
        read_bytes(tmp_path / "bad", 1)
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "good", follow_links=False)


def test_pipes_sockets_folders_and_impossible_names_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name, kind in (("pipe", "a pipe"), ("socket", "a socket"), ("", "a folder")):
            with pytest.raises(Refused, match=kind):
                open_regular(tmp_path / name)
    with pytest.raises(Refused, match="not one that a file can have"):
        open_regular("a\0b")
    assert not untrusted.is_file(tmp_path / "a\0b")
    assert not untrusted.is_file(tmp_path / ("a" * 5000))
    with pytest.raises(Refused, match="it is something else, not"):
        untrusted._check(os.stat_result([0] * 10))


def test_a_pipe_that_takes_the_place_of_a_file_is_refused_and_nothing_waits(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(untrusted, "size_of", lambda path: 0)  # as if a file had been there a moment ago
    with pytest.raises(Refused, match="a pipe"):
        open_regular(tmp_path / "pipe")


def test_a_terminal_does_not_become_ours(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"1")
    given, opened = [], os.open
    monkeypatch.setattr(os, "open", lambda path, flags: given.append(flags) or opened(path, flags))
    open_regular(tmp_path / "a").close()
    assert given == [os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY]


def test_a_file_without_end_that_calls_itself_regular_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 20)
    monkeypatch.setattr(untrusted, "MAX_FILE", (1 << 20) - 1)
    with pytest.raises(Refused, match="more than the 1,048,575 that a file may have"):
        open_regular(path)
    monkeypatch.setattr(untrusted, "MAX_FILE", 1 << 20)
    open_regular(path).close()


def archive_of(path, **entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def test_an_archive_may_unpack_to_a_multiple_of_its_size(tmp_path):
    path = archive_of(tmp_path / "a.zip", small="hello", zeros=bytes(1 << 20))
    with open_archive(path) as archive:
        assert check_unpacked(archive) == (1 << 20) + 5
        assert read_entry(archive, "small", 5) == b"hello"
        with pytest.raises(Refused, match="'zeros' unpacks to more than the 1,000 bytes"):
            read_entry(archive, "zeros", 1000)
        with pytest.raises(Refused, match="unpacks to more than 100,000 bytes"):
            check_unpacked(archive, 100_000)
        assert check_unpacked(archive, (1 << 20) + 5) == (1 << 20) + 5


def test_the_ratio_counts_where_an_archive_is_larger_than_what_every_one_may_have(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "UNPACKED_AT_LEAST", 1)
    with open_archive(archive_of(tmp_path / "a.zip", noise=os.urandom(5000))) as archive:
        assert check_unpacked(archive) == 5000
    path = archive_of(tmp_path / "b.zip", zeros=bytes(5000))
    with open_archive(path) as archive, pytest.raises(Refused, match="unpacks to more than"):
        check_unpacked(archive)


def test_entries_of_several_chunks_and_with_extra_fields_are_sound(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo("zeros")
        entry.extra, entry.compress_type = struct.pack("<HH4s", 0x7777, 4, b"abcd"), zipfile.ZIP_DEFLATED
        archive.writestr(entry, bytes(3 << 20))
        archive.writestr("noise", os.urandom(3 << 20))
    with open_archive(tmp_path / "a.zip") as archive:
        assert check_unpacked(archive) == 6 << 20


def changed(path, **fields):
    """The archive at `path` with fields of its last index entry overwritten."""
    places = {"compress_size": 20, "file_size": 24, "header_offset": 42}
    data = bytearray(path.read_bytes())
    for name, value in fields.items():
        struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + places[name], value)
    path.write_bytes(data)
    return path


def test_a_size_that_ends_where_a_chunk_does_is_not_believed_either(tmp_path):
    path = changed(archive_of(tmp_path / "a.zip", zeros=bytes(2 << 20)), file_size=1 << 20)
    with open_archive(path) as archive, pytest.raises(Refused, match="does not unpack to the 1,048,576 bytes"):
        check_unpacked(archive)


def test_an_entry_that_is_cut_short_is_refused(tmp_path):
    path = changed(archive_of(tmp_path / "a.zip", zeros=bytes(1 << 20)), compress_size=100)
    with open_archive(path) as archive, pytest.raises(Refused, match="does not unpack to"):
        check_unpacked(archive)


def test_an_entry_that_is_not_where_the_index_says_is_refused(tmp_path):
    path = archive_of(tmp_path / "a.zip", one=b"x" * 100)
    path.write_bytes(path.read_bytes().replace(b"PK\x03\x04", b"QQ\x03\x04"))
    with open_archive(path) as archive, pytest.raises(zipfile.BadZipFile, match="not where the index says"):
        check_unpacked(archive)


def test_stored_entries_have_one_size_and_a_place_of_their_own(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("one", "two"):
            archive.writestr(name, b"x" * 100)
    sound = (tmp_path / "a.zip").read_bytes()
    with open_archive(tmp_path / "a.zip") as archive:
        assert check_unpacked(archive) == 200
    with pytest.raises(Refused, match="has two sizes"), open_archive(changed(tmp_path / "a.zip", file_size=99)):
        pass
    (tmp_path / "a.zip").write_bytes(sound)
    with pytest.raises(Refused, match="overlaps"), open_archive(changed(tmp_path / "a.zip", header_offset=60)):
        pass


def test_so_many_entries_and_no_more_and_long_names_are_cut(tmp_path, monkeypatch):
    path = archive_of(tmp_path / "a.zip", one=b"1", **{"n" * 100: b"x" * 100})
    monkeypatch.setattr(untrusted, "MAX_ENTRIES", 2)
    with open_archive(path) as archive, pytest.raises(Refused, match=f"its entry '{'n' * 80}' unpacks"):
        read_entry(archive, "n" * 100, 10)
    with open_archive(changed(path, file_size=3)) as archive, pytest.raises(Refused, match=f"entry '{'n' * 80}' does"):
        check_unpacked(archive)
    monkeypatch.setattr(untrusted, "MAX_ENTRIES", 1)
    with pytest.raises(Refused, match="it has 2 entries"), open_archive(path):
        pass


def test_sizes_are_counted_not_believed(tmp_path):
    path = archive_of(tmp_path / "a.zip", zeros=bytes(1 << 20))
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 24, 100)  # the index now claims 100 bytes
    path.write_bytes(data)
    with open_archive(path) as archive, pytest.raises(Refused, match="does not unpack to the 100 bytes"):
        check_unpacked(archive)


def test_entries_over_each_other_and_named_twice_are_refused(tmp_path):
    path = archive_of(tmp_path / "a.zip", one=b"x" * 100, two=b"x" * 100)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 42, 0)  # both lie at the first one's place
    path.write_bytes(data)
    with pytest.raises(Refused, match="overlaps another one"), open_archive(path):
        pass
    path.write_bytes(archive_of(tmp_path / "b.zip", one=b"1", two=b"2").read_bytes().replace(b"two", b"one"))
    with pytest.raises(Refused, match="two entries named 'one'"), open_archive(path):
        pass
    path.write_bytes(archive_of(tmp_path / "c.zip", one=b"1", ONE=b"2").read_bytes())
    with open_archive(path) as archive:
        assert len(archive.namelist()) == 2
    with pytest.raises(Refused, match="two entries named"), open_archive(path, ignore_case=True):
        pass


def test_rare_and_encrypted_entries_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("one", b"1" * 100)
    with pytest.raises(Refused, match="packed in a way"), open_archive(tmp_path / "a.zip"):
        pass
    data = bytearray(archive_of(tmp_path / "b.zip", one=b"1").read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "b.zip").write_bytes(data)
    with pytest.raises(Refused, match="encrypted"), open_archive(tmp_path / "b.zip"):
        pass


def _changed(path, change):
    """A zip archive of one packed entry, changed where its name and bytes stand."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("text", b"some text, and some text again" * 9)
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)
    return path


def _bytes_that_are_not_packed(content):
    content[34:42] = b"\xff" * 8


def _another_name_that_is_none(content):
    content[7] |= 8  # the flag: names are UTF-8
    content[30:34] = b"\xff\xfe\xfd\xfc"


@pytest.mark.parametrize("change", [_bytes_that_are_not_packed, _another_name_that_is_none])
def test_an_entry_that_is_damaged_is_said_to_be(tmp_path, change):
    path = _changed(tmp_path / "a.zip", change)
    with open_archive(path) as archive, pytest.raises(zipfile.BadZipFile, match=r"^its entry 'text' is damaged$"):
        read_entry(archive, "text", 1000)
    with open_archive(path) as archive, pytest.raises(zipfile.BadZipFile, match=r"^its entry 'text' is damaged$"):
        _read(archive, archive.getinfo("text"))


def _read(archive, entry):
    with open_entry(archive, entry) as stream:
        return stream.read()


def test_a_sound_entry_is_read_by_name_and_by_what_the_index_says(tmp_path):
    with open_archive(_changed(tmp_path / "a.zip", lambda content: None)) as archive:
        assert (
            _read(archive, "text") == _read(archive, archive.getinfo("text")) == b"some text, and some text again" * 9
        )
        with pytest.raises(KeyError):
            _read(archive, "absent")


# --- streams and JSON


def test_a_stream_may_have_as_many_bytes_as_its_limit_and_not_one_more():
    assert read_limited(io.BytesIO(b"12345"), 5) == b"12345"
    with pytest.raises(Refused, match=r"^it has more than the 5 bytes that are read"):
        read_limited(io.BytesIO(b"123456"), 5)


def test_json_may_have_as_many_values_as_its_limit():
    assert parse_json(b'{"a": [1, 2]}', most_values=3) == {"a": [1, 2]}  # "{", "[" and ","
    with pytest.raises(ValueError, match=r"^it has more than 2 values$"):
        parse_json(b'{"a": [1, 2]}', most_values=2)


@pytest.mark.parametrize(("value", "signs"), [(b"[]", 8), (b"{}", 8), (b"1", 4)])
def test_lists_objects_and_plain_values_count_alike(value, signs):
    text = b"[" + b",".join([value] * 4) + b"]"
    assert len(parse_json(text, most_values=signs)) == 4
    with pytest.raises(ValueError, match=rf"^it has more than {signs - 1} values$"):
        parse_json(text, most_values=signs - 1)


def test_json_that_is_nested_too_deeply_is_a_value_error():
    with pytest.raises(ValueError, match=r"^it is nested too deeply$"):
        parse_json(b"[" * 100_000 + b"]" * 100_000)


def test_json_with_eight_million_values_is_refused_before_it_is_parsed():
    with pytest.raises(ValueError, match=r"^it has more than 8,388,608 values$"):
        parse_json(b"," * ((1 << 23) + 1))
    with pytest.raises(ValueError, match="Expecting value"):
        parse_json(b"," * (1 << 23))
