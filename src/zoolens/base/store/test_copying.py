"""A store copied into another: nothing lost, nothing doubled, and what contradicts is named."""

import contextlib
import json
import multiprocessing
import os
import time

import pytest
from click.testing import CliRunner
from sqlalchemy import select, text, update

from zoolens.base.errors import StoreError
from zoolens.base.progress import Silent
from zoolens.base.store import checking, copying, schema
from zoolens.base.store.checking import check_store
from zoolens.base.store.checksums import checksum
from zoolens.base.store.composed_reports import add_report, write_report
from zoolens.base.store.copying import SUBJECTS, copy_store
from zoolens.base.store.queries import load_rows
from zoolens.base.store.records import Observation, RunKey, RunKind
from zoolens.base.store.run_merge import load_facts
from zoolens.base.store.statements import everything
from zoolens.base.store.store import open_store
from zoolens.base.store.studies import StudyRecord, TrialRecord, TrialSide
from zoolens.faces.cli.main import cli
from zoolens.testing.object_server import VARIABLES, object_server
from zoolens.testing.postgres import postgres_server
from zoolens.testing.store_records import begin, dataset_record, model_record, some_rows, stack_record

FACTS = (
    schema.runs, schema.stages, schema.observations, schema.figures, schema.parts, schema.studies, schema.trials,
    schema.reports,
)  # fmt: skip
NUMBERED = {"seq", "trial"}


def fill(store, *, runs=3):
    """Something of everything: names, attempts, kinds, stages, parts, studies and trials, each with its own time."""
    made = [begin(store, f"zoo:net{number}@1.0.0") for number in range(runs)]
    made += [begin(store, "zoo:net0@1.0.0", attempt=1)]
    store.begin_run(model_record("zoo:other-name@1.0.0", "zoo:net0@1.0.0"), dataset_record(), stack_record())
    trial = store.begin_run(model_record("zoo:t"), dataset_record(), stack_record(), kind=RunKind.TRIAL)
    for number, run in enumerate(made):
        for part in range(2):
            store.add_part(run.id, "predictions", part, some_rows(part + number))
        accuracy = Observation("top1", 0.1 * number, low=0.0, high=1.0, n=10, details={"confidence": 0.95, "ä": [1, 2]})
        store.finish_stage(run.id, "accuracy", [accuracy, Observation("nan", float("nan"))], details={"k": 1})
        store.fail_stage(run.id, "latency", "no room")
        store.set_resolved(run.id, {"precision": "float32"})
    store.mark_evaluated(made[1].id, {"origin": {"ref": "x"}})
    store.mark_evaluated(made[0].id, {})
    store.add_study(StudyRecord("s", ("torch",), {"n": 1}))
    store.add_study(StudyRecord("s", ("torch", "jax"), {"n": 2}))
    for name in ("t2", "t1"):
        store.add_trial(TrialRecord("s", name, {"lr": 0.1}, (TrialSide("torch", made[0].id),), ("note",)))
    store.add_trial(TrialRecord("s", "t2", {"lr": 0.2}, (TrialSide("torch", made[1].id, "why"),)))
    report = add_report(store, "what we ship", [{"note": "first"}])
    write_report(store, report.id, 1, "what we ship", [{"note": "second"}])
    return [*made, trial]


def content(store):
    """All rows in their order, without the numbers and checksums that a database gives, and all files by name."""
    found = {}
    for table in (*SUBJECTS, *FACTS, schema.trial_sides):
        order = table.c.seq if "seq" in table.c else list(table.primary_key.columns)[-1]
        with store.engine.connect() as connection:
            rows = connection.execute(everything(table).order_by(order)).mappings().all()
        plain = [{key: value for key, value in row.items() if key not in NUMBERED | {"checksum"}} for row in rows]
        found[table.name] = plain if "seq" in table.c else sorted(plain, key=str)
    found["files"] = {name: store.bulk.place.get(name) for name in store.bulk.place.names()}
    found["last"] = [store.run(f"last~{number}").id for number in range(2)]
    return found


@pytest.fixture
def stores(tmp_path):
    with open_store(tmp_path / "a.sqlite") as source, open_store(tmp_path / "b.sqlite") as target:
        yield source, target


def test_every_table_is_copied_or_left_on_purpose():
    """Numbers, times and leases of one database mean nothing in another."""
    copied = {table.name for table in (*SUBJECTS, *FACTS, schema.trial_sides)}
    operation = {"agents", "drivers", "jobs", "passes"}
    assert copied | {"about", "changes"} | operation == set(schema.metadata.tables)


def test_everything_is_copied_as_it_was(stores):
    source, target = stores
    runs = fill(source)
    copied = copy_store(source, target)
    assert content(target) == content(source)
    assert copied.refused == []
    assert (copied.runs, copied.runs_added, copied.files_added, copied.trials) == (5, 5, 8, 2)
    assert check_store(target).damage == ()
    assert target.run(runs[0].id) == source.run(runs[0].id)
    assert target.trials("s") == source.trials("s")
    assert target.changed_since(0)[1]
    assert source.id != target.id


class Told(Silent):
    """How many of how many steps each stage has made."""

    def __init__(self):
        self.stages = {}

    def begin(self, title, stage, total, unit=""):
        self.stage = stage
        self.stages[stage] = (0, total)

    def advance(self, steps):
        done, total = self.stages[self.stage]
        self.stages[self.stage] = (done + steps, total)


def test_a_copy_and_a_check_tell_how_far_they_are(stores, monkeypatch):
    source, target = stores
    fill(source)
    copy, check = Told(), Told()
    copy_store(source, target, progress=copy)
    assert copy.stages["runs"] == (5, 5)
    monkeypatch.setattr(checking, "_TOLD", 1)
    checked = check_store(target, check)
    assert check.stages["figures of runs"] == (5, 5)
    assert check.stages["files"] == (checked.files, 8)
    of_tables = [done for stage, (done, total) in check.stages.items() if stage.startswith("rows of ")]
    assert sum(of_tables) == checked.rows > 0


def test_a_second_copy_adds_nothing(stores):
    source, target = stores
    fill(source)
    copy_store(source, target)
    before, newest = content(target), target.newest()
    copied = copy_store(source, target)
    assert (copied.runs, copied.runs_added, copied.files_added) == (5, 0, 0)
    assert content(target) == before
    assert target.newest() == newest


def test_what_each_store_has_alone_comes_together(stores):
    source, target = stores
    run, here = begin(source), begin(target)
    assert run.id == here.id
    source.add_part(run.id, "predictions", 0, some_rows(0))
    source.add_part(run.id, "predictions", 1, some_rows(1))
    target.add_part(run.id, "predictions", 0, some_rows(0))
    source.finish_stage(run.id, "accuracy", [Observation("top1", 0.5), Observation("top5", 0.9)])
    target.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
    source.finish_stage(run.id, "latency", [Observation("latency_p50", 1.0)])
    target.fail_stage(run.id, "latency", "no room")
    target.finish_stage(run.id, "size", [Observation("bytes", 7)])
    own = begin(target, "zoo:own@1.0.0")
    copied = copy_store(source, target)
    assert copied.refused == []
    assert [row.id for row in target.runs()] == [own.id, run.id]
    assert target.table(run.id, "predictions").num_rows == 20
    assert target.run(run.id).stages == {"accuracy": "done", "latency": "done", "size": "done"}
    assert {o.metric for o in target.observations(run.id)} == {"top1", "top5", "latency_p50", "bytes"}
    assert check_store(target).damage == ()
    assert copy_store(source, target).runs_added == 0


@pytest.mark.parametrize(
    ("theirs", "ours", "sentence"),
    [
        (0.5, 0.6, "top1 is 0.5 there and 0.6 here"),
        (some_rows(0), some_rows(3), "part 0 of its predictions has other content"),
        ((0, 1), (0, 2), "its predictions are divided into other parts"),
        ({"precision": "int8"}, {"precision": "float32"}, "its 'precision' is another one"),
    ],
)
def test_a_run_that_differs_is_named_and_left_alone(stores, theirs, ours, sentence):
    for store, facts in zip(stores, (theirs, ours), strict=True):
        run = begin(store)
        if isinstance(facts, float):
            store.finish_stage(run.id, "accuracy", [Observation("top1", facts)])
        elif isinstance(facts, dict):
            store.set_resolved(run.id, facts)
        else:
            for part in facts if isinstance(facts, tuple) else (0,):
                store.add_part(run.id, "predictions", part, some_rows(part) if isinstance(facts, tuple) else facts)
    source, target = stores
    source.add_trial(TrialRecord("s", "t", {}, (TrialSide("torch", run.id),)))
    other = begin(source, "zoo:other@1.0.0")
    source.finish_stage(run.id, "size", [Observation("bytes", 7)])
    before = content_of_run(target, run.id)
    copied = copy_store(source, target)
    assert copied.refused == [
        f"Run {run.id} was not copied: {sentence}.",
        f"Trial t of study s was not copied: it needs run {run.id}.",
    ]
    assert content_of_run(target, run.id) == before
    assert target.run(other.id).id == other.id
    assert check_store(target).damage == ()


def content_of_run(store, run_id):
    return store.run(run_id), store.observations_by_stage(run_id), store.parts(run_id, "predictions")


def test_the_same_answers_written_by_another_pyarrow_are_the_same(stores, monkeypatch):
    import pyarrow.parquet as pq

    source, target = stores
    run = begin(source)
    source.add_part(run.id, "predictions", 0, some_rows(0))
    begin(target)
    write = pq.write_table
    monkeypatch.setattr(pq, "write_table", lambda table, sink, **_: write(table, sink, compression="none"))
    target.add_part(run.id, "predictions", 0, some_rows(0))
    assert source.parts(run.id, "predictions")[0].sha256 != target.parts(run.id, "predictions")[0].sha256
    assert copy_store(source, target).refused == []


def test_words_of_studies_and_trials_are_kept_in_order(stores):
    source, target = stores
    fill(source)
    copy_store(source, target)
    source.add_study(StudyRecord("s", (), removed=True))
    source.add_trial(TrialRecord("s", "t1", {"lr": 9}, ()))
    target.add_study(StudyRecord("own", ()))
    assert copy_store(source, target).refused == []
    assert target.studies("s") == source.studies("s")
    assert target.trials("s") == source.trials("s")
    source.add_study(StudyRecord("s", ("a",)))
    target.add_study(StudyRecord("s", ("b",)))
    source.add_trial(TrialRecord("s", "t1", {"lr": 1}, ()))
    target.add_trial(TrialRecord("s", "t1", {"lr": 2}, ()))
    assert copy_store(source, target).refused == [
        "What is said of study s was not copied: it was changed in both stores.",
        "Trial t1 of study s was not copied: it was changed in both stores.",
    ]
    assert target.studies("s")["s"].frameworks == ("b",)


def test_a_run_with_a_damaged_file_is_left_out(stores):
    source, target = stores
    runs = fill(source)
    [part, _] = source.parts(runs[2].id, "predictions")
    source.bulk.place.put(part.name, b"something else")
    [sentence] = copy_store(source, target).refused
    assert sentence.startswith(f"Run {runs[2].id} was not copied: the file of part 0 of predictions")
    assert "bytes instead of" in sentence
    assert check_store(target).damage == ()


def test_a_damaged_row_is_never_given_a_new_checksum(stores):
    source, target = stores
    fill(source)
    with source.engine.begin() as connection:
        connection.execute(text("UPDATE runs SET attempt = 7 WHERE attempt = 1"))
    with pytest.raises(StoreError, match="does not match its checksum"):
        copy_store(source, target)
    assert target.runs() == []


def test_a_store_is_not_copied_to_itself(stores, tmp_path):
    with open_store(tmp_path / "a.sqlite") as again, pytest.raises(StoreError, match="are the same store"):
        copy_store(stores[0], again)


def test_files_that_a_copied_database_lacks_are_brought(stores, tmp_path):
    """Somebody has copied the database without its folder."""
    import sqlite3

    source = stores[0]
    fill(source)
    with sqlite3.connect(tmp_path / "c.sqlite") as copy, sqlite3.connect(tmp_path / "a.sqlite") as original:
        original.backup(copy)
    copy.close()
    original.close()
    with open_store(tmp_path / "c.sqlite") as target:
        assert len(check_store(target).damage) == 8
        copied = copy_store(source, target)
        assert (copied.runs_added, copied.files_added, copied.refused) == (0, 8, [])
        assert check_store(target).damage == ()
        assert copy_store(source, target).files_added == 0


# --- stopped


def test_a_copy_that_is_stopped_anywhere_goes_on(tmp_path, monkeypatch):
    """It is stopped before each of its writes in turn, of rows and of files, and made again."""
    monkeypatch.setattr("zoolens.base.store.copying.RUNS_AT_ONCE", 2)
    with open_store(tmp_path / "a.sqlite") as source, open_store(tmp_path / "b.sqlite") as target:
        fill(source)
        left = 0

        def stopped(write):
            def count_down(*arguments):
                nonlocal left
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
                return write(*arguments)

            return count_down

        with monkeypatch.context() as patch:
            patch.setattr(target, "_write", stopped(target._write))
            patch.setattr(target.bulk.place, "put", stopped(target.bulk.place.put), raising=False)
            stops = 0
            for step in range(1, 40):
                left = step
                with contextlib.suppress(KeyboardInterrupt):
                    copy_store(source, target)
                    break
                stops += 1
        assert stops > 5
        assert content(target) == content(source)
        assert check_store(target).damage == ()


def copy_with(variables, source, target):
    os.environ.clear()
    os.environ.update(variables)
    with open_store(source) as a, open_store(target) as b:
        copy_store(a, b)


def kill_repeatedly(source, target, kills):
    """Kill a process that copies, each time when some more runs have arrived, and copy once more."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "sqlalchemy.dialects.sqlite", "pyarrow.parquet"])
    with open_store(target) as watched:
        for kill in range(1, kills + 1):
            process = context.Process(target=copy_with, args=(dict(os.environ), source, target))
            process.start()
            while process.is_alive() and len(watched.run_ids()) < kill * 40:
                time.sleep(0.005)
            process.kill()
            process.join()
    copy_with(dict(os.environ), source, target)


@pytest.mark.slow
@pytest.mark.postgres
def test_a_copy_that_is_killed_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.delenv("ZOOLENS_BULK", raising=False)
    with postgres_server() as server, open_store(tmp_path / "a.sqlite") as source:
        fill(source, runs=200)
        wanted = content(source)
        for target in (tmp_path / "b.sqlite", server.database()):
            kill_repeatedly(tmp_path / "a.sqlite", target, kills=4)
            with open_store(target) as copied:
                copied.sweep(older_than=0)
                assert content(copied) == wanted
                assert check_store(copied).damage == ()


@pytest.mark.slow  # two servers
@pytest.mark.postgres
def test_round_trip_through_postgresql_and_an_object_store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.delenv("ZOOLENS_BULK", raising=False)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with postgres_server() as server, object_server() as objects, open_store(tmp_path / "a.sqlite") as first:
        fill(first)
        objects.make_bucket("facts")
        url, other = server.database(), server.database()
        with (
            open_store(url) as in_folder,
            open_store(url, bulk=objects.url("facts")) as in_objects,
            open_store(other, bulk=objects.url("facts")) as elsewhere,
            open_store(tmp_path / "z.sqlite") as last,
        ):
            copy_store(first, in_folder)
            moved = copy_store(in_folder, in_objects)  # the same database, another place of its files
            assert (moved.runs_added, moved.files_added) == (0, 8)
            for source, target in ((in_objects, elsewhere), (elsewhere, last)):
                assert copy_store(source, target).refused == []
            wanted = content(first)
            for store in (in_folder, in_objects, elsewhere, last):
                assert content(store) == wanted
                assert check_store(store).damage == ()


def test_the_order_of_runs_is_kept(stores):
    source, target = stores
    fill(source)
    copy_store(source, target)
    query = select(schema.runs.c.id).order_by(schema.runs.c.seq)
    orders = [store.read(lambda connection: connection.execute(query).scalars().all()) for store in stores]
    assert orders[0] == orders[1]


def test_a_check_finds_a_run_whose_id_is_not_its_key(stores):
    source, target = stores
    run = begin(source)
    row = {**source.read(lambda connection: load_rows(connection, schema.runs))[0], "attempt": 3}
    with source.engine.begin() as connection:
        connection.execute(update(schema.runs).values(attempt=3, checksum=checksum("runs", row)))
    right = RunKey(run.key.model, run.key.dataset, run.key.stack, 3).id
    sentence = f"Run {run.id} has a wrong id: that of its model, dataset, stack and attempt is {right}."
    assert check_store(source).damage == (sentence,)
    assert copy_store(source, target).refused == [f"Run {run.id} was not copied: its id is not that of its key."]


def test_a_part_that_is_written_meanwhile_is_not_continued(stores, monkeypatch):
    """Somebody writes other rows of the run after the two were compared: the parts behind them would not fit."""
    source, target = stores
    run = fill(source)[0]

    def looked_at(connection, ids):
        found = load_facts(connection, ids)
        if connection.engine.url == target.engine.url and run.id in ids:
            monkeypatch.setattr(copying, "load_facts", load_facts)
            begin(target, "zoo:net0@1.0.0")
            target.add_part(run.id, "predictions", 0, some_rows(7, rows=3))
        return found

    monkeypatch.setattr(copying, "load_facts", looked_at)
    copied = copy_store(source, target)
    assert f"Run {run.id} was not copied: part 0 of its predictions was written here meanwhile." in copied.refused
    assert len(target.parts(run.id, "predictions")) == 1


def test_a_part_that_names_the_file_of_another_is_left_out(stores):
    source, target = stores
    first, second, *_ = fill(source)
    same = (schema.parts.c.run_id == first.id, schema.parts.c.part == 0)
    (row,) = source.read(lambda connection: load_rows(connection, schema.parts, *same))
    other = source.parts(second.id, "predictions")[0].name.replace(".0.", ".9.")
    made = checksum("parts", {**row, "name": other})
    with source.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER IF EXISTS parts_refuse_update"))
        connection.execute(update(schema.parts).where(*same).values(name=other, checksum=made))
    clause = "part 0 of its predictions names a file that is not its own"
    assert f"Run {first.id} was not copied: {clause}." in copy_store(source, target).refused


def test_a_file_that_a_killed_copy_left_half_written_is_in_nobodys_way(stores):
    source, target = stores
    run = fill(source)[0]
    half = target.bulk_dir / f"{source.parts(run.id, 'predictions')[0].name}.tmp"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    assert copy_store(source, target).refused == []
    half.unlink()
    assert content(target) == content(source)


def test_refused_runs_are_plain_in_json(tmp_path):
    with open_store(tmp_path / "a.sqlite") as source:
        fill(source)
    names = [str(tmp_path / name) for name in ("a.sqlite", "b.sqlite")]
    result = CliRunner().invoke(cli, ["store", "copy", "--json", *names])
    assert json.loads(result.stdout)["refused_runs"] == []


def test_on_the_command_line(tmp_path):
    with open_store(tmp_path / "a.sqlite") as source, open_store(tmp_path / "b.sqlite") as target:
        run = fill(source)[0]
        begin(target, "zoo:net0@1.0.0")
        target.finish_stage(run.id, "accuracy", [Observation("top1", 0.75)])
    arguments = ["store", "copy", str(tmp_path / "a.sqlite"), str(tmp_path / "b.sqlite")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert f"Run {run.id} was not copied: top1 is 0.0 there and 0.75 here." in result.output
    assert "4 of 5 runs and 6 files were added" in result.output
    missing = CliRunner().invoke(cli, ["store", "copy", str(tmp_path / "x.sqlite"), str(tmp_path / "c.sqlite")])
    assert missing.exit_code != 0
    assert "There is no store at" in str(missing.exception)
    assert not (tmp_path / "c.sqlite").exists()
