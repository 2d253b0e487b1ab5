"""The API of OpenAI for language models: /v1/models, /v1/completions and /v1/chat/completions.

A stream is answered with its status once the first part of the text is there: what can be refused is refused before,
with a status of its own. An error in the middle of a stream is its last event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from zoolens.base.protocol import json_text
from zoolens.base.protocol.datatypes import Buffer
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.contracts.language import GenerationRequest, LanguageService, TextPart
from zoolens.faces.serving.transports.bodies import BodyReader, HeldBytes, Receive, Send
from zoolens.faces.serving.transports.http_inference import DECODE_IN_THREAD, HttpAnswer, error_answer, http_answer
from zoolens.faces.serving.transports.openai_answers import Answer, Document, error_document
from zoolens.faces.serving.transports.openai_requests import OpenAiRequest, read_chat, read_completion
from zoolens.faces.serving.transports.request_headers import answered_by, caller, unforeseen

Reader = Callable[[Mapping[str, Any]], OpenAiRequest]

PREFIX: Final = "/v1/"
_MODELS: Final = "/v1/models"
_MOST_BYTES: Final = 8 << 20  # of a body: a prompt of a megabyte, with every character escaped
_READERS: Final[Mapping[str, Reader]] = {
    "/v1/completions": read_completion,
    "/v1/chat/completions": read_chat,
}
_JSON: Final = {"Content-Type": "application/json"}
_EVENTS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_DONE: Final = b"data: [DONE]\n\n"

Parts = AsyncGenerator[TextPart, None]


class OpenAiRoutes:
    """`language`: None where a server has nobody who writes texts, such as one in front of a cluster."""

    def __init__(self, language: LanguageService | None, bodies: BodyReader) -> None:
        self._language, self._bodies = language, bodies

    async def read(
        self, scope: MutableMapping[str, Any], headers: Mapping[str, str], receive: Receive, held: HeldBytes
    ) -> OpenAiRequest | HttpAnswer:
        """What is asked, or the answer where nothing has to be written for it. `held`: until it is answered."""
        path, method = scope["path"], scope["method"]
        reader = _READERS.get(path)
        wanted = "GET" if reader is None else "POST"
        known = reader is not None or path == _MODELS or path.startswith(f"{_MODELS}/")
        if not known or method != wanted:
            raise ServingError(
                Refusal.NOT_FOUND,
                f"There is nothing at {path[:200]!r} for {method}; there are GET {_MODELS} and POST "
                f"{' and '.join(_READERS)}.",
            )
        if self._language is None:
            raise ServingError(Refusal.UNSUPPORTED, "Texts are written on one machine only, not on a cluster.")
        if reader is None:
            return _json(self._models(path.removeprefix(_MODELS).lstrip("/")))
        content = await self._bodies.read(held, headers, receive, most=_MOST_BYTES)
        if len(content) <= DECODE_IN_THREAD:
            return _of_caller(_read(reader, content), headers)
        return _of_caller(await held.in_thread(_read, reader, content), headers)

    async def answer(self, request: OpenAiRequest, send: Send) -> HttpAnswer | None:
        """The answer; None where it was streamed."""
        assert self._language is not None
        if request.streamed:
            await self._stream(request, send)
            return None
        answers = []
        for generation in request.generations:
            async with self._parts(generation) as parts:
                answers.append([part async for part in parts])
        return _json(Answer(request).whole(answers), _tier_fields(request, answers[0][-1]))

    def _parts(self, generation: GenerationRequest) -> aclosing[Parts]:
        assert self._language is not None
        return aclosing(cast("Parts", self._language.generate(generation)))

    async def _stream(self, request: OpenAiRequest, send: Send) -> None:
        """One prompt after the other."""
        answer = Answer(request)
        last: list[TextPart] = []
        began = False
        try:
            for place, generation in enumerate(request.generations):
                async with self._parts(generation) as parts:
                    async for part in parts:
                        if not began:
                            began = True
                            fields = _tier_fields(request, part)
                            headers = [*_EVENTS, *((name.encode(), value.encode()) for name, value in fields.items())]
                            await send({"type": "http.response.start", "status": 200, "headers": headers})
                            await _send_events(send, answer.begin())
                        await _send_events(send, answer.chunks(place, part))
                last.append(part)
        except Exception as error:
            if not began:
                raise
            refused = error if isinstance(error, ServingError) else unforeseen(error)
            await _send_events(send, [error_document(refused)])
            await send({"type": "http.response.body", "body": b""})
            return
        await _send_events(send, answer.end(last))
        await send({"type": "http.response.body", "body": _DONE})

    def _models(self, name: str) -> Document:
        assert self._language is not None
        listed = [
            {"id": known, "object": "model", "created": 0, "owned_by": "zoolens"} for known in self._language.names()
        ]
        if not name:
            return {"object": "list", "data": listed}
        found = next((model for model in listed if model["id"] == name), None)
        if found is None:
            raise ServingError(Refusal.NOT_FOUND, f"There is no language model '{name[:200]}' here.")
        return found


def openai_error(error: Exception) -> HttpAnswer:
    """An error in the form that clients of OpenAI read."""
    refused = error if isinstance(error, ServingError) else unforeseen(error)
    answer = error_answer(refused)
    fields = {name: value for name, value in answer.fields.items() if name.lower() != "content-length"}
    return http_answer(answer.status, fields, json_text.dump(error_document(refused)))


def _read(reader: Reader, content: Buffer) -> OpenAiRequest:
    return reader(json_text.parse_object(content))


def _of_caller(request: OpenAiRequest, headers: Mapping[str, str]) -> OpenAiRequest:
    """The request with what its headers say."""
    asked = caller(headers)
    generations = [
        replace(each, deadline=asked.deadline(None), traceparent=asked.traceparent, headers=asked.headers)
        for each in request.generations
    ]
    return replace(request, generations=tuple(generations))


def _tier_fields(request: OpenAiRequest, part: TextPart) -> Mapping[str, str]:
    """Headers that say which model of a service wrote the only text: several may come from several models."""
    return answered_by(part.by) if len(request.generations) == 1 else {}


def _json(document: Document, fields: Mapping[str, str] | None = None) -> HttpAnswer:
    return http_answer(200, {**_JSON, **(fields or {})}, json_text.dump(document))


async def _send_events(send: Send, documents: Iterable[Document]) -> None:
    for document in documents:
        event = b"data: " + json_text.dump(document) + b"\n\n"
        await send({"type": "http.response.body", "body": event, "more_body": True})
