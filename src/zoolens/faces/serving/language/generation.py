"""The language models of a data plane: texts that they write, token by token.

Each token is a request to the plane, which lets it wait, run and fail like any other. A client that goes away ends the
text with the token that is being computed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from zoolens.base.errors import DatasetError, ManifestError, ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.contracts.language import Conversation, GenerationRequest, TextPart
from zoolens.faces.serving.language.echoed_prompt import check_echo, echoed
from zoolens.faces.serving.language.open_language import OpenLanguage, writes_text
from zoolens.faces.serving.language.service_texts import ServiceText, tokens_to_write
from zoolens.faces.serving.language.text_writer import Room, TextWriter
from zoolens.faces.serving.language.token_choice import Floats
from zoolens.faces.serving.language.turns import Turns
from zoolens.faces.serving.plane.data_plane import Plane
from zoolens.faces.serving.plane.endpoint import Endpoint
from zoolens.faces.serving.plane.next_token import NextTokenRequest, PlacedRequest
from zoolens.faces.serving.plane.served_model import OpenModel
from zoolens.faces.serving.plane.text_request import ends_of_calls
from zoolens.inventory.runtimes.sequences import log_probabilities

MOST_SECONDS: Final = 600.0  # of one text


class Languages:
    """Implements `zoolens.faces.serving.contracts.language.LanguageService`. Made and used on one event loop; close it
    when the server ends."""

    def __init__(self, plane: Plane, *, most_seconds: float = MOST_SECONDS) -> None:
        self._plane, self._most_seconds = plane, most_seconds
        self._open: dict[str, OpenLanguage] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._turns: WeakKeyDictionary[OpenModel, Turns] = WeakKeyDictionary()
        self._accepting = True
        self._known: set[str] = set()
        self.names()
        self._replaced: list[OpenLanguage] = []
        self._texts = 0  # that are being written or wait for their turn
        self._idle = asyncio.Event()

    def names(self) -> list[str]:
        """The language models, with those that were closed to save memory: the next text opens them again. And the
        services that write texts."""
        endpoints = self._plane.endpoints
        self._known |= {endpoint.name for endpoint in endpoints if _writes(endpoint)}
        return sorted(self._known & {endpoint.name for endpoint in endpoints})

    async def generate(self, request: GenerationRequest) -> AsyncIterator[TextPart]:
        if not self._accepting:
            raise ServingError(Refusal.UNAVAILABLE, "The server is shutting down and begins no more texts.")
        self._texts += 1
        try:
            async with aclosing(self._written(request)) as parts:
                async for part in parts:
                    yield part
        finally:
            self._texts -= 1
            if not self._texts:
                self._idle.set()
                self._close_replaced()

    async def drain(self, seconds: float) -> None:
        self._accepting = False
        if self._texts:
            self._idle.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._idle.wait()

    async def _written(self, request: GenerationRequest) -> AsyncGenerator[TextPart, None]:
        endpoint = self._plane.endpoint(request.model)
        language = await (self._of_service(endpoint) if endpoint.service else self._language(endpoint))
        try:
            ids = await asyncio.to_thread(language.prompt, request.prompt)
        except (DatasetError, ManifestError) as error:
            raise ServingError(Refusal.INVALID, error.message, hint=error.hint) from error
        seconds = min(self._most_seconds, request.deadline or self._most_seconds)
        if endpoint.texts is not None:
            most = tokens_to_write(request, len(ids), endpoint.texts)
            async with aclosing(ServiceText(request, language, ids, most).parts(self._plane, seconds)) as parts:
                async for part in parts:
                    yield part
            return
        until = time.monotonic() + seconds
        free = language.declared.max_length - len(ids)
        most = free if request.most is None else min(request.most, free)
        scored = request.echo and request.top is not None
        if scored:
            check_echo(len(ids), language.declared.vocabulary)
        async with self._turn(language, request.model, ids, until) if most or scored else nullcontext(0) as place:
            before = 0
            if request.echo:
                part = await self._echoed(request, language, ids, place, until)
                before = len(part.text)
                yield part
            behind = () if isinstance(request.prompt, Conversation) else ids
            writer = TextWriter(request, language.tokenizer, Room(len(ids), most, language.ends, before, behind))
            if most == 0:
                yield writer.nothing()
                return
            text, end = list(ids), ""
            while not end:
                step = _Step(text, place, until)
                part = await asyncio.to_thread(writer.add, await self._after(request, language, step))
                text.append(writer.chosen[-1])
                end = part.end
                if part.text or part.tokens or part.end:
                    yield part

    def _turn(
        self, language: OpenLanguage, name: str, ids: list[int], until: float
    ) -> AbstractAsyncContextManager[int]:
        """By the open model, which may have several names."""
        model = language.model
        turns = self._turns.get(model)
        if turns is None:
            turns = Turns(len(model.instances), self._plane.endpoint(name).settings.max_queue)
            self._turns[model] = turns
        return turns.turn(ids, max(0.0, until - time.monotonic()), model.known)

    async def _echoed(
        self, request: GenerationRequest, language: OpenLanguage, ids: list[int], place: int, until: float
    ) -> TextPart:
        scores = None
        if request.top is not None:
            asked = PlacedRequest(**self._asked(request, language, _Step(ids, place, until)), place=place)
            answer = await self._plane.infer(asked)
            scores = language.scores(answer.outputs, len(ids))
        return await asyncio.to_thread(echoed, ids, scores, request.top or 0, language.tokenizer)

    async def close(self) -> None:
        opened, self._open = [*self._open.values(), *self._replaced], {}
        self._replaced.clear()
        for language in opened:
            await asyncio.to_thread(language.close)

    async def _after(self, request: GenerationRequest, language: OpenLanguage, step: _Step) -> Floats:
        """The distribution over the next token."""
        if language.continues:
            try:
                return await self._continued(request, language, step)
            except ServingError as error:
                if error.refusal is not Refusal.UNSUPPORTED:
                    raise
                # Its runtime keeps keys and values, but not of this model.
                language.continues = False
        answer = await self._plane.infer(InferRequest(**self._asked(request, language, step)))
        return log_probabilities(language.scores(answer.outputs, len(step.ids))[-1].astype(np.float64))

    async def _continued(self, request: GenerationRequest, language: OpenLanguage, step: _Step) -> Floats:
        """What the instance does not know of a long text takes several calls, and a client that goes away ends it."""
        model = self._plane.endpoint(request.model).reference.model
        known = 0 if model is None else model.known(step.place, step.ids)
        for end in ends_of_calls(known, len(step.ids)):
            asked = self._asked(request, language, replace(step, ids=step.ids[:end]))
            answer = await self._plane.infer(NextTokenRequest(**asked, tokens=language.tokens, place=step.place))
        (after,) = answer.outputs.values()
        return log_probabilities(after[0].astype(np.float64))

    def _check_same(self, language: OpenLanguage, name: str) -> None:
        """Refuse to go on with a model that was replaced: the tokens so far are those of another one."""
        model = self._plane.endpoint(name).reference.model
        if model is not None and model.stamps != language.model.stamps:
            raise ServingError(
                Refusal.UNAVAILABLE, f"Model '{name}' was replaced while it wrote this text.", hint="Try again."
            )

    def _asked(self, request: GenerationRequest, language: OpenLanguage, step: _Step) -> dict[str, Any]:
        """What every inference for a text is asked with."""
        left = step.until - time.monotonic()
        if left <= 0:
            raise ServingError(
                Refusal.TOO_LATE, f"Model '{request.model}' did not end the text in the time that it has."
            )
        self._check_same(language, request.model)
        return {
            "model": request.model,
            "inputs": language.feeds(step.ids),
            "deadline": left,
            "traceparent": request.traceparent,
            "headers": request.headers,
        }

    async def _of_service(self, endpoint: Endpoint) -> OpenLanguage:
        """The tokens and templates of a service, which are the same of all its tiers: those of any that is open."""
        if endpoint.texts is None:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"'{endpoint.name}' is a service that writes no texts.",
                hint="Say in its definition how long they may be (texts), or serve the model by its own name.",
            )
        async with self._locks.setdefault(endpoint.name, asyncio.Lock()):
            opened = self._open.get(endpoint.name)
            if opened is not None and opened.model.key.spec in [state.slot.key.spec for state in endpoint.rungs]:
                return opened
            open_models = (state.slot.model for state in endpoint.rungs)
            model = next((model for model in open_models if model is not None), None)
            return await self._opened(endpoint.name, model or await self._plane.pool.ensure(endpoint.reference))

    async def _language(self, endpoint: Endpoint) -> OpenLanguage:
        name = endpoint.name
        async with self._locks.setdefault(name, asyncio.Lock()):
            model = await self._plane.pool.ensure(endpoint.reference)
            if not writes_text(model.entry.manifest):
                raise ServingError(
                    Refusal.INVALID,
                    f"Model '{name}' writes no texts: its task is {model.entry.manifest.task}.",
                    hint="/v1/models lists those that do.",
                )
            opened = self._open.get(name)
            if opened is not None and opened.model is model:
                return opened
            # The model was loaded again, perhaps from other files.
            return await self._opened(name, model)

    async def _opened(self, name: str, model: OpenModel) -> OpenLanguage:
        """What is needed beside the session of a model, instead of what was open under this name."""
        try:
            new = await asyncio.to_thread(OpenLanguage, model)
        except ZoolensError as error:
            raise ServingError(Refusal.UNAVAILABLE, f"Model '{name}' cannot write texts: {error.message}") from error
        old, self._open[name] = self._open.get(name), new
        if old is not None:
            self._replaced.append(old)
        return new

    def _close_replaced(self) -> None:
        """Close what was replaced, once no text is written with it any more."""
        loop = asyncio.get_running_loop()
        for language in self._replaced:
            loop.run_in_executor(None, language.close)
        self._replaced.clear()


@dataclass(frozen=True)
class _Step:
    """A text so far, where it is written, and until when."""

    ids: list[int]
    place: int
    until: float


def _writes(endpoint: Endpoint) -> bool:
    if endpoint.service:
        return endpoint.texts is not None
    model = endpoint.reference.model
    return model is not None and writes_text(model.entry.manifest)
