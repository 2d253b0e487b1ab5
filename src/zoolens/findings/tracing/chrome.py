"""Spans as Chrome's trace events, which Perfetto and chrome://tracing open.

Each level that was observed is a process of its own in the picture, since its calls were other calls; within it, the
levels of spans are threads. On one thread of this format spans may nest but not cross: those that cross others get
further threads.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS: Final = ("kind", "kernel", "precision", "device")


def write_chrome(path: Path, tables: Iterable[tuple[str, pa.Table]]) -> None:
    """Write tables of spans, each with a title, as one JSON file."""
    path.write_text(chrome_text(tables), encoding="utf-8")


def chrome_text(tables: Iterable[tuple[str, pa.Table]]) -> str:
    """Tables of spans, each with a title, as one JSON document. Times are microseconds from the first span on."""
    titled = [(title, table.to_pylist()) for title, table in tables]
    first = min((row["time"] for _, rows in titled for row in rows), default=0)
    processes = count(1)
    events = [event for title, rows in titled for event in _events(title, rows, first, processes)]
    document = {"displayTimeUnit": "ns", "otherData": {"zero": f"{first} ns since 1970"}, "traceEvents": events}
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


def _events(
    title: str, rows: Sequence[Mapping[str, Any]], first: int, processes: Iterator[int]
) -> Iterator[dict[str, Any]]:
    for observed in dict.fromkeys(row["observed"] for row in rows):
        process = next(processes)
        own = [row for row in rows if row["observed"] == observed]
        name = f"{title}: {observed} observed" if observed != "none" else f"{title}: whole requests only"
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        lanes = _lanes(own)
        for number, lane in enumerate(dict.fromkeys(lanes)):
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": lane}}
        numbers = {lane: number for number, lane in enumerate(dict.fromkeys(lanes))}
        for row, lane in zip(own, lanes, strict=True):
            yield {
                "ph": "X",
                "name": row["name"],
                "cat": row["level"],
                "ts": (row["time"] - first) / 1000,
                "dur": row["duration"] / 1000,
                "pid": process,
                "tid": numbers[lane],
                "args": _arguments(row),
            }


def _lanes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where each span is drawn: one line for its level and thread, and further ones where spans cross."""
    lanes = [""] * len(rows)
    # By line: the ends of spans that hold each other.
    open_until: dict[str, list[int]] = defaultdict(list)
    for place in sorted(range(len(rows)), key=lambda place: (rows[place]["time"], -rows[place]["duration"])):
        row = rows[place]
        thread = "" if row["thread"] is None else f", thread {row['thread']}"
        device = "" if row["device"] == "cpu" else f" on {row['device']}"
        base, number = f"{row['level']}{device}{thread}", 1
        while not _fits(open_until[lane := base if number == 1 else f"{base} ({number})"], row):
            number += 1
        lanes[place] = lane
    return lanes


def _fits(ends: list[int], row: Mapping[str, Any]) -> bool:
    """Whether a span begins after the others on its line, or lies within the last one; it is then added to them."""
    while ends and ends[-1] <= row["time"]:
        ends.pop()
    if ends and ends[-1] < row["time"] + row["duration"]:
        return False
    ends.append(row["time"] + row["duration"])
    return True


def _arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {name: row[name] for name in _TEXTS if row[name] is not None}
    if row["nodes"]:
        known["nodes"] = row["nodes"]
    if row["shapes"]:
        known["shapes"] = ["×".join(map(str, shape)) for shape in row["shapes"]]
    start = {"start": "laid out: the framework reports durations only"} if row["synthetic"] else {}
    return {**known, **start, "repeat": row["repeat"], "clean": row["clean"]}
