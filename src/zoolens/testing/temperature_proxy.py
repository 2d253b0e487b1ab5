"""A server between a client and a real one that answers at a temperature of its own, whatever it is asked for."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from zoolens.testing.endpoint_server import Reply, answering


@contextmanager
def cooled(address: str, temperature: float) -> Iterator[str]:
    """The address of the server between, which ends with the block."""
    parts = urlsplit(address)

    def answer(path: str, document: dict[str, Any], headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        try:
            if document:
                body = json.dumps({**document, "temperature": temperature})
                connection.request("POST", path, body, {"Content-Type": "application/json"})
            else:
                connection.request("GET", path)
            response = connection.getresponse()
            return Reply(status=response.status, content=response.read())
        finally:
            connection.close()

    with answering(answer) as between:
        yield between
