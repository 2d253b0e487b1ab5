"""An indexer that is killed with -9 at any moment goes on from where it was, and the index ends as if nothing had."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from zoolens.base.paths import cache_dir
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.index.opener import build_index
from zoolens.findings.index.signatures.semantic import open_semantic

MODELS, PROBES = 40, 400

BUILD = """
import sys, time
from zoolens.findings.index.signatures import journal
from zoolens.findings.index.opener import build_index
write = journal.Journal.append
def slowly(self, kind, payload):
    # Half a record, a pause in which we are killed, or the whole record over it.
    with self.path.open("r+b") as file:
        file.seek(self.end)
        file.write(journal.framed(kind, payload)[: len(payload) // 2])
    print("half", flush=True)
    time.sleep(0.02)
    return write(self, kind, payload)
journal.Journal.append = slowly
build_index(sys.argv[1])
"""


@pytest.fixture
def filled(home, tmp_path):
    labels = np.arange(PROBES) % 10
    given = [np.random.default_rng(seed).integers(0, 10, PROBES) for seed in range(MODELS)]
    with open_store(tmp_path / "store.sqlite") as store:
        for seed in range(MODELS):
            write_run(store, f"net{seed:02}", one_hot(given[seed]), labels)
    return tmp_path / "store.sqlite", given


def build_and_kill(store, halves):
    """Killed in the middle of writing the record of this number."""
    process = subprocess.Popen([sys.executable, "-c", BUILD, str(store)], stdout=subprocess.PIPE)
    for _ in range(halves):
        assert process.stdout.readline() == b"half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


class Watcher:
    read = 0

    def begin(self, title, stage, total, unit=""): ...

    def advance(self, steps):
        self.read += steps

    def end(self): ...

    def say(self, text):
        raise AssertionError(text)  # a torn tail is no damage


@pytest.mark.slow  # files of the index that were torn are read in the quick suite: index/signatures/test_journal.py
def test_a_killed_indexer_resumes(filled):
    store, given = filled
    kills = [1, 6, 2, 13]
    sizes = []
    for halves in kills:
        build_and_kill(store, halves)
        (path,) = (cache_dir() / "index").rglob("*.zli")
        sizes.append(path.stat().st_size)
    assert sizes == sorted(sizes)
    watcher = Watcher()
    with open_store(store) as opened:
        index = build_index(opened, progress=watcher)
    # Each kill cost the record being written, unless that was finished before the kill came.
    assert MODELS - sum(kills) <= watcher.read <= MODELS - sum(kills) + len(kills)
    assert len(index) == len(index.semantic) == MODELS
    for row in (0, 17, MODELS - 1):
        np.testing.assert_array_equal(index.agreement(row), [np.mean(one == given[row]) for one in given])


INSERT = """
import sys, numpy as np
from pathlib import Path
from zoolens.findings.index.signatures.semantic import open_semantic
index = open_semantic(Path(sys.argv[1]), dataset="d", probes=2000)
print("begun", flush=True)
for number in range(100_000):
    key = number % 50
    index.insert(f"{sys.argv[2]}{key}", np.full(2000, key))
"""


def test_writers_killed_while_they_write_and_compact_leave_only_whole_signatures(home, tmp_path):
    path = tmp_path / "x.zli"
    moments = random.Random(1)
    for _ in range(3):
        writers = [
            subprocess.Popen([sys.executable, "-c", INSERT, str(path), name], stdout=subprocess.PIPE) for name in "ab"
        ]
        for writer in writers:
            writer.stdout.readline()
        time.sleep(moments.uniform(0.05, 0.3))
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
            writer.stdout.close()
        said = []
        index = open_semantic(path, dataset="d", probes=2000, say=said.append)
        assert said == []
        assert len(index) > 0
        for key in index.keys:
            assert (index.answers(key) == int(key[1:])).all()
