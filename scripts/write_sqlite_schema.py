"""Write `base/store/migrations/sqlite.sql`, the schema that all migrations together make of an empty SQLite file.

Run it after adding a migration: `python -m scripts.write_sqlite_schema`.
"""

from __future__ import annotations

import sqlite3

from zoolens.base.store.opening import SQLITE_SCHEMA, migrated_schema


def main() -> None:
    SQLITE_SCHEMA.write_text("".join(f"{sql};\n\n" for sql in migrated_schema()).rstrip("\n") + "\n", "utf-8")
    print(f"{SQLITE_SCHEMA.name}: written for SQLite {sqlite3.sqlite_version}.")


if __name__ == "__main__":
    main()
