import asyncio
import os

import pytest

from zoolens.faces.serving.plane.data_plane import Plane
from zoolens.faces.serving.services.definition import ServiceError
from zoolens.faces.serving.services.memory_limit import follow_memory_limit, read_memory_limit


class Recorded:
    def __init__(self):
        self.sentences = []

    def record(self, service, entry):
        self.sentences.append(entry.reason)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.max"


@pytest.mark.parametrize("text", ["", "200M", "-5", "0", "1" * 5000, "٣٤"])
def test_what_is_no_limit_is_not_taken_for_the_absence_of_one(path, text):
    path.write_text(text)
    with pytest.raises(ServiceError, match="memory limit"):
        read_memory_limit(path)


def test_files_that_never_end_or_are_no_text_are_refused(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    path.write_bytes(b"\xff\xfe")
    for file in (tmp_path / "pipe", tmp_path / "missing", tmp_path, path):
        with pytest.raises(ServiceError, match="cannot be read"):
            read_memory_limit(file)


def test_a_limit_or_none(path):
    path.write_text("max\n")
    assert read_memory_limit(path) is None
    path.write_text("1048576\n")
    assert read_memory_limit(path) == 1 << 20


def test_the_last_limit_holds_while_the_file_is_unreadable_and_the_least_of_two_files_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("zoolens.faces.serving.services.memory_limit._EVERY", 0.01)
    files = [tmp_path / "a", tmp_path / "b"]

    async def main():
        plane = Plane(memory_limit=900)
        log = Recorded()

        async def until(limit):
            while plane.pool.memory_limit != limit:
                await asyncio.sleep(0.005)

        async def until_said(sentence):
            while not any(sentence in said for said in log.sentences):
                await asyncio.sleep(0.005)

        for file, text in zip(files, ("500", "700"), strict=True):
            file.write_text(text)
        tasks = [asyncio.create_task(follow_memory_limit(plane, str(file), log, file.name)) for file in files]
        await until(500)
        for broken in (b"", b"\xff", b"9" * 5000):
            log.sentences.clear()
            files[0].write_bytes(broken)
            await until_said("What it said last still holds.")
            assert plane.pool.memory_limit == 500
        files[0].write_text("max")
        await until(700)
        files[1].write_text("max")
        await until(900)
        files[1].write_text("100")
        await until(100)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert plane.pool.memory_limit == 900
        await plane.close()

    asyncio.run(asyncio.wait_for(main(), 30))
