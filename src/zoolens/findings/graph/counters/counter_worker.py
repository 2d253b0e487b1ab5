"""The process that runs counters; `runner` asks it.

A request has the model (importer and request) and the counters to run, as "module:attribute". As each is done, progress
tells what it says: {"value": number, "terms": {…}} or {"error": sentence}. The terms are predicted from the raw graph,
which has every operator that a counter may charge for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoolens.base.engine.service import Message, Service
from zoolens.base.errors import ZoolensError
from zoolens.findings.graph.counters.counter import Counter
from zoolens.findings.graph.counters.subjects import CountedModel
from zoolens.findings.graph.importers.importer import Importer, Request, load_object
from zoolens.findings.graph.ir.model import Graph


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    service = Service(settings, began_ns)

    def answer(request: Message) -> None:
        subject = CountedModel(request["plugin"], Request.from_message(request["request"]))
        graph = load_object(request["importer"], Importer).load(subject.request)
        for point in request["counters"]:
            service.report(counted(load_object(point, Counter), subject, graph))

    service.serve(answer, lambda _: "The counting process")


def counted(counter: Counter, subject: CountedModel, graph: Graph) -> dict[str, Any]:
    try:
        value = counter.count(subject)
    except (Exception, SystemExit) as error:
        text = error.message if isinstance(error, ZoolensError) else f"{type(error).__name__}: {error}"
        return {"error": (text.strip().splitlines() or [type(error).__name__])[0][:300]}
    return {"value": value, "terms": counter.convention(graph).predicted(graph)}
