import logging
import threading
import time

import pyarrow as pa
import pytest
from sqlalchemy import text

from zoolens.base.errors import StoreError
from zoolens.base.store.agents import AgentRecord, load_agents, publish_agent, remove_agent, renew_agent
from zoolens.base.store.opening import _MIGRATION_LOCK
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
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
