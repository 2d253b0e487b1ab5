"""A PostgreSQL store with its bulk facts in a real server of S3's protocol: the contract, and what goes wrong."""

import threading
import time
from uuid import uuid4

import pyarrow as pa
import pytest

from zoolens.base.errors import StoreError
from zoolens.base.store.checking import check_store
from zoolens.base.store.store import open_store
from zoolens.testing.object_server import VARIABLES, object_server
from zoolens.testing.postgres import postgres_server
from zoolens.testing.store_contract import StoreContract
from zoolens.testing.store_records import begin, some_rows

pytestmark = [pytest.mark.postgres, pytest.mark.slow]  # two servers; test_bulk_objects.py does without them


@pytest.fixture(scope="module")
def objects():
    with object_server() as server:
        yield server


@pytest.fixture(scope="module")
def server():
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def migrated(server):
    url = server.database()
    open_store(url).close()
    return url.partition("@/")[2].partition("?")[0]


@pytest.fixture
def bucket(objects, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    name = f"b{uuid4().hex}"
    objects.make_bucket(name)
    monkeypatch.setenv("ZOOLENS_BULK", objects.url(name))
    return name


class TestObjectStore(StoreContract):
    @pytest.fixture
    def target(self, server, bucket):
        return server.database()

    @pytest.fixture
    def store(self, server, migrated, bucket):
        with open_store(server.database(copy_of=migrated)) as store:
            assert store.bulk.place.name == f"s3://{bucket}/zoolens/{store.id}"
            yield store


@pytest.fixture
def store(server, migrated, bucket):
    with open_store(server.database(copy_of=migrated)) as store:
        yield store


def test_a_missing_bucket_is_named(server, objects, bucket, migrated, monkeypatch):
    monkeypatch.setenv("ZOOLENS_BULK", objects.url("nowhere"))
    with open_store(server.database(copy_of=migrated)) as store:
        run = begin(store)
        with pytest.raises(StoreError, match="There is no bucket 'nowhere'"):
            store.add_part(run.id, "predictions", 0, some_rows(0))
        with pytest.raises(StoreError, match="There is no bucket 'nowhere'"):
            store.sweep()


def test_a_large_part_is_one_object(store):
    """Beyond ten megabytes pyarrow uploads pieces, which become an object at once."""
    run = begin(store)
    table = pa.table({"noise": [uuid4().bytes * 1000 for _ in range(1500)]})
    store.add_part(run.id, "predictions", 0, table)
    assert store.parts(run.id, "predictions")[0].bytes > 1000
    assert store.table(run.id, "predictions") == table
    checked = check_store(store)
    assert (checked.files, checked.damage) == (1, ())


def test_a_server_that_is_gone_is_waited_for_and_then_named(store, bucket, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE_PATIENCE", "0.5")
    monkeypatch.setenv("ZOOLENS_BULK", f"s3://{bucket}?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:9")
    with open_store(store.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)) as other:
        run = begin(other)
        start = time.monotonic()
        with pytest.raises(StoreError, match=rf"s3://{bucket}/{other.id} has been unavailable .*no connection"):
            other.add_part(run.id, "predictions", 0, some_rows(0))
        assert time.monotonic() - start < 20


def test_nothing_is_lost_or_doubled_while_the_server_pauses(store, objects):
    run = begin(store)
    failures = []

    def write(worker):
        try:
            for part in range(20):
                store.add_part(run.id, f"facts{worker}", part, some_rows(part))
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(2):
        objects.pause()
        time.sleep(1)
        objects.go_on()
        time.sleep(0.2)
    for writer in writers:
        writer.join(120)
    assert failures == []
    for worker in range(3):
        assert store.table(run.id, f"facts{worker}") == pa.concat_tables([some_rows(part) for part in range(20)])
    assert len(store.bulk.place.names()) == 60


def test_a_check_finds_objects_that_vanished_or_were_changed(store):
    run = begin(store)
    for part in range(3):
        store.add_part(run.id, "predictions", part, some_rows(part))
    lost, changed, _ = (part.name for part in store.parts(run.id, "predictions"))
    store.bulk.place.remove(lost)
    store.bulk.place.put(changed, b"something else")
    damage = check_store(store).damage
    assert len(damage) == 2
    assert "part 0 of predictions" in damage[0]
    assert "is missing" in damage[0]
    assert "part 1 of predictions" in damage[1]
    assert "14 bytes instead of" in damage[1]
