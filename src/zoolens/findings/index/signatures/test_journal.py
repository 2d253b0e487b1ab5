"""The index file survives what may happen to a file: cut anywhere, altered anywhere, written by two at once."""

import struct
import subprocess
import sys
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.findings.index.signatures.journal import MAGIC, REMOVED, SIGNATURE, Damaged, Journal

ABOUT = {"task": "classification", "dataset": "d", "probes": 3}
PAYLOADS = [b"first", b"", b"the third one is longer", b"\0" * 9]


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "x.zli", ABOUT)
    made.rewrite([])
    made.catch_up()
    for payload in PAYLOADS:
        made.append(SIGNATURE, payload)
    return made


def payloads(journal, places):
    return [bytes(journal.content[place.start : place.stop]).rstrip(b"\0") for place in places]


def read(path, about=ABOUT):
    other = Journal(path, about)
    places, _ = other.catch_up()
    return payloads(other, places)


EXPECTED = [payload.rstrip(b"\0") for payload in PAYLOADS]


def test_what_is_written_is_read_back(journal):
    assert read(journal.path) == EXPECTED


def test_a_file_cut_at_any_byte_has_the_complete_records_or_is_damaged(journal, tmp_path):
    whole = journal.path.read_bytes()
    first = whole.index(b"first") - 16
    for length in range(len(whole)):
        cut = tmp_path / "cut.zli"
        cut.write_bytes(whole[:length])
        if length < first:
            with pytest.raises(Damaged):
                read(cut)
            continue
        found = read(cut)
        assert found == EXPECTED[: len(found)]
        assert len(found) < len(EXPECTED)
        writer = Journal(cut, ABOUT)
        writer.catch_up()
        writer.append(SIGNATURE, b"after")
        assert read(cut) == [*found, b"after"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_an_altered_byte_is_found_wherever_it_is(tmp_path_factory, data):
    journal = Journal(tmp_path_factory.mktemp("flip") / "x.zli", ABOUT)
    journal.rewrite([(SIGNATURE, payload) for payload in PAYLOADS])
    content = bytearray(journal.path.read_bytes())
    places = data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3, unique=True))
    for place in places:
        content[place] ^= data.draw(st.integers(1, 255))
    journal.path.write_bytes(bytes(content))
    with pytest.raises(Damaged):
        read(journal.path)


@given(content=st.binary(max_size=200), begin=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_content_does_more_than_be_damaged(tmp_path_factory, content, begin):
    path = tmp_path_factory.mktemp("any") / "x.zli"
    path.write_bytes((MAGIC if begin else b"") + content)
    with pytest.raises(Damaged):
        read(path)


def test_a_huge_length_allocates_nothing(journal):
    import zlib

    head = struct.pack("<IIB3x", 0xFFFFFFF8, 0, SIGNATURE)
    with journal.path.open("ab") as file:
        file.write(head + struct.pack("<I", zlib.crc32(head)))
    assert read(journal.path) == EXPECTED  # as if torn


def test_a_record_of_crooked_length_is_damage_however_well_it_is_signed(journal):
    head = struct.pack("<IIB3x", 5, zlib.crc32(b"12345"), SIGNATURE)
    with journal.path.open("ab") as file:
        file.write(head + struct.pack("<I", zlib.crc32(head)) + b"12345")
    with pytest.raises(Damaged):  # whatever followed would not lie where arrays can be read
        read(journal.path)


def test_an_index_of_other_data_is_not_taken(journal):
    with pytest.raises(Damaged, match="another"):
        read(journal.path, {**ABOUT, "dataset": "other"})


def test_a_reader_sees_what_others_append_and_that_the_file_was_replaced(journal):
    reader = Journal(journal.path, ABOUT)
    reader.catch_up()
    journal.append(REMOVED, b"more")
    places, replaced = reader.catch_up()
    assert (payloads(reader, places), replaced) == ([b"more"], False)
    assert reader.catch_up() == ([], False)
    old = reader.content
    journal.rewrite([(SIGNATURE, b"only")])
    places, replaced = reader.catch_up()
    assert (payloads(reader, places), replaced) == ([b"only"], True)
    assert b"the third one" in bytes(old)  # still readable for who holds it


def test_a_torn_tail_is_ignored_by_readers_and_cut_by_the_next_writer(journal):
    reader = Journal(journal.path, ABOUT)
    reader.catch_up()
    with journal.path.open("ab") as file:
        file.write(b"\x01\x02\x03")
    assert reader.catch_up() == ([], False)
    journal.append(SIGNATURE, b"next")
    places, _ = reader.catch_up()
    assert payloads(reader, places) == [b"next"]


def test_a_failed_rewrite_leaves_the_file_and_no_litter(journal):
    def broken():
        yield SIGNATURE, b"x"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        journal.rewrite(broken())
    assert read(journal.path) == EXPECTED
    assert {path.name for path in journal.path.parent.iterdir()} <= {"x.zli", "x.zli.lock"}


WRITER = """
import sys
from pathlib import Path
from zoolens.findings.index.signatures.journal import Journal, SIGNATURE
journal = Journal(Path(sys.argv[1]), {"task": "classification", "dataset": "d", "probes": 3})
for number in range(60):
    with journal.alone():
        journal.catch_up()
        journal.append(SIGNATURE, f"{sys.argv[2]}{number}".encode())
"""


def test_two_writers_lose_nothing(tmp_path):
    path = tmp_path / "x.zli"
    Journal(path, ABOUT).rewrite([])
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "ab"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert sorted(read(path)) == sorted(f"{name}{number}".encode() for name in "ab" for number in range(60))
    assert path.stat().st_size % 8 == 0
