"""A writer killed at any moment loses nothing that was stored and doubles nothing when it is run again."""

import multiprocessing
import os
import random
import time
from contextlib import contextmanager

import pytest

from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.testing.postgres import postgres_server
from zoolens.testing.store_records import begin, some_rows

PARTS = 36
PARTS_A_STAGE = 6
OBSERVATIONS_A_STAGE = 20


def write(target, stored=lambda part: None):
    """Resumes where an earlier call was killed, as an evaluation does. `stored` is told of each part."""
    with open_store(target) as store:
        run = begin(store)
        there = {part.part for part in store.parts(run.id, "predictions")}
        for part in range(PARTS):
            if part not in there:
                store.add_part(run.id, "predictions", part, some_rows(part))
                stored(part)
            stage = f"stage{part // PARTS_A_STAGE}"
            if part % PARTS_A_STAGE == PARTS_A_STAGE - 1 and stage not in run.stages:
                store.finish_stage(run.id, stage, observations_of(part // PARTS_A_STAGE))


def observations_of(stage):
    return [Observation(f"metric{stage}", i / 7, scope=f"class={i}") for i in range(OBSERVATIONS_A_STAGE)]


def write_with(variables, target, telling):
    os.environ.clear()  # the server has those of the moment at which it was started
    os.environ.update(variables)
    write(target, telling.send)


@contextmanager
def writer(target):
    """A process that writes, and where it tells what it has stored. A server that has imported all that is needed forks
    it: an interpreter of its own would take longer to start than to write."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zoolens.base.store.test_kill", "sqlalchemy.dialects.sqlite", "pyarrow.parquet"])
    told, telling = context.Pipe(duplex=False)
    process = context.Process(target=write_with, args=(dict(os.environ), target, telling))
    process.start()
    telling.close()
    with told:
        yield process, told
    process.join()


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
        with writer(target) as (process, told):
            for _ in range(moments.randint(1, PARTS // (2 * kills))):
                told.recv()
            time.sleep(moments.uniform(0, 0.008))
            process.kill()
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
        assert len(store.bulk.place.names()) == PARTS


def test_a_killed_writer_on_sqlite(tmp_path):
    check_survives(tmp_path / "killed.sqlite", tmp_path / "undisturbed.sqlite", kills=4)


@pytest.mark.slow  # with a server of its own; test_postgres.py stops one in the middle
@pytest.mark.postgres
def test_a_killed_writer_on_postgresql(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_BULK", str(tmp_path / "bulk"))
    with postgres_server() as server:
        check_survives(server.database(), tmp_path / "undisturbed.sqlite", kills=3)
