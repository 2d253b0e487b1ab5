import os
import socket
import struct
import zipfile

import pytest

from zoolens import untrusted
from zoolens.untrusted import Refused, check_unpacked, open_archive, open_regular, read_bytes, read_entry, read_text


def test_regular_files_are_read_up_to_a_limit(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("ä\r\nb".encode())
    assert read_bytes(path, 6) == "ä\r\nb".encode()
    assert read_text(path, 6) == "ä\nb"
    with pytest.raises(Refused, match="more than the 4 bytes"):
        read_bytes(path, 4)


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


def test_a_file_without_end_that_calls_itself_regular_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 20)
    monkeypatch.setattr(untrusted, "MAX_FILE", (1 << 20) - 1)
    with pytest.raises(Refused, match="more than the 1,048,575 that a file may have"):
        open_regular(path)


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
    with pytest.raises(Refused, match="lies over another one"), open_archive(path):
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
