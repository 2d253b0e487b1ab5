"""What every store must do with bulk facts and series; part of `StoreContract`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from zoolens.base.errors import StoreError, UnknownName, ZoolensError
from zoolens.base.store.bulk_store import Swept
from zoolens.base.store.series import append_series, read_series, series_names
from zoolens.base.store.store import Store
from zoolens.testing.store_records import begin, some_rows


def spans(times: list[int]) -> pa.Table:
    return pa.table(
        {"time": pa.array(times, pa.int64()), "duration": [1] * len(times), "name": [f"at {t}" for t in times]}
    )


class BulkContract:
    def test_parts_are_joined_by_number(self, store: Store) -> None:
        run = begin(store)
        for part in (2, 0, 11):
            store.add_part(run.id, "predictions", part, some_rows(part))
        store.add_part(run.id, "latency-samples", 0, pa.table({"seconds": [0.1]}))
        parts = store.parts(run.id, "predictions")
        assert [part.part for part in parts] == [0, 2, 11]
        assert [part.rows for part in parts] == [10, 10, 10]
        assert all(len(store.bulk.place.get(part.name)) == part.bytes for part in parts)
        assert all(part.address.endswith(part.name) for part in parts)
        assert store.table(run.id, "predictions") == pa.concat_tables([some_rows(0), some_rows(2), some_rows(11)])
        assert [table.num_rows for table in store.iter_tables(run.id, "predictions")] == [10, 10, 10]
        assert store.kinds(run.id) == ["latency-samples", "predictions"]

    def test_a_part_that_is_there_stays(self, store: Store) -> None:
        run = begin(store)
        assert store.add_part(run.id, "predictions", 0, some_rows(0))
        assert not store.add_part(run.id, "predictions", 0, some_rows(7))
        assert store.table(run.id, "predictions") == some_rows(0)
        assert store.table(run.id[:8], "predictions") == some_rows(0)
        assert len(repr(run)) < 400
        assert run.id in repr(run)
        assert len(store.bulk.place.names()) == 1

    def test_bulk_facts_that_are_not_there_are_explained(self, store: Store) -> None:
        run = begin(store)
        store.add_part(run.id, "predictions", 0, some_rows(0))
        assert store.parts(run.id, "prediction") == []
        with pytest.raises(UnknownName, match="predictions"):
            store.table(run.id, "prediction")

    def test_a_series_is_read_by_time(self, store: Store) -> None:
        run = begin(store)
        assert series_names(store, run.id) == []
        for times in ([30, 10], [20], [5, 40]):
            append_series(store, run.id, "spans", spans(times))
        append_series(store, run.id, "events", pa.table({"time": pa.array([1], pa.int64())}))
        series = read_series(store, run.id, "spans")
        assert series["time"].to_pylist() == [5, 10, 20, 30, 40]
        assert series["name"].to_pylist() == ["at 5", "at 10", "at 20", "at 30", "at 40"]
        assert read_series(store, run.id, "spans", start=10, end=30)["time"].to_pylist() == [10, 20]
        assert read_series(store, run.id, "spans", start=99).num_rows == 0
        assert series_names(store, run.id) == ["events", "spans"]
        with pytest.raises(UnknownName, match="spans"):
            read_series(store, run.id, "span")

    def test_several_writers_append_to_one_series(self, store: Store) -> None:
        run = begin(store)
        with ThreadPoolExecutor(4) as pool:
            numbers = list(pool.map(lambda time: append_series(store, run.id, "spans", spans([time])), range(12)))
        assert sorted(numbers) == list(range(12))
        assert read_series(store, run.id, "spans")["time"].to_pylist() == list(range(12))

    def test_appending_to_a_long_series_does_not_list_it(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        run = begin(store)
        assert store.last_part(run.id, "series-spans") is None
        numbers = [append_series(store, run.id, "spans", spans([time])) for time in range(2)]
        with monkeypatch.context() as context:
            context.setattr(Store, "parts", None)
            numbers.append(append_series(store, run.id, "spans", spans([2])))
        assert numbers == [0, 1, 2]
        assert store.last_part(run.id, "series-spans") == 2
        assert store.last_part(run.id, "series-other") is None

    def test_a_series_without_times_is_refused(self, store: Store) -> None:
        run = begin(store)
        with pytest.raises(ZoolensError, match="no column 'time'"):
            append_series(store, run.id, "spans", pa.table({"name": ["a"]}))
        with pytest.raises(ZoolensError, match="cannot be named"):
            append_series(store, run.id, "My spans", spans([1]))

    def test_a_damaged_part_is_named(self, store: Store) -> None:
        run = begin(store)
        for part in range(3):
            store.add_part(run.id, "predictions", part, some_rows(part))
        flipped, cut, lost = (part.name for part in store.parts(run.id, "predictions"))
        place = store.bulk.place
        good = place.get(flipped)
        place.put(flipped, good[:20] + bytes([good[20] ^ 1]) + good[21:])
        with pytest.raises(StoreError, match=rf"part 0 of predictions of run {run.id}.*SHA-256"):
            store.table(run.id, "predictions")
        place.put(flipped, good)
        place.put(cut, place.get(cut)[:-1])
        with pytest.raises(StoreError, match=r"part 1 of predictions.*bytes instead of"):
            store.table(run.id, "predictions")
        place.remove(cut)
        place.remove(lost)
        tables = store.iter_tables(run.id, "predictions")
        assert next(tables) == some_rows(0)
        with pytest.raises(StoreError, match=r"part 1 of predictions.*is missing"):
            next(tables)

    def test_what_a_crash_leaves_behind_is_ignored_and_swept(self, store: Store) -> None:
        run = begin(store)
        store.add_part(run.id, "predictions", 0, some_rows(0))
        [kept] = store.parts(run.id, "predictions")
        orphan = store.bulk.write(run.id, "predictions", 1, some_rows(1)).name
        half, foreign, place = f"{orphan}.tmp", f"{run.id}/notes.txt", store.bulk.place
        place.put(half, b"PAR1")
        place.put(foreign, b"not ours")
        assert store.table(run.id, "predictions") == some_rows(0)
        assert store.table(run.id[:8], "predictions") == some_rows(0)
        assert len(repr(run)) < 400
        assert run.id in repr(run)
        assert store.sweep() == Swept()  # too young: somebody may be about to register it
        swept = store.sweep(older_than=0)
        assert set(swept.removed) == {place.address(orphan), place.address(half)}
        assert (swept.stuck, swept.unknown) == ((), ())
        assert set(place.names()) == {kept.name, foreign}
        store.add_part(run.id, "predictions", 1, some_rows(1))
        assert store.table(run.id, "predictions").num_rows == 20

    def test_files_of_runs_that_only_another_database_has_are_left(self, store: Store) -> None:
        """A copy of a database has its id, and so the folder of its bulk facts."""
        elsewhere = store.bulk.write("0123456789abcdef", "predictions", 0, some_rows(0)).name
        assert store.sweep(older_than=0) == Swept(unknown=(store.bulk.place.address(elsewhere),))
        assert store.bulk.has(elsewhere)

    def test_a_file_that_cannot_be_removed_is_not_called_removed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = begin(store)
        orphan = store.bulk.write(run.id, "predictions", 0, some_rows(0)).name
        with monkeypatch.context() as context:
            context.setattr(store.bulk.place, "remove", lambda name: False)
            assert store.sweep(older_than=0) == Swept(stuck=(store.bulk.place.address(orphan),))
        assert store.bulk.place.remove(orphan)
        assert store.bulk.place.remove(orphan)  # gone already
