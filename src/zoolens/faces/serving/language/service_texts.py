"""Texts of a service: its policy chooses the tier of each when its turn comes, and that tier writes it to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferResponse
from zoolens.faces.serving.contracts.language import Conversation, GenerationRequest, TextPart
from zoolens.faces.serving.language.echoed_prompt import echoed
from zoolens.faces.serving.language.open_language import OpenLanguage
from zoolens.faces.serving.language.text_writer import Room, TextWriter
from zoolens.faces.serving.plane.data_plane import Plane
from zoolens.faces.serving.plane.text_request import TextLimits, TextRequest, TextTurn
from zoolens.inventory.runtimes.sequences import log_probabilities

_GONE: Final = "Nobody waits for this text any more."


def tokens_to_write(request: GenerationRequest, prompt: int, limits: TextLimits) -> int:
    """How many tokens a text may have. A ServingError where it is longer than the service's promise."""
    if request.echo and request.top is not None:
        raise ServingError(
            Refusal.UNSUPPORTED,
            f"Service '{request.model}' does not judge prompts: echo with logprobs is for models.",
            hint="Serve the model by its own name.",
        )
    if prompt > limits.prompt:
        raise ServingError(
            Refusal.INVALID, f"The prompt has {prompt:,} tokens; '{request.model}' accepts {limits.prompt:,} at most."
        )
    if not request.wished:
        return min(request.most or limits.answer, limits.answer)
    if request.most is not None and request.most > limits.answer:
        raise ServingError(
            Refusal.INVALID,
            f"{request.most:,} tokens are asked for; '{request.model}' writes {limits.answer:,} at most.",
        )
    if request.most == 0:
        raise ServingError(Refusal.INVALID, f"'{request.model}' writes one token at least; max_tokens is 0.")
    return limits.answer if request.most is None else request.most


class ServiceText:
    """One text, from its prompt on. It belongs to the event loop."""

    def __init__(self, request: GenerationRequest, language: OpenLanguage, ids: list[int], most: int) -> None:
        self._request, self._language, self._ids, self._most = request, language, ids, most
        self._parts: asyncio.Queue[TextPart | ServingError] = asyncio.Queue()
        self._last: TextPart | None = None  # kept until the text is counted
        self._gone = False

    async def parts(self, plane: Plane, seconds: float) -> AsyncGenerator[TextPart, None]:
        """`seconds`: how long it may take, with its wait."""
        request = self._request
        asked = TextRequest(
            model=request.model,
            inputs={},
            deadline=seconds,
            traceparent=request.traceparent,
            headers=request.headers,
            most=self._most,
            write=self._write,
        )
        cancel = plane.submit(asked, self._done)
        try:
            while True:
                part = await self._parts.get()
                if isinstance(part, ServingError):
                    raise part
                yield part
                if part.end:
                    return
        finally:
            self._gone = True
            cancel()

    def _done(self, result: InferResponse | ServingError) -> None:
        self._gone = True
        if isinstance(result, ServingError):
            self._parts.put_nowait(result)
        elif self._last is not None:
            self._parts.put_nowait(self._last)

    async def _write(self, turn: TextTurn) -> int:
        """Write the whole text with one tier."""
        before = 0
        if self._request.echo:
            part = await asyncio.to_thread(echoed, self._ids, None, 0, self._language.tokenizer)
            before = len(part.text)
            self._parts.put_nowait(replace(part, by=turn.by))
        behind = () if isinstance(self._request.prompt, Conversation) else self._ids
        room = Room(len(self._ids), self._most, self._language.ends, before, behind)
        writer = TextWriter(self._request, self._language.tokenizer, room)
        text = list(self._ids)
        while self._last is None:
            after = log_probabilities(await self._after(turn, text))
            part = replace(await asyncio.to_thread(writer.add, after), by=turn.by)
            text.append(writer.chosen[-1])
            if part.end:
                self._last = part
            elif part.text or part.tokens:
                self._parts.put_nowait(part)
        return len(writer.chosen)

    async def _after(self, turn: TextTurn, text: list[int]) -> np.ndarray:
        tokens = np.array(text, np.int32)
        for end in turn.ends(tokens):
            if self._gone:
                raise ZoolensError(_GONE)
            after = await turn.after(tokens[:end])
        return after
