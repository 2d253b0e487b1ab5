"""The bulk facts of a store: parts of runs. Files lie beside the database; its rows say which of them count."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, func, select

from zoolens.base.errors import StoreError, UnknownName
from zoolens.base.store import commands, part_rows, schema
from zoolens.base.store.bulk import Bulk
from zoolens.base.store.bulk_folder import BulkFolder
from zoolens.base.store.bulk_record import (
    RecordedPlace,
    elsewhere,
    record_place,
    recorded_place,
    refuse_moved,
    required_place,
)
from zoolens.base.store.database import Database
from zoolens.base.store.queries import in_chunks
from zoolens.base.store.records import Part
from zoolens.base.store.run_names import named_run, require_run
from zoolens.base.store.target import Target

if TYPE_CHECKING:
    import pyarrow as pa

ORPHAN_AGE: Final = 3600.0  # seconds; no writer takes that long between writing and registering a part
_SWEPT_AT_ONCE: Final = 200  # files; who registers a part waits meanwhile: some seconds, at 20 to 50 ms a request


@dataclass(frozen=True)
class Swept:
    """The files that no part refers to, by their addresses. `stuck`: they could not be removed. `unknown`: left, since
    their runs are not in this store."""

    removed: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class BulkStore(Database):
    """A part of `Store`, which see."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        try:
            self.bulk = Bulk(target.bulk_place(self.id, self._patience), self._refuse_other_place)
        except BaseException:
            self.close()
            raise
        self.records_place = target.path is None  # files beside an SQLite file are moved with it
        self._recorded: RecordedPlace | None = None
        self.local_dir = target.local_dir(self.id)  # for files that are no facts, such as journals

    @property
    def bulk_dir(self) -> Path:
        """The folder of the bulk facts; an error where they are in an object store."""
        if not isinstance(self.bulk.place, BulkFolder):
            raise StoreError(f"The store {self.name} keeps its bulk facts in {self.bulk.place.name}, not in a folder.")
        return self.bulk.place.root

    def require_place(self) -> None:
        """Refuse to write bulk facts where nobody would look for them (`bulk_record`). The first writer decides."""
        if self.records_place and self._recorded is None:
            self._recorded = required_place(self, self.bulk.place)

    def _refuse_other_place(self) -> None:
        """For readers, who record nothing."""
        known = self.read(recorded_place) if self.records_place else None
        if known is not None and not self.bulk.place.has(known.marker):
            raise elsewhere(self.name, self.bulk.place, known)

    def record_place(self) -> None:
        """Records that the bulk facts lie where this store looks for them: somebody has moved them."""
        if self.records_place:
            self._recorded = record_place(self, self.bulk.place, instead=True)

    def add_part(self, run_id: str, kind: str, part: int, table: pa.Table) -> bool:
        """Store one part of a run's bulk facts. A part that is there already stays as it is, and False is returned:
        who cuts parts by time must then look at `parts` again, since the stored one may have other rows."""
        if self.read(lambda connection: part_rows.part_name(connection, run_id, kind, part)) is not None:
            return False
        self.read(lambda connection: require_run(connection, run_id))
        self.require_place()
        # The file first, then its row: a crash in between leaves a file that `sweep` removes, never a row without a
        # file.
        written = self.bulk.write(run_id, kind, part, table)

        def register(connection: Connection) -> str | None:
            if self._recorded is not None:
                refuse_moved(connection, self._recorded, self.name)
            name = commands.register_part(connection, run_id, kind, part, written)
            # From here `sweep` waits for us; before, a process asleep for an hour may have lost its file to it.
            if not self.bulk.has(written.name):
                raise StoreError(f"The file {written.name} was swept before it was registered.", hint="Run again.")
            return name

        registered = self._write(register)
        if registered != written.name:  # another process was faster
            self.bulk.discard(written.name)
        return registered == written.name

    def parts(self, run_id: str, kind: str) -> list[Part]:
        """The parts that are there, by number. Numbers may be missing where a run was interrupted."""
        return self.parts_of([run_id], kind).get(run_id, [])

    def parts_of(self, run_ids: Collection[str], kind: str) -> dict[str, list[Part]]:
        """What `parts` gives for each of the runs that has any, asked for at once."""
        return self.read(lambda connection: part_rows.load_parts(connection, run_ids, kind, self.bulk.address))

    def last_part(self, run_id: str, kind: str) -> int | None:
        """The largest number of a part that is there. It takes the same time however many there are."""
        query = select(func.max(schema.parts.c.part)).where(
            schema.parts.c.run_id == run_id, schema.parts.c.kind == kind
        )
        number: int | None = self.read(lambda connection: connection.execute(query).scalar())
        return number

    def kinds(self, run_id: str) -> list[str]:
        """The kinds of bulk facts that a run has parts of."""
        query = select(schema.parts.c.kind).where(schema.parts.c.run_id == run_id).distinct()
        return sorted(str(row.kind) for row in self.read(lambda connection: connection.execute(query).all()))

    def part_table(self, part: Part) -> pa.Table:
        """The rows of one part, verified."""
        return self.bulk.read(part)

    def verify_part(self, part: Part) -> None:
        """Raises a StoreError where the file of a part is missing or is not the one that was registered."""
        self.bulk.content(part)

    def iter_tables(self, run_id: str, kind: str) -> Iterator[pa.Table]:
        """The parts one after the other, each verified; a damaged one is a StoreError that names it."""
        for part in self.parts(run_id, kind):
            yield self.bulk.read(part)

    def table(self, run_id: str, kind: str, parts: Sequence[Part] = ()) -> pa.Table:
        """All parts in one table. `run_id`: as `run` takes it. `parts`: those of the run, where they are known."""
        import pyarrow as pa

        tables = [self.bulk.read(part) for part in parts] or list(self.iter_tables(run_id, kind))
        if not tables:
            full_id = self.read(lambda connection: named_run(connection, run_id, self.name)).id
            if full_id != run_id:
                return self.table(full_id, kind)
            raise UnknownName("kind of bulk facts", kind, self.kinds(run_id))
        return pa.concat_tables(tables, promote_options="permissive")

    def sweep(self, older_than: float = ORPHAN_AGE) -> Swept:
        """Removes files left behind by crashes that are older than this many seconds."""
        # Listed before anybody has to wait: very many files take minutes.
        old = self.bulk.candidates(older_than)
        litter = self.read(lambda connection: part_rows.unregistered(connection, old))
        # A writer asks for its run before it writes a file. A file without one was written through another database
        # with the same id, of which this one is a copy or an older backup: there it may be registered.
        ours = self.read(lambda connection: part_rows.of_known_runs(connection, litter))
        gone: dict[str, bool] = {}
        for some in in_chunks(ours, _SWEPT_AT_ONCE):
            gone.update(self._write(lambda connection, some=some: self._discard(connection, some)))  # type: ignore[misc]
        address = self.bulk.place.address
        return Swept(
            removed=tuple(address(name) for name, removed in gone.items() if removed),
            stuck=tuple(address(name) for name, removed in gone.items() if not removed),
            unknown=tuple(address(name) for name in sorted(set(litter) - set(ours))),
        )

    def _discard(self, connection: Connection, litter: list[str]) -> dict[str, bool]:
        """Removes those files that are not registered by now; whether each could be removed."""
        if self._engine.dialect.name == "postgresql":
            # Nobody may register a part between the look at its row and the removal of its file.
            connection.exec_driver_sql("LOCK TABLE parts IN SHARE ROW EXCLUSIVE MODE")
        return {name: self.bulk.discard(name) for name in part_rows.unregistered(connection, litter)}

    def sweep_folder(self) -> None:
        """Does what `sweep` does, at the start of work, where bulk facts lie in a folder. To list an object store takes
        a request for each thousand objects: it is swept when somebody asks for it (`zoolens store clean`)."""
        if isinstance(self.bulk.place, BulkFolder):
            self.sweep()
