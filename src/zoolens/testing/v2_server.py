"""A small server of the Open Inference Protocol V2 for tests of its clients: it answers with any function, so that it
can also shed, fail, be slow or talk nonsense, which a good server does not do when a test wants it to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from zoolens.base.protocol import json_text
from zoolens.base.protocol.address import Address
from zoolens.base.protocol.documents import error_body, model_to_data, repository_to_data, server_to_data
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    RepositoryEntry,
    ServerMetadata,
    TensorMetadata,
)
from zoolens.base.protocol.rest import HEADER_LENGTH, Caller, decode_request, encode_response, parse_header_length

Answer = Callable[[InferRequest], InferResponse]

SERVER = ServerMetadata("test-server", "1.2.3", ("binary_tensor_data", "model_repository"))
NET = ModelMetadata(
    "net",
    ("1",),
    "test_platform",
    (TensorMetadata("input", "FP32", (-1, 4)),),
    (TensorMetadata("logits", "FP32", (-1, 3)),),
)


@contextmanager
def serving(
    answer: Answer,
    *,
    models: tuple[ModelMetadata, ...] = (NET,),
    server: ServerMetadata = SERVER,
    token: str = "",
    config: Mapping[str, Any] | None = None,
) -> Iterator[Address]:
    """A server on a free port of this machine, for as long as the block lasts. Without a `config` it has none."""

    class Handler(_Handler):
        asked = staticmethod(answer)
        by_name = {model.name: model for model in models}  # noqa: RUF012 - a class for one server
        about = server
        wanted_token = token
        configured = config

    httpd = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield Address("http", "127.0.0.1", httpd.server_address[1])
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512  # the usual 5 make a driver that opens many connections wait for seconds

    def handle_error(self, *_: Any) -> None:
        """Nothing: clients hang up, which tests want them to."""


class _Handler(BaseHTTPRequestHandler):
    asked: Answer
    by_name: dict[str, ModelMetadata]
    about: ServerMetadata
    wanted_token: str
    configured: Mapping[str, Any] | None
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(self._documents)

    def do_POST(self) -> None:
        self._answer(self._inference)

    def _answer(self, make: Callable[[list[str], bytes], tuple[bytes, dict[str, str]]]) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers = 200, {"Content-Type": "application/json"}
        try:
            self._check_token()
            body, more = make([unquote(part) for part in self.path.split("/")[1:]], content)
            headers |= more
        except ServingError as error:
            status, body = error.refusal.http, error_body(error)
        except ConnectionAbortedError:  # a test wants the server to hang up
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _check_token(self) -> None:
        if self.wanted_token and self.headers.get("Authorization") != f"Bearer {self.wanted_token}":
            raise ServingError(Refusal.UNAUTHENTICATED, "A token is needed.")

    def _documents(self, parts: list[str], content: bytes) -> tuple[bytes, dict[str, str]]:
        match parts:
            case ["v2"]:
                return json_text.dump(server_to_data(self.about)), {}
            case ["v2", "models", _, *_, "config"] if self.configured is not None:
                return json_text.dump(self.configured), {}
            case ["v2", "models", name] | ["v2", "models", name, "versions", _]:
                return json_text.dump(model_to_data(self._model(name))), {}
        raise ServingError(Refusal.NOT_FOUND, f"There is nothing at {self.path}.")

    def _inference(self, parts: list[str], content: bytes) -> tuple[bytes, dict[str, str]]:
        match parts:
            case ["v2", "repository", "index"]:
                entries = [RepositoryEntry(name, "1", "READY") for name in self.by_name]
                return json_text.dump(repository_to_data(entries)), {}
            case ["v2", "models", name, *version, "infer"]:
                length = parse_header_length(self.headers.get(HEADER_LENGTH))
                caller = Caller(traceparent=self.headers.get("traceparent"))
                number = version[1] if version else ""
                request = decode_request(self._model(name).name, number, content, length, caller=caller)
                body = encode_response(type(self).asked(request), request)
                return body.content(), body.headers
        raise ServingError(Refusal.NOT_FOUND, f"There is nothing at {self.path}.")

    def _model(self, name: str) -> ModelMetadata:
        if name not in self.by_name:
            raise ServingError(Refusal.NOT_FOUND, f"Request for unknown model: {name!r} is not found.")
        return self.by_name[name]

    def log_message(self, *_: Any) -> None:
        """Nothing: a test's output is not for this."""
