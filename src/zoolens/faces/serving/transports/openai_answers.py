"""Answers as clients of OpenAI read them: whole ones, the chunks of a stream, and errors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

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

Document = dict[str, Any]


def error_document(error: ServingError) -> Document:
    parameter = error.parameter if isinstance(error, WrongParameter) else None
    kind = _KINDS.get(error.refusal, "server_error")
    return {"error": {"message": str(error), "type": kind, "param": parameter, "code": None}}


class Answer:
    """The answer to one request."""

    def __init__(self, request: OpenAiRequest) -> None:
        self._request = request
        self._chat = request.chat
        self._head = {
            "id": f"{'chatcmpl' if request.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": request.generation.model,
        }

    def whole(self, parts: Sequence[TextPart]) -> Document:
        last = parts[-1]
        text = "".join(part.text for part in parts)
        tokens = [token for part in parts for token in part.tokens]
        choice: Document = {"index": 0, "logprobs": self._logarithms(tokens), "finish_reason": last.end}
        if self._chat:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["text"] = text
        name = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": name, "choices": [choice], "usage": _usage(last)}

    def begin(self) -> Iterator[Document]:
        """What a stream begins with."""
        if self._chat:
            yield self._chunk({"delta": {"role": "assistant", "content": ""}}, None, "")

    def chunks(self, part: TextPart) -> Iterator[Document]:
        logarithms = self._logarithms(part.tokens) if part.tokens else None
        if self._chat:
            if part.text or part.tokens:
                yield self._chunk({"delta": {"content": part.text}}, logarithms, "")
            if part.end:
                yield self._chunk({"delta": {}}, None, part.end)
        else:
            yield self._chunk({"text": part.text}, logarithms, part.end)
        if part.end and self._request.counted:
            yield {**self._head, "object": self._of_chunks, "choices": [], "usage": _usage(part)}

    @property
    def _of_chunks(self) -> str:
        return "chat.completion.chunk" if self._chat else "text_completion"

    def _chunk(self, said: Document, logarithms: Document | None, end: str) -> Document:
        choice = {"index": 0, **said, "logprobs": logarithms, "finish_reason": end or None}
        return {**self._head, "object": self._of_chunks, "choices": [choice]}

    def _logarithms(self, tokens: Sequence[WrittenToken]) -> Document | None:
        if self._request.generation.top is None:
            return None
        if self._chat:
            each = [{**_token(one.chosen), "top_logprobs": [*map(_token, one.likely)]} for one in tokens]
            return {"content": each, "refusal": None}
        return {
            "tokens": [_text(one.chosen) for one in tokens],
            "token_logprobs": [one.chosen.logarithm for one in tokens],
            "top_logprobs": [{_text(likely): likely.logarithm for likely in one.likely} for one in tokens],
            "text_offset": [one.start for one in tokens],
        }


def _text(token: LikelyToken) -> str:
    return token.piece.decode(errors="replace")


def _token(token: LikelyToken) -> Document:
    return {"token": _text(token), "logprob": token.logarithm, "bytes": list(token.piece)}


def _usage(last: TextPart) -> Document:
    return {
        "prompt_tokens": last.prompt_tokens,
        "completion_tokens": last.written_tokens,
        "total_tokens": last.prompt_tokens + last.written_tokens,
    }
