"""Which store: the file or URL a user names."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zoolens.base.errors import StoreError
from zoolens.base.paths import data_dir
from zoolens.base.store.bulk_folder import BulkFolder

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from zoolens.base.store.bulk_place import BulkPlace

STORE_VARIABLE: Final = "ZOOLENS_STORE"
BULK_VARIABLE: Final = "ZOOLENS_BULK"


@dataclass(frozen=True)
class Target:
    """An SQLite file, or the URL of a database."""

    path: Path | None
    url: URL | None = None
    must_exist: bool = False  # an empty database is no store then, and stays empty
    bulk: str | None = None  # a folder or the URL of an object store, instead of $ZOOLENS_BULK

    @property
    def name(self) -> str:
        """The target as it is shown to people: never with the password."""
        if self.url is None:
            return str(self.path)
        shown = self.url.set(drivername="postgresql").difference_update_query(["password", "sslpassword"])
        return shown.render_as_string(hide_password=True)

    def bulk_place(self, store_id: str, patience: float) -> BulkPlace:
        """`x.sqlite` keeps its files in `x.bulk`. A server's lie in an object store, on a share or on this machine, one
        folder a database; it is named by the id that the database carries, since one server may be reached by several
        URLs."""
        shared = self._shared_bulk
        if shared is not None and "://" in shared:
            # Not above: it imports SQLAlchemy, which takes half a second, and names of stores are resolved without it.
            from zoolens.base.store.bulk_objects import bulk_objects

            return bulk_objects(shared, store_id, patience)
        return BulkFolder(self.local_dir(store_id))

    def local_dir(self, store_id: str) -> Path:
        """The folder of a store for files that are no facts, such as journals: that of its bulk facts, unless they are
        in an object store, where no file can be appended to."""
        if self.path is not None:
            stem = self.path.stem if self.path.suffix == ".sqlite" else self.path.name
            return self.path.with_name(f"{stem}.bulk")
        shared = self._shared_bulk
        return (Path(shared) if shared and "://" not in shared else data_dir() / "bulk") / store_id

    @property
    def _shared_bulk(self) -> str | None:
        """An SQLite store keeps its files beside itself, wherever others keep theirs."""
        return None if self.path is not None else self.bulk or os.environ.get(BULK_VARIABLE) or None


def resolve(target: str | Path | None, bulk: str | None = None) -> Target:
    """Resolves a target. None: $ZOOLENS_STORE, else the user's own store; a path: SQLite; postgresql://…:
    PostgreSQL. `bulk`: where the bulk facts of a PostgreSQL store lie, instead of $ZOOLENS_BULK."""
    found = _resolve(target)
    if bulk is None:
        return found
    if found.path is not None:
        raise StoreError(
            f"The SQLite store {found.name} keeps its bulk facts in the folder beside it, and nowhere else.",
            hint="Name a place for bulk facts with a PostgreSQL store only.",
        )
    return replace(found, bulk=bulk)


def _resolve(target: str | Path | None) -> Target:
    chosen = target if target is not None else os.environ.get(STORE_VARIABLE) or data_dir() / "store.sqlite"
    chosen = chosen.strip() if isinstance(chosen, str) else chosen
    if isinstance(chosen, Path) or "://" not in chosen:
        return _file(Path(chosen))

    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(chosen)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            "The store's URL cannot be read.", hint="It looks like postgresql://user@host/name."
        ) from error
    if url.drivername.partition("+")[0] in ("postgresql", "postgres"):
        return Target(None, url.set(drivername="postgresql+psycopg"))
    if url.drivername == "sqlite" and url.database:
        return _file(Path(url.database))
    raise StoreError(
        f"A store cannot be kept in {url.drivername!r}.",
        hint="Name a file (SQLite) or a URL that starts postgresql://.",
    )


def missing_file(target: str | Path | None) -> Path | None:
    """The file of a store that the caller or $ZOOLENS_STORE names and that is not there. The user's own store is never
    missing: it is made at its first use."""
    if target is None and not os.environ.get(STORE_VARIABLE):
        return None
    path = resolve(target).path
    return path if path is not None and not path.exists() else None


def refuse_missing(target: str | Path | None) -> None:
    """Raise StoreError where a store is named and is not there; for those who only read."""
    path = missing_file(target)
    if path is None:
        return
    where = f"{path}, which ${STORE_VARIABLE} names" if target is None else str(path)
    raise StoreError(f"There is no store at {where}.", hint="Check the name; `zoolens eval` makes a new store.")


def _file(path: Path) -> Target:
    return Target(path.expanduser().absolute())
