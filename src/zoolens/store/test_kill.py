"""A writer killed at any moment loses nothing that was stored and doubles nothing when it is run again."""

import random
import subprocess
import sys
import time

import pytest

from zoolens.store.records import Observation
from zoolens.store.store import open_store
from zoolens.testing.postgres import postgres_server
from zoolens.testing.store_records import begin, some_rows

PARTS = 120
PARTS_A_STAGE = 6
OBSERVATIONS_A_STAGE = 20


def write(target):
    """Resumes where an earlier call was killed, as an evaluation does."""
    with open_store(target) as store:
        run = begin(store)
        there = {part.part for part in store.parts(run.id, "predictions")}
        for part in range(PARTS):
            if part not in there:
                store.add_part(run.id, "predictions", part, some_rows(part))
                print(part, flush=True)
            stage = f"stage{part // PARTS_A_STAGE}"
            if part % PARTS_A_STAGE == PARTS_A_STAGE - 1 and stage not in run.stages:
                store.finish_stage(run.id, stage, observations_of(part // PARTS_A_STAGE))


def observations_of(stage):
    return [Observation(f"metric{stage}", i / 7, scope=f"class={i}") for i in range(OBSERVATIONS_A_STAGE)]


def start_writer(target):
    code = "import sys; from zoolens.store.test_kill import write; write(sys.argv[1])"
    return subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)


def check_consistent(target):
    """Whatever is visible is whole: parts verify, and a stage is done with all its observations or not at all."""
    with open_store(target) as store:
        for run in store.runs():
            for table, part in zip(
                store.iter_tables(run.id, "predictions"), store.parts(run.id, "predictions"), strict=True
            ):
                assert table == some_rows(part.part)
            for stage in range(PARTS // PARTS_A_STAGE):
                expected = observations_of(stage) if f"stage{stage}" in run.stages else []
                assert store.observations(run.id, metric=f"metric{stage}") == expected


def kill_repeatedly(target, kills, seed):
    """Kill a writer some parts after it started, anywhere within the work on the next one."""
    moments = random.Random(seed)
    for _ in range(kills):
        with start_writer(target) as writer:
            for _ in range(moments.randint(1, PARTS // (2 * kills))):
                writer.stdout.readline()
            time.sleep(moments.uniform(0, 0.008))
            writer.kill()
        check_consistent(target)


def content(target):
    with open_store(target) as store:
        [run] = store.runs()
        return (
            run.id,
            store.table(run.id, "predictions"),
            sorted(store.observations(run.id), key=lambda o: (o.metric, o.scope)),
            run.stages,
        )


def check_survives(target, undisturbed, kills):
    kill_repeatedly(target, kills, seed=kills)
    with open_store(target) as store:
        assert kills <= len(store.parts(store.run("last").id, "predictions")) < PARTS
    write(target)
    write(undisturbed)
    assert content(target) == content(undisturbed)
    with open_store(target) as store:
        store.sweep(older_than=0)
        assert len(list(store.bulk_dir.glob("*/*"))) == PARTS


def test_a_killed_writer_on_sqlite(tmp_path):
    check_survives(tmp_path / "killed.sqlite", tmp_path / "undisturbed.sqlite", kills=10)


@pytest.mark.postgres
def test_a_killed_writer_on_postgresql(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_BULK", str(tmp_path / "bulk"))
    with postgres_server() as server:
        check_survives(server.database(), tmp_path / "undisturbed.sqlite", kills=4)
