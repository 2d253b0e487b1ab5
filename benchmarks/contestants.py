"""What benchmarks/query.py compares: one search over the same records by ours, SQLite, DuckDB, a numpy mask and FAISS
LSH. Each is made ready for a table, then for a question; what is timed is the call that remains."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf, isinf

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.search.ranking import Ranking
from zoolens.findings.index.search.search_columns import Range, given_columns

LIMIT = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Figures by metric, and the score by which rows are ranked."""

    values: Mapping[str, Floats]
    score: Floats
    descending: bool = True

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True)
class Question:
    ranges: tuple[Range, ...]
    floor: float = -inf


Search = Callable[[], Iterable[int]]
Contestant = Callable[[Question], Search]  # made ready, then timed


def prepared(table: Table) -> Contestant:
    ranking = Ranking(given_columns(table.values), table.score, table.descending)
    return lambda asked: ranking.prepare(asked.ranges, LIMIT, floor=asked.floor)


def ad_hoc(table: Table) -> Contestant:
    ranking = Ranking(given_columns(table.values), table.score, table.descending)
    return lambda asked: lambda: ranking.top(asked.ranges, LIMIT, floor=asked.floor)


def numpy_mask(table: Table) -> Contestant:
    keys = -table.score if table.descending else table.score

    def search(asked: Question) -> list[int]:
        mask = table.score >= asked.floor
        for one in asked.ranges:
            mask &= one.holds(table.values[one.column])
        rows = np.flatnonzero(mask)
        if len(rows) > LIMIT:
            rows = rows[keys[rows] <= np.partition(keys[rows], LIMIT - 1)[LIMIT - 1]]
        return [int(row) for row in rows[np.argsort(keys[rows], kind="stable")][:LIMIT]]

    return lambda asked: lambda: search(asked)


def sql(asked: Question, descending: bool) -> tuple[str, list[float]]:
    terms: list[tuple[str, float]] = [] if isinf(asked.floor) else [("score >= ?", asked.floor)]
    for one in asked.ranges:
        ends = ((">" if one.open_low else ">=", one.low), ("<" if one.open_high else "<=", one.high))
        terms += [(f"{one.column} {sign} ?", end) for sign, end in ends if not isinf(end)]
    where = f" WHERE {' AND '.join(term for term, _ in terms)}" if terms else ""
    order = f" ORDER BY score{' DESC' if descending else ''}, id LIMIT {LIMIT}"
    return f"SELECT id FROM models{where}{order}", [end for _, end in terms]


def sqlite(table: Table) -> Contestant:
    """With a covering index in the order of the score."""
    base = sqlite3.connect(":memory:")
    names = ", ".join(table.values)
    base.execute(f"CREATE TABLE models (id INTEGER PRIMARY KEY, score REAL, {names})")
    columns = [np.arange(len(table)), table.score, *table.values.values()]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    base.executemany(f"INSERT INTO models VALUES ({', '.join('?' * len(columns))})", rows)
    base.execute(f"CREATE INDEX covering ON models (score{' DESC' if table.descending else ''}, id, {names})")
    base.execute("ANALYZE")

    def ready(asked: Question) -> Search:
        text, ends = sql(asked, table.descending)
        return lambda: [row for (row,) in base.execute(text, ends).fetchall()]

    return ready


def duckdb(table: Table) -> Contestant:
    import duckdb
    import pyarrow as pa

    base = duckdb.connect(":memory:", config={"threads": 1})
    base.register("given", pa.table({"id": np.arange(len(table)), "score": table.score, **table.values}))
    base.execute("CREATE TABLE models AS SELECT * FROM given")

    def ready(asked: Question) -> Search:
        text, ends = sql(asked, table.descending)
        return lambda: [row for (row,) in base.execute(text, ends).fetchall()]

    return ready


def faiss_lsh(table: Table) -> Contestant:
    """Nearest attribute vectors to the budget, by random hyperplanes: an index of resources as published."""
    import faiss

    faiss.omp_set_num_threads(1)
    names = list(table.values)
    vectors = np.stack([table.values[name] for name in names], axis=1)
    largest = vectors.max(axis=0)
    index = faiss.IndexLSH(len(names), 64)
    index.add((vectors / largest).astype(np.float32))
    middle = dict(zip(names, np.median(vectors, axis=0), strict=True))

    def ready(asked: Question) -> Search:
        wanted = middle | {one.column: min(one.high, 1e300) for one in asked.ranges}
        vector = (np.array([[wanted[name] for name in names]]) / largest).astype(np.float32)
        return lambda: index.search(vector, LIMIT)[1][0]

    return ready


CONTESTANTS: Mapping[str, Callable[[Table], Contestant]] = {
    "ours": prepared,
    "ours, ad hoc": ad_hoc,
    "numpy mask": numpy_mask,
    "SQLite": sqlite,
    "DuckDB": duckdb,
    "FAISS LSH": faiss_lsh,
}
ADVERSARIAL = ("ours", "ours, ad hoc", "numpy mask", "SQLite")
