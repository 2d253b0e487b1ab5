"""Asking an endpoint for the next token after prompts, by the way that it understands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.findings.endpoints.candidate_model import CandidateModel
from zoolens.findings.endpoints.prompt_pool import SHORT, Prompt, PromptPool
from zoolens.findings.endpoints.told_distance import tells_enough
from zoolens.inventory.runtimes.openai.endpoint_answers import NextToken, in_vocabulary
from zoolens.inventory.runtimes.openai.endpoint_client import EndpointClient
from zoolens.inventory.runtimes.openai.endpoint_connection import EndpointRefusal

# How many likely tokens are asked for: what llama.cpp and vLLM give, what OpenAI's completions give, none.
_TOPS: Final = (20, 5, 0)
_FEWEST: Final = min(top for top in _TOPS if top)
_SYSTEM: Final = "You are a helpful assistant."
_WISH: Final = "Continue this text:\n\n"


class By(Enum):
    """What is compared with the model's distribution."""

    LOGPROBS = "logprobs"  # the log-probabilities that the endpoint tells
    TOKENS = "tokens"  # the tokens that it chooses


class Refused(ZoolensError):
    """The endpoint does not take a prompt of this length, but took shorter ones."""


class Questioner:
    """Asks one endpoint. `by`: None takes log-probabilities where the endpoint tells any."""

    def __init__(self, client: EndpointClient, model: CandidateModel, *, chat: bool, by: By | None, seed: int) -> None:
        self._client, self._model, self._chat = client, model, chat
        self._tops: Sequence[int] = (0,) if by is By.TOKENS else _TOPS
        self._wanted = by
        self.by = by
        self._taken = self._told_any = False
        self._longest_taken = 0  # tokens
        self._random = np.random.default_rng(seed)

    def evident(self, told: NextToken, allowance: float) -> bool:
        """Whether enough is told for a distance."""
        return tells_enough(told, max(self._tops[0], _FEWEST), allowance)

    @property
    def around(self) -> int:
        """Tokens that a chat's template puts around a prompt."""
        return len(self._model.conversation(_conversation(""))) if self._chat else 0

    def too_long(self, prompt: Prompt) -> bool:
        """Whether a prompt that was refused is too long: none as long was taken, and its beginning is."""
        if self._longest_taken >= len(prompt.ids):
            return False
        try:
            self._told(replace(prompt, ids=prompt.ids[: SHORT[0]]), self._tops[0])
        except EndpointRefusal:
            return False
        return True

    def ids(self, prompt: Prompt) -> list[int]:
        """The tokens that the model sees of a prompt."""
        if not self._chat:
            return list(prompt.ids)
        return self._model.conversation(_conversation(self._piece(prompt)))

    def ask(self, prompt: Prompt) -> NextToken:
        while True:
            try:
                told = self._told(prompt, self._tops[0])
            except EndpointRefusal as error:
                if not error.of_request and error.status != 413:
                    raise
                if self._taken:
                    raise Refused(str(error)) from error
                # Nothing was taken so far: it may be the number of likely tokens that it does not take.
                if len(self._tops) == 1:
                    raise self._unusable(error) from error
                self._tops = self._tops[1:]
                continue
            if not self._told_any and 0 < len(told.top) < self._tops[0] and len(told.top) >= self._tops[1] > 0:
                self._tops = self._tops[1:]  # it tells fewer than it is asked for, and does not say so
            self._settle(told)
            self._longest_taken = max(self._longest_taken, len(prompt.ids))
            return told

    def _told(self, prompt: Prompt, top: int) -> NextToken:
        seed = int(self._random.integers(1 << 31))  # a server with a fixed seed would draw the same place each time
        # llama.cpp computes what stands behind a cached beginning with other kernels, and the rounding of a quantised
        # model's activations by these alone is a total variation of 0.02 to 0.05.
        if self._chat:
            told = self._client.chat(_conversation(self._piece(prompt)), top=top, fresh=True, seed=seed)
        else:
            (told,) = self._client.complete([list(prompt.ids)], top=top, fresh=True, seed=seed)
        in_vocabulary([told], len(self._model.vocabulary), str(self._client.address))
        return told

    def _settle(self, told: NextToken) -> None:
        """Decides by the first answers what is compared."""
        self._taken = True
        if self.by is None and told.top:
            self.by = By.LOGPROBS
        elif self.by is None and not told.token.text:
            return  # a token that ends the answer is told without anything
        elif self.by is None:
            self.by = By.TOKENS
        if self.by is By.LOGPROBS and not told.top and told.token.text:
            raise ZoolensError(
                f"{self._client.address} tells no log-probabilities{' of some prompts' if self._told_any else ''}.",
                hint="Ask with --by tokens.",
            )
        self._told_any |= bool(told.top)

    def _piece(self, prompt: Prompt) -> str:
        (text,) = self._model.tokenizer.texts([prompt.ids])
        return text

    def _unusable(self, error: EndpointRefusal) -> ZoolensError:
        hint = None if self._chat else "Prompts are sent as numbers of tokens; --chat sends conversations."
        return ZoolensError(f"{str(error).rstrip('.')}.", hint=hint)


def _conversation(text: str) -> list[dict[str, str]]:
    # Templates differ in what they put where no system message is given.
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": f"{_WISH}{text}"}]


def kind_of_next(number: int) -> bool:
    """Whether the prompt of this number is a long one: every fourth."""
    return number % 4 == 3


def drawn(pool: PromptPool, number: int) -> Prompt:
    return pool.draw(long=kind_of_next(number))
