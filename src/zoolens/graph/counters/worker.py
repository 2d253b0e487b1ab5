"""The process that runs counters; `running` starts it.

Its settings have the job: the model (importer and request) and the counters to run, as "module:attribute"; and the
file for the results, which gets a line of JSON as each is done: {"value": number, "terms": {…}} or {"error": sentence}.
The terms are predicted from the raw graph, which has every operator that a counter may charge for.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoolens.errors import ZoolensError
from zoolens.graph.counters.base import Counter
from zoolens.graph.counters.subjects import Subject
from zoolens.graph.importers.base import Importer, Request
from zoolens.graph.model import Graph


def main(settings: Mapping[str, Any], _began_ns: int = 0) -> None:
    told, results = settings["job"], Path(settings["results"])
    subject = Subject(told["plugin"], _request(told["request"]))
    graph = _named(told["importer"], Importer).load(subject.request)
    for point in told["counters"]:
        line = json.dumps(answer(_named(point, Counter), subject, graph))
        with results.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def answer(counter: Counter, subject: Subject, graph: Graph) -> dict[str, Any]:
    try:
        value = counter.count(subject)
    except (Exception, SystemExit) as error:
        told = error.message if isinstance(error, ZoolensError) else f"{type(error).__name__}: {error}"
        return {"error": (told.strip().splitlines() or [type(error).__name__])[0][:300]}
    return {"value": value, "terms": counter.convention(graph).predicted(graph)}


def _named(point: str, kind: type[Any]) -> Any:
    module, _, attribute = point.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, kind):
        raise TypeError(f"{point} is no {kind.__name__}")
    return found


def _request(told: Mapping[str, Any]) -> Request:
    size = told["size"]
    return Request(told["subject"], (size[0], size[1]) if size else None, told["arguments"], told["files"])
