"""The process that imports one framework and turns names or files into graphs; `export_pool` asks for them.

A request names the importer ("module:attribute") and has the fields of `Request`; the answer is {"graph": packed,
base64}. The graph is canonical unless "raw" is asked for: that work, too, is done here, in parallel. With "weights",
the values lie in the shared memory, and the answer says where in it.

It runs in environments that hold numpy and one framework: of zoolens, only `errors`, `graph` and what a worker needs of
`engine` are imported.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoolens.base.engine.service import Message, Service
from zoolens.base.engine.wire import Arena
from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Importer, Request, load_object
from zoolens.findings.graph.ir.model import Graph, checked
from zoolens.findings.graph.ir.serialisation import pack


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    service = Service(settings, began_ns)
    service.serve(lambda request: answer(request, service.outputs), doing)


def answer(request: Mapping[str, Any], values: Arena | None = None) -> Message:
    graph = _read(load_object(request["importer"], Importer), Request.from_message(request))
    wanted = graph if request.get("raw") else _canonical(graph)
    packed = base64.b64encode(pack(checked(wanted))).decode()
    if values is not None and request.get("weights"):
        return {"graph": packed, "weights": values.write(wanted.weights)}
    return {"graph": packed}


def doing(request: Mapping[str, Any]) -> str:
    """The subject's name, not where it lies: the sentence may be shown to others."""
    return f"Reading {Path(str(request.get('subject'))).name}"


def _read(importer: Importer, request: Request) -> Graph:
    try:
        return importer.load(request)
    except SystemExit as error:
        raise ModelError(f"{request.subject} made its library exit with {error.code!r}.") from error


def _canonical(graph: Graph) -> Graph:
    from zoolens.findings.graph.passes.canonical import canonical

    return canonical(graph)
