import logging
import shutil
import threading
import time

import pyarrow as pa
import pytest
from click.testing import CliRunner
from sqlalchemy import insert, inspect, text

from zoolens.base.errors import StoreError
from zoolens.base.store import run_merge, schema
from zoolens.base.store.agents import AgentRecord, load_agents, publish_agent, remove_agent, renew_agent
from zoolens.base.store.copying import copy_store
from zoolens.base.store.opening import _MIGRATION_LOCK
from zoolens.base.store.queries import load_observations
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.faces.cli.store import command
from zoolens.testing.postgres import postgres_server
from zoolens.testing.store_contract import StoreContract
from zoolens.testing.store_records import begin, some_rows

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server():
    with postgres_server() as server:
        yield server


@pytest.fixture
def target(server, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.delenv("ZOOLENS_BULK", raising=False)
    return server.database()


@pytest.fixture(scope="module")
def migrated(server):
    """The name of a database that is an empty store: to copy it is much quicker than to run the migrations again."""
    url = server.database()
    open_store(url).close()
    return url.partition("@/")[2].partition("?")[0]


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def target(self, server, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
        monkeypatch.delenv("ZOOLENS_BULK", raising=False)
        return server.database()

    @pytest.fixture
    def store(self, server, migrated, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
        monkeypatch.delenv("ZOOLENS_BULK", raising=False)
        with open_store(server.database(copy_of=migrated)) as store:
            yield store


def test_truncating_is_refused_too(target):
    with open_store(target) as store:
        run = begin(store)
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        with pytest.raises(Exception, match="append-only"), store.engine.begin() as connection:
            connection.execute(text("TRUNCATE observations"))
        assert len(store.observations(run.id)) == 1


RIGHTS_OF_AGENTS = """
GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};
GRANT INSERT, UPDATE, DELETE ON agents TO {role};
"""  # as in docs/fleet.md


def test_an_agent_changes_its_own_row_and_nothing_else(target):
    """With the rights that the documentation gives it."""
    with open_store(target) as store:
        run = begin(store)
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        publish_agent(store, AgentRecord("1", "mine", "kind", {}, 60.0))
        with store.engine.begin() as connection:
            for role in ("ant", "bee"):
                connection.execute(text(f"CREATE ROLE {role} LOGIN"))
                connection.execute(text(RIGHTS_OF_AGENTS.format(role=role)))
        ant, bee = (target.replace("//zoolens@", f"//{role}@") for role in ("ant", "bee"))
        with open_store(ant) as ants, open_store(bee) as bees:
            publish_agent(ants, AgentRecord("2", "ant", "kind", {}, 60.0))
            assert renew_agent(ants, "2", ["eval"], {})
            assert [one.name for one in load_agents(bees)] == ["ant", "mine"]
            for others in ("1", "2"):
                assert not renew_agent(bees, others, ["lie"], {})
                remove_agent(bees, others)
            assert len(load_agents(bees)) == 2
            assert ants.run(run.id).id == run.id
            with pytest.raises(StoreError, match="permission denied"):
                ants.finish_stage(run.id, "forged", [Observation("top5", 1.0)])
            with pytest.raises(StoreError, match="permission denied"):
                begin(ants, attempt=1)


def test_the_bulk_directory_belongs_to_the_database_not_to_its_url(target, server, tmp_path, monkeypatch):
    with open_store(target) as store, open_store(target + "&application_name=x") as again:
        assert store.bulk_dir == again.bulk_dir
        assert store.bulk_dir.parent == tmp_path / "data" / "bulk"
    monkeypatch.setenv("ZOOLENS_BULK", str(tmp_path / "share"))
    with open_store(target) as store, open_store(server.database()) as other:
        assert store.bulk_dir.parent == other.bulk_dir.parent == tmp_path / "share"
        assert store.bulk_dir != other.bulk_dir  # so that sweeping one cannot touch the other


def test_tables_of_another_program_are_left_alone(target):
    import psycopg

    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute("CREATE TABLE runs (mine int)")
        with pytest.raises(StoreError, match=r"another program.*'runs'"):
            open_store(target)
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (1,)


def test_a_database_that_does_not_exist_is_an_error_at_once(server, monkeypatch):
    """Only a server that may come back is waited for."""
    pauses = []
    monkeypatch.setattr("zoolens.base.store.retry.time.sleep", pauses.append)
    with pytest.raises(StoreError, match="does not exist"):
        open_store(server.url("nowhere"))
    assert pauses == []


def test_the_password_is_not_shown(server, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE_PATIENCE", "0.1")
    with pytest.raises(StoreError) as caught:
        open_store("postgresql://someone:secret@127.0.0.1:1/nowhere")
    assert "secret" not in str(caught.value)
    assert "someone:***@127.0.0.1" in str(caught.value)


def test_an_open_store_whose_server_is_gone_says_so_when_patience_ends(server, target, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE_PATIENCE", "0.5")
    with open_store(target) as store:
        run = begin(store)
        server.stop()
        with pytest.raises(StoreError, match=r"unavailable for 0.5 s"):
            store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        server.start()
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        assert len(store.observations(run.id)) == 1


def test_nothing_is_lost_or_doubled_when_the_server_restarts(server, target, caplog):
    """Three writers keep writing while the server is stopped twice, the second time by a crash."""
    parts = 40
    progress = [threading.Event(), threading.Event()]
    failures = []

    def write(store, run_id, worker):
        try:
            for part in range(parts):
                store.add_part(run_id, f"facts{worker}", part, some_rows(part))
                store.finish_stage(run_id, f"{worker}-{part}", [Observation("part", part, scope=f"{worker}-{part}")])
                if part in (5, 20):
                    progress[part // 20].set()
        except Exception as error:
            failures.append(error)

    with open_store(target) as store, caplog.at_level(logging.WARNING, logger="zoolens.store"):
        run = begin(store)
        writers = [threading.Thread(target=write, args=(store, run.id, worker)) for worker in range(3)]
        for writer in writers:
            writer.start()
        for reached, crash in zip(progress, (False, True), strict=True):
            reached.wait(30)
            server.stop(crash=crash)
            time.sleep(0.3)
            server.start()
        for writer in writers:
            writer.join(60)
        assert failures == []
        assert "trying for up to 60 s" in caplog.text
        expected = pa.concat_tables([some_rows(part) for part in range(parts)])
        for worker in range(3):
            assert store.table(run.id, f"facts{worker}") == expected
        scopes = [observation.scope for observation in store.observations(run.id)]
        assert sorted(scopes) == sorted(f"{worker}-{part}" for worker in range(3) for part in range(parts))
        assert len(store.run(run.id).stages) == 3 * parts


def test_a_migration_waits_for_those_who_write(target):
    """What was begun before the migration is written as a whole before it."""
    with open_store(target) as store:
        writing, go_on, order = threading.Event(), threading.Event(), []

        def write(connection):
            writing.set()
            go_on.wait(30)
            order.append("written")

        def migrate():
            with store.engine.begin() as connection:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
                order.append("migrated")

        threads = [threading.Thread(target=store._write, args=(write,)), threading.Thread(target=migrate)]
        threads[0].start()
        writing.wait(30)
        threads[1].start()
        time.sleep(0.3)
        assert order == []
        go_on.set()
        for thread in threads:
            thread.join(30)
        assert order == ["written", "migrated"]


def test_a_change_that_becomes_visible_late_is_another_state(target):
    """Who keeps what was read of the store asks by its state whether to read it again."""
    with open_store(target) as store:
        run = begin(store)
        with store.engine.connect() as late:
            late.execute(insert(schema.changes), {"run_id": run.id})
            begin(store, "zoo:other@1.0.0")
            before = store.newest()
            late.commit()
        after = store.newest()
        assert after.change == before.change
        assert after != before


def test_a_part_that_is_written_while_the_run_is_merged_waits(target, tmp_path, monkeypatch):
    """Otherwise the run would have figures of one measurement and answers of another."""
    with open_store(tmp_path / "a.sqlite") as source, open_store(target) as store, open_store(target) as other:
        run = begin(source)
        source.add_part(run.id, "predictions", 0, some_rows(0))
        source.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        begin(store)
        compare, added = run_merge.difference, []
        writer = threading.Thread(target=lambda: added.append(other.add_part(run.id, "predictions", 0, some_rows(7))))

        def compared(theirs, ours):
            found = compare(theirs, ours)
            if writer.ident is None:
                writer.start()
                writer.join(0.5)
            return found

        monkeypatch.setattr(run_merge, "difference", compared)
        assert copy_store(source, store).refused == []
        writer.join(30)
        assert added == [False]
        assert store.table(run.id, "predictions") == some_rows(0)


# --- the place of bulk facts is recorded: nobody writes files where others do not look for them


@pytest.fixture
def url(server, migrated, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOOLENS_BULK", raising=False)
    return server.database(copy_of=migrated)


def add(store, part=0):
    return store.add_part(begin(store).id, "predictions", part, some_rows(part))


def rows(store):
    return store.table(begin(store).id, "predictions").num_rows


def forget_place(store):
    with store.engine.begin() as connection:
        connection.execute(text("DELETE FROM about WHERE key = 'bulk place'"))
    shutil.rmtree(store.bulk_dir / "place")


class TestRecordedPlace:
    def test_another_place_is_refused_and_stays_empty(self, url, tmp_path, monkeypatch):
        share, other = tmp_path / "share", tmp_path / "other"
        with open_store(url, bulk=str(share)) as store:
            add(store)
        monkeypatch.setenv("ZOOLENS_BULK", str(other))
        with open_store(url) as store:
            with pytest.raises(
                StoreError, match=rf"keeps its bulk facts in {share}/\w+, and {other}/\w+ is another place"
            ):
                add(store, 1)
            with pytest.raises(StoreError, match="is another place"):
                rows(store)  # not "the file is missing", as if it were lost
        assert not other.exists()

    def test_the_default_folder_of_another_machine_is_another_place(self, url, tmp_path):
        """Both have the same name."""
        with open_store(url) as store:
            add(store)
            folder = store.bulk_dir
        folder.rename(tmp_path / "the other machine's")
        with open_store(url) as store, pytest.raises(StoreError, match="of this machine does not hold them"):
            add(store, 1)

    def test_one_place_may_have_several_names(self, url, tmp_path, monkeypatch):
        with open_store(url, bulk=str(tmp_path / "share")) as store:
            add(store)
        (tmp_path / "mount").symlink_to(tmp_path / "share")
        with open_store(url, bulk=str(tmp_path / "mount")) as store:
            assert add(store, 1)
        monkeypatch.chdir(tmp_path)
        with open_store(url, bulk="share") as store:
            assert add(store, 2)
        monkeypatch.chdir(tmp_path.parent)
        with open_store(url, bulk="share") as store, pytest.raises(StoreError, match="is another place"):
            add(store, 3)

    def test_a_store_of_before_is_recorded_where_its_files_are(self, url, tmp_path):
        with open_store(url, bulk=str(tmp_path / "share")) as store:
            add(store)
            forget_place(store)
        other = str(tmp_path / "other")
        with open_store(url, bulk=other) as store, pytest.raises(StoreError, match="facts, and they are not in"):
            add(store, 1)
        with open_store(url, bulk=str(tmp_path / "share")) as store:
            assert rows(store) == 10  # who only reads records nothing
            assert add(store, 1)
        with (
            open_store(url, bulk=str(tmp_path / "other")) as store,
            pytest.raises(StoreError, match="is another place"),
        ):
            add(store, 2)

    def test_two_first_writers_in_two_places(self, url, tmp_path):
        with open_store(url, bulk=str(tmp_path / "a")) as one, open_store(url, bulk=str(tmp_path / "b")) as two:
            one.require_place()
            with pytest.raises(StoreError, match="is another place"):
                two.require_place()

    def test_a_copy_moves_the_files_and_the_record(self, url, tmp_path):
        old, new = str(tmp_path / "old"), str(tmp_path / "new")
        with open_store(url, bulk=old) as source, open_store(url, bulk=new) as target:
            add(source)
            assert copy_store(source, target).refused == []
            with pytest.raises(StoreError, match=r"were moved to .*new.* while it was open"):
                add(source, 1)
        with open_store(url, bulk=new) as store:
            assert add(store, 1)
            assert rows(store) == 20
        with open_store(url, bulk=old) as store, pytest.raises(StoreError, match="is another place"):
            add(store, 2)

    def test_a_copy_with_files_missing_records_nothing(self, url, tmp_path):
        old, new = tmp_path / "old", tmp_path / "new"
        with open_store(url, bulk=str(old)) as source, open_store(url, bulk=str(new)) as target:
            add(source)
            shutil.rmtree(next(old.glob("*/[0-9a-f]*")))
            refused = copy_store(source, target).refused
            assert "The place of bulk facts was not recorded: 1 files are not in" in refused[-1]
            assert add(source, 1)

    def test_an_empty_database_is_no_source_and_stays_empty(self, server):
        url = server.database()
        with pytest.raises(StoreError, match="There is no zoolens store in postgresql://"):
            open_store(url, must_exist=True)
        with open_store(url) as store:
            assert inspect(store.engine).has_table("runs")

    def test_several_queries_see_one_moment(self, url):
        """A stage that is finished between them must not look as if it had lost its observations."""
        with open_store(url) as store, open_store(url) as writer:
            run = begin(store)

            def look(connection):
                connection.execute(text("SELECT count(*) FROM observations"))
                writer.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
                return load_observations(connection, [run.id])

            assert store.read_at_once(look) == {}
            assert len(store.observations(run.id)) == 1

    def test_files_that_somebody_moved_are_recorded(self, url, tmp_path, monkeypatch):
        old, new = tmp_path / "old", tmp_path / "new"
        with open_store(url, bulk=str(old)) as store:
            add(store)
        monkeypatch.setenv("ZOOLENS_BULK", str(new))
        refused = CliRunner().invoke(command, ["moved", "--store", url])
        assert "1 files of the store are not in" in str(refused.exception)
        shutil.copytree(old, new, ignore=shutil.ignore_patterns("place"))
        assert CliRunner().invoke(command, ["moved", "--store", url]).exit_code == 0
        with open_store(url) as store:
            assert add(store, 1)
        with open_store(url, bulk=str(old)) as store, pytest.raises(StoreError, match="is another place"):
            add(store, 2)
