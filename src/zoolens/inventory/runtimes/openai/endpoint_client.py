"""What can be asked of an OpenAI-compatible endpoint about the next token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.openai.endpoint_address import EndpointAddress
from zoolens.inventory.runtimes.openai.endpoint_answers import NextToken, read_choices
from zoolens.inventory.runtimes.openai.endpoint_connection import SECONDS, EndpointConnection, EndpointRefusal

_ENTRY: Final = 1 << 9  # bytes of JSON for one likely token: llama.cpp takes 100 to 300
_BASE: Final = 1 << 16
# What is no part of OpenAI's interface. llama.cpp cuts unlikely tokens off by default (top_k 40, min_p 0.05), whatever
# temperature is asked for; vLLM gives numbers of tokens only where it is asked to. Strict servers refuse them.
_EXTRAS: Final[Mapping[str, Any]] = {"top_k": 0, "min_p": 0.0, "return_tokens_as_token_ids": True}
_FRESH: Final[Mapping[str, Any]] = {"cache_prompt": False}
_LONGEST_NAME: Final = 500
_LONGEST_VALUE: Final = 200  # characters of what is stated of a model
_LARGEST_VALUE: Final = 1 << 63

Prompt = str | Sequence[int]


class EndpointClient:
    """One model of one server. An answer is checked before it is given back; whatever is wrong with it is a
    ZoolensError in one sentence."""

    def __init__(self, address: EndpointAddress, seconds: float = SECONDS) -> None:
        self._connection = EndpointConnection(address, seconds)
        self._wording = 0  # how many of the first ways to ask the server has refused

    @cached_property
    def address(self) -> EndpointAddress:
        """The address with the name of a model: the one that it names, or the only one that the server has."""
        given = self._connection.address
        if given.model:
            return given
        names = sorted({str(entry.get("id", ""))[:_LONGEST_NAME] for entry in self._models})
        if len(names) != 1:
            listed = f"has the models {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
            raise ZoolensError(
                f"{given} {listed if names else 'does not list its models'}.", hint=f"Name one: {given.at('NAME')}."
            )
        return given.at(names[0])

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """What the server says of the model: who owns it, and what llama.cpp tells of its file."""
        found = next((entry for entry in self._models if entry.get("id") == self.address.model), {})
        meta = found.get("meta")
        told = {"owned_by": found.get("owned_by"), **(meta if isinstance(meta, dict) else {})}
        return {str(key)[:40]: short for key, value in told.items() if (short := _short(value)) is not None}

    def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        top: int = 0,
        temperature: float = 1.0,
        fresh: bool = False,
        seed: int | None = None,
    ) -> list[NextToken]:
        """The next token after each prompt. `top`: how many of the most likely ones are asked for; `fresh`: nothing of
        an earlier prompt is used again, where the server knows how; `seed`: of its choice, where it takes one."""
        body: dict[str, Any] = {"prompt": _written(prompts), "max_tokens": 1, "temperature": temperature, "top_p": 1}
        if top:
            body["logprobs"] = top
        answers = self._ask("/completions", body, len(prompts), top, seed, _FRESH if fresh else {})
        return [self._one(positions) for positions in answers]

    def chat(
        self, messages: Sequence[Mapping[str, str]], *, top: int = 0, fresh: bool = False, seed: int | None = None
    ) -> NextToken:
        """The first token of the answer to a conversation. The settings are those of `complete`."""
        body: dict[str, Any] = {"messages": list(messages), "max_tokens": 1, "temperature": 1, "top_p": 1}
        if top:
            body |= {"logprobs": True, "top_logprobs": top}
        return self._one(self._ask("/chat/completions", body, 1, top, seed, _FRESH if fresh else {})[0])

    def echo(self, ids: Sequence[int], top: int) -> list[NextToken] | None:
        """What is told of every position of a text, the first of which has nothing; None where the server cannot."""
        body = {"prompt": list(ids), "max_tokens": 1, "echo": True, "logprobs": top, "temperature": 0}
        try:
            (positions,) = self._ask("/completions", body, 1, top * (len(ids) + 1))
        except EndpointRefusal as error:
            if error.of_request:
                return None
            raise
        # llama.cpp takes the word and gives nothing but the token that comes next.
        return positions if len(positions) == len(ids) + 1 else None

    def _ask(
        self,
        path: str,
        body: Mapping[str, Any],
        count: int,
        entries: int,
        seed: int | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> list[list[NextToken]]:
        most = _BASE + _ENTRY * (entries + 8) * count
        body = {"model": self.address.model, **body}
        seeded = {} if seed is None else {"seed": seed}
        # Some servers refuse what OpenAI's interface does not have, and some its seed too. What was taken is kept to.
        ways = [{**_EXTRAS, **seeded, **(more or {})}, seeded, {}]
        for wording, beside in enumerate(ways[self._wording :], self._wording):
            try:
                document = self._connection.post(path, {**body, **beside}, most)
            except EndpointRefusal as error:
                if not error.of_request or not beside:
                    raise
            else:
                self._wording = wording
                break
        return read_choices(document, count, str(self.address))

    def _one(self, positions: Sequence[NextToken]) -> NextToken:
        if len(positions) != 1:
            raise ZoolensError(f"{self.address} was asked for one token and tells of {len(positions)}.")
        return positions[0]

    @cached_property
    def _models(self) -> list[Mapping[str, Any]]:
        listed = self._connection.get("/models").get("data")
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _short(value: Any) -> str | float | None:
    """What a server says of its model, no longer than can be shown; None where it is neither a text nor a number."""
    if isinstance(value, str):
        return value[:_LONGEST_VALUE]
    if isinstance(value, int | float) and -_LARGEST_VALUE < value < _LARGEST_VALUE:
        return value
    return None


def _written(prompts: Sequence[Prompt]) -> Any:
    """One prompt stands alone: not every server takes several."""
    written = [prompt if isinstance(prompt, str) else list(prompt) for prompt in prompts]
    return written[0] if len(written) == 1 else written
