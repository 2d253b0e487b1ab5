"""Bulk facts in an object store, through the class that speaks to S3, on pyarrow's file system of this machine."""

import pyarrow as pa
import pyarrow.fs
import pytest

from zoolens.base.errors import StoreError
from zoolens.base.store.bulk import Bulk
from zoolens.base.store.bulk_objects import BulkObjects, bulk_objects
from zoolens.base.store.checking import check_store
from zoolens.base.store.store import open_store
from zoolens.base.store.target import resolve
from zoolens.testing.bulk_contract import BulkContract
from zoolens.testing.store_records import begin, some_rows

POSTGRES = "postgresql://someone@db/zoolens"


class Failing(pa.fs.FileSystemHandler):
    """A server that answers every request with an error, or with some errors and then as it should."""

    def __init__(self, files, errors):
        self._files, self.errors = files, errors

    def open_output_stream(self, path, metadata):
        if self.errors:
            raise OSError(self.errors.pop())
        return self._files.open_output_stream(path)

    def _refuse(self, *_):
        raise NotImplementedError

    get_type_name = normalize_path = get_file_info = get_file_info_selector = create_dir = delete_dir = _refuse
    delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = open_input_stream = _refuse
    open_input_file = open_append_stream = _refuse


@pytest.fixture
def place(tmp_path):
    bucket = tmp_path / "bucket"

    def connect():
        files = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
        files.create_dir("bucket/prefix")
        return FolderMaking(files)

    return BulkObjects(f"{bucket.name}/prefix", connect, patience=0.2)


class FolderMaking:
    """Folders of this machine must be made before files; those of an object store need not be."""

    def __init__(self, files):
        self._files = files

    def __getattr__(self, name):
        return getattr(self._files, name)

    def open_output_stream(self, path):
        self._files.create_dir(path.rpartition("/")[0])
        return self._files.open_output_stream(path)


class TestObjects(BulkContract):
    @pytest.fixture
    def store(self, tmp_path, place):
        with open_store(tmp_path / "store.sqlite") as store:
            store.bulk = Bulk(place)
            yield store


def test_an_object_that_vanished_is_named_by_its_address(tmp_path, place):
    with open_store(tmp_path / "store.sqlite") as store:
        store.bulk = Bulk(place)
        run = begin(store)
        store.add_part(run.id, "predictions", 0, some_rows(0))
        [part] = store.parts(run.id, "predictions")
        assert part.address == f"s3://bucket/prefix/{part.name}"
        place.remove(part.name)
        with pytest.raises(StoreError, match=rf"part 0 of predictions.*s3://bucket/prefix/{run.id}/.*is missing"):
            store.table(run.id, "predictions")
        with pytest.raises(StoreError, match="in s3://bucket/prefix, not in a folder"):
            _ = store.bulk_dir


def test_an_object_store_that_cannot_be_reached_is_not_damage(tmp_path, place, monkeypatch):
    with open_store(tmp_path / "store.sqlite") as store:
        store.bulk = Bulk(place)
        store.add_part(begin(store).id, "predictions", 0, some_rows(0))
        assert check_store(store).files == 1

        def away(path):
            raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation: x")

        monkeypatch.setattr(place._files, "open_input_stream", away, raising=False)
        with pytest.raises(StoreError, match="s3://bucket/prefix has been unavailable"):
            check_store(store)


def test_an_object_store_is_not_listed_when_work_begins(tmp_path, place, monkeypatch):
    with open_store(tmp_path / "store.sqlite") as store:
        store.bulk = Bulk(place)
        monkeypatch.setattr(BulkObjects, "names", None)
        store.sweep_folder()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("AWS Error NO_SUCH_BUCKET during PutObject operation: key-of-mine", "There is no bucket 'bucket'"),
        (
            "AWS Error ACCESS_DENIED during PutObject operation: key-of-mine",
            r"refuses access \(ACCESS_DENIED",
        ),
        (
            "AWS Error REQUEST_TIME_TOO_SKEWED during PutObject operation (HTTP status 403): key-of-mine",
            "the clock of this machine is off",
        ),
        ("AWS Error UNKNOWN (HTTP status 403) during X: key-of-mine", r"refuses access"),
        ("AWS Error NETWORK_CONNECTION during PutObject operation: Could not resolve host: h", "its host is unknown"),
        ("AWS Error INVALID_PARAMETER_VALUE during PutObject operation: key-of-mine", "cannot be used: INVALID_PAR"),
    ],
)
def test_what_the_server_says_is_one_sentence_without_credentials(tmp_path, error, sentence):
    files = pa.fs.PyFileSystem(Failing(pa.fs.LocalFileSystem(), [error]))
    place = BulkObjects("bucket/prefix", lambda: files, patience=5)
    with pytest.raises(StoreError, match=sentence) as caught:
        place.put("run/x", b"content")
    assert "key-of-mine" not in f"{caught.value} {caught.value.hint}"


def test_what_pyarrow_refuses_itself_is_a_sentence(place, monkeypatch):
    def refuse(path):
        raise pa.ArrowInvalid("Empty path component in path bucket//prefix")

    monkeypatch.setattr(place._files, "open_output_stream", refuse)
    with pytest.raises(StoreError, match="s3://bucket/prefix cannot be used: ArrowInvalid"):
        place.put("run/x", b"content")


def test_what_a_killed_process_left_of_asking_for_the_time_is_removed(tmp_path, place):
    place.put("clock/0123456789abcdef", b"")
    place.put("run/x", b"content")
    assert place.names(older_than=3600) == []
    assert len(list(tmp_path.glob("bucket/prefix/clock/*"))) == 1  # somebody may be asking just now
    assert place.names(older_than=0) == ["run/x"]
    assert list(tmp_path.glob("bucket/prefix/clock/*")) == []


def test_a_server_that_comes_back_costs_time_only(tmp_path, monkeypatch, caplog):
    pauses = []
    monkeypatch.setattr("zoolens.base.store.retry.time.sleep", pauses.append)
    errors = ["AWS Error SLOW_DOWN during PutObject operation: x", "AWS Error NETWORK_CONNECTION during PutObject: x"]
    files = pa.fs.PyFileSystem(Failing(pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem()), errors))
    (tmp_path / "bucket").mkdir()
    BulkObjects("bucket", lambda: files, patience=5).put("x", b"content")
    assert (tmp_path / "bucket" / "x").read_bytes() == b"content"
    assert len(pauses) == 2
    assert "The store s3://bucket is unavailable (no connection)" in caplog.text


def test_a_server_that_stays_away_is_named():
    errors = ["AWS Error NETWORK_CONNECTION during PutObject: x"] * 100
    files = pa.fs.PyFileSystem(Failing(pa.fs.LocalFileSystem(), errors))
    with pytest.raises(StoreError, match=r"The store s3://bucket has been unavailable for 0.1 s: no connection"):
        BulkObjects("bucket", lambda: files, patience=0.1).put("x", b"content")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("s3://me:very-secret@bucket/x", "holds credentials"),
        ("s3://bucket/x?acces_key=very-secret", "unknown option, 'acces_key'"),
        ("s3:///x", "names no bucket"),
        ("s3://bucket//very-secret", "two slashes in its path"),
        ("gs://bucket/very-secret", "cannot be kept in gs://"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_shown(url, sentence):
    with pytest.raises(StoreError, match=sentence) as caught:
        bulk_objects(url, "id", 1.0)
    assert "very-secret" not in f"{caught.value} {caught.value.hint}"


def test_where_bulk_facts_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.setenv("ZOOLENS_BULK", "s3://bucket/team/?region=eu-west-1")
    assert resolve(POSTGRES).bulk_place("id", 1.0).name == "s3://bucket/team/id"
    assert resolve(POSTGRES).local_dir("id") == tmp_path / "data" / "bulk" / "id"
    assert resolve(POSTGRES, "s3://other").bulk_place("id", 1.0).name == "s3://other/id"
    assert resolve(POSTGRES, str(tmp_path / "share")).bulk_place("id", 1.0).name == str(tmp_path / "share" / "id")
    assert resolve(tmp_path / "x.sqlite").bulk_place("id", 1.0).name == str(tmp_path / "x.bulk")
    with pytest.raises(StoreError, match=r"SQLite store .* keeps its bulk facts in the folder beside it"):
        resolve(tmp_path / "x.sqlite", "s3://bucket")
