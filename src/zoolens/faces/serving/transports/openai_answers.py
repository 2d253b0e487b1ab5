"""Answers as clients of OpenAI read them: whole ones, the chunks of a stream, and errors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from zoolens.base.protocol import json_text
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.contracts.language import LikelyToken, TextPart, WrittenToken
from zoolens.faces.serving.transports.openai_requests import OpenAiRequest, WrongParameter

_KINDS: Final = {
    Refusal.INVALID: "invalid_request_error",
    Refusal.UNAUTHENTICATED: "authentication_error",
    Refusal.FORBIDDEN: "permission_error",
    Refusal.NOT_FOUND: "not_found_error",
    Refusal.TOO_LARGE: "invalid_request_error",
    Refusal.UNSUPPORTED: "invalid_request_error",
    Refusal.OVERLOADED: "rate_limit_error",
}

ANSWERED_BY: Final = "zoolens_model"  # the name of the field
_LEAST: Final = -9999.0  # what OpenAI and vLLM write for minus infinity, which is no JSON

Document = dict[str, Any]


def error_document(error: ServingError) -> Document:
    parameter = json_text.clean(error.parameter) if isinstance(error, WrongParameter) else None
    kind = _KINDS.get(error.refusal, "server_error")
    return {"error": {"message": json_text.clean(str(error)), "type": kind, "param": parameter, "code": None}}


class Answer:
    """The answer to one request, whose prompts are numbered by their places."""

    def __init__(self, request: OpenAiRequest) -> None:
        self._request = request
        self._chat = request.chat
        self._top = request.generations[0].top
        self._head = {
            "id": f"{'chatcmpl' if request.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": request.generations[0].model,
        }

    def whole(self, answers: Sequence[Sequence[TextPart]]) -> Document:
        """`answers`: the parts behind each prompt."""
        choices = [self._choice(place, parts) for place, parts in enumerate(answers)]
        name = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": name, "choices": choices, "usage": _usage([parts[-1] for parts in answers])}

    def _choice(self, place: int, parts: Sequence[TextPart]) -> Document:
        text = "".join(part.text for part in parts)
        tokens = [token for part in parts for token in part.tokens]
        said: Document = {"text": text}
        if self._chat:
            said = {"message": {"role": "assistant", "content": text, "refusal": None}}
        choice = {"index": place, **said, "logprobs": self._logarithms(tokens), "finish_reason": parts[-1].end}
        return {**choice, **_tier(parts[-1])}

    def begin(self) -> Iterator[Document]:
        """What a stream begins with."""
        if self._chat:
            yield self._chunk(0, {"delta": {"role": "assistant", "content": ""}}, None, "")

    def chunks(self, place: int, part: TextPart) -> Iterator[Document]:
        logarithms = self._logarithms(part.tokens) if part.tokens else None
        if not self._chat:
            yield self._chunk(place, {"text": part.text, **_tier(part)}, logarithms, part.end)
            return
        if part.text or part.tokens:
            yield self._chunk(place, {"delta": {"content": part.text}, **_tier(part)}, logarithms, "")
        if part.end:
            yield self._chunk(place, {"delta": {}, **_tier(part)}, None, part.end)

    def end(self, last: Sequence[TextPart]) -> Iterator[Document]:
        """What a stream ends with. `last`: the last part behind each prompt."""
        if self._request.counted:
            yield {**self._head, "object": self._of_chunks, "choices": [], "usage": _usage(last)}

    @property
    def _of_chunks(self) -> str:
        return "chat.completion.chunk" if self._chat else "text_completion"

    def _chunk(self, place: int, said: Document, logarithms: Document | None, end: str) -> Document:
        choice = {"index": place, **said, "logprobs": logarithms, "finish_reason": end or None}
        return {**self._head, "object": self._of_chunks, "choices": [choice]}

    def _logarithms(self, tokens: Sequence[WrittenToken]) -> Document | None:
        if self._top is None:
            return None
        if self._chat:
            each = [{**_token(one.chosen), "top_logprobs": [*map(_token, one.likely)]} for one in tokens]
            return {"content": each, "refusal": None}
        return {
            "tokens": [self._name(one.chosen) for one in tokens],
            "token_logprobs": [_logarithm(one.chosen) for one in tokens],
            "top_logprobs": [self._likely(one) for one in tokens],
            "text_offset": [one.start for one in tokens],
        }

    def _likely(self, token: WrittenToken) -> Document | None:
        """The tokens by their names, the likeliest first; of two with one name (half characters), the likelier."""
        if token.chosen.logarithm is None:
            return None
        likeliest: Document = {}
        for likely in token.likely:
            likeliest.setdefault(self._name(likely), _logarithm(likely))
        return likeliest

    def _name(self, token: LikelyToken) -> str:
        return f"token_id:{token.number}" if self._request.numbered else _text(token)


def _tier(part: TextPart) -> Document:
    """Which model of a service wrote it; nothing where it is no service."""
    model = part.by.get(ANSWERED_BY)
    return {} if model is None else {ANSWERED_BY: model}


def _text(token: LikelyToken) -> str:
    return token.piece.decode(errors="replace")


def _logarithm(token: LikelyToken) -> float | None:
    return None if token.logarithm is None else max(token.logarithm, _LEAST)


def _token(token: LikelyToken) -> Document:
    return {"id": token.number, "token": _text(token), "logprob": _logarithm(token), "bytes": list(token.piece)}


def _usage(last: Sequence[TextPart]) -> Document:
    given, written = sum(part.prompt_tokens for part in last), sum(part.written_tokens for part in last)
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}
