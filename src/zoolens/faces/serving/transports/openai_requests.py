"""Requests as clients of OpenAI write them: a parameter that would change the answer is refused and never ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final

from zoolens.base.protocol import json_text
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.contracts.language import Conversation, GenerationRequest, Prompt, Sampling

_MOST_PROMPTS: Final = 128
_NUMBERED: Final = "return_tokens_as_token_ids"  # as vLLM calls it
_MOST_STOPS: Final = 16
_LONGEST_STOP: Final = 1000  # characters
_MOST_MESSAGES: Final = 10_000
_LARGEST: Final = 1 << 31
_MOST_LIKELY: Final = 20
_COMPLETION_TOKENS: Final = 16  # OpenAI's own default
_ROLES: Final = ("system", "developer", "user", "assistant", "tool")

# What may be said and changes nothing here, with the values that are accepted; None is accepted of all.
_WITHOUT_EFFECT: Final[Mapping[str, tuple[object, ...]]] = {
    "n": (1,),
    "best_of": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "store": (False,),
}
_OF_THE_CALLER: Final = ("user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier")
_SHARED: Final = ("model", "temperature", "top_p", "seed", "stop", "stream", "stream_options", "max_tokens", "logprobs")


class WrongParameter(ServingError):
    """A request that is refused because of one of its parameters."""

    def __init__(self, parameter: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(Refusal.INVALID, message, hint=hint)
        self.parameter = parameter


@dataclass(frozen=True)
class OpenAiRequest:
    """`generations`: one for each prompt. `chat`: asked of /v1/chat/completions. `counted`: the stream ends with the
    number of tokens. `numbered`: tokens are written as numbers, since several of them may be the same text."""

    generations: tuple[GenerationRequest, ...]
    chat: bool
    streamed: bool
    counted: bool
    numbered: bool = False


def read_completion(data: Mapping[str, Any]) -> OpenAiRequest:
    _check_known(data, (*_SHARED, "prompt", "echo", _NUMBERED))
    top = _whole(data, "logprobs", 0, _MOST_LIKELY)
    most = _whole(data, "max_tokens", 0)
    asked = _request(data, _prompts(data.get("prompt")), _COMPLETION_TOKENS if most is None else most, top)
    echo = _flag(data, "echo")
    wished = most is not None
    generations = tuple(replace(generation, echo=echo, wished=wished) for generation in asked.generations)
    return replace(asked, generations=generations, numbered=_flag(data, _NUMBERED))


def read_chat(data: Mapping[str, Any]) -> OpenAiRequest:
    _check_known(data, (*_SHARED, "messages", "top_logprobs", "max_completion_tokens"))
    told, count = _flag(data, "logprobs"), _whole(data, "top_logprobs", 0, _MOST_LIKELY)
    if count is not None and not told:
        raise WrongParameter("top_logprobs", "top_logprobs needs logprobs: true.")
    newer, older = _whole(data, "max_completion_tokens", 1), _whole(data, "max_tokens", 1)
    if None not in (newer, older) and newer != older:
        raise WrongParameter("max_tokens", "max_tokens and max_completion_tokens are two names of one number.")
    most = older if newer is None else newer
    asked = _request(data, [_conversation(data.get("messages"))], most, (count or 0) if told else None)
    return replace(asked, chat=True)


def _request(data: Mapping[str, Any], prompts: Sequence[Prompt], most: int | None, top: int | None) -> OpenAiRequest:
    temperature, top_p = _number(data, "temperature", 0, 2), _number(data, "top_p", 0, 1)
    if top_p == 0:
        raise WrongParameter("top_p", "top_p is a number above 0, up to 1.", hint="temperature: 0 takes the likeliest.")
    sampling = Sampling(
        1.0 if temperature is None else temperature,
        1.0 if top_p is None else top_p,
        _whole(data, "seed", 0, (1 << 63) - 1),
    )
    streamed = _flag(data, "stream")
    options = data.get("stream_options") or {}
    if options and not streamed:
        raise WrongParameter("stream_options", "stream_options needs stream: true.")
    if not isinstance(options, dict) or set(options) - {"include_usage"}:
        raise WrongParameter("stream_options", "stream_options is an object of include_usage alone.")
    model, stops = _model(data), _stops(data.get("stop"))
    generations = tuple(GenerationRequest(model, prompt, most, sampling, stops, top) for prompt in prompts)
    return OpenAiRequest(generations, False, streamed, _flag(options, "include_usage"))


def _check_known(data: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name, value in data.items():
        if name in known or name in _OF_THE_CALLER or value is None:
            continue
        accepted = _WITHOUT_EFFECT.get(name)
        if accepted is None:
            raise WrongParameter(name[:100], f"The parameter {name[:100]!r} is not known here.")
        # True is 1 in Python.
        if not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in accepted):
            listed = " or ".join(json_text.dump(each).decode() for each in accepted)
            raise WrongParameter(name, f"The parameter {name!r} is not implemented; it may be {listed}, or left out.")


def _model(data: Mapping[str, Any]) -> str:
    name = data.get("model")
    if not isinstance(name, str) or not name or len(name) > 1000:
        raise WrongParameter("model", "The parameter 'model' must be the name of a model; /v1/models lists them.")
    return name


def _prompts(value: Any) -> list[Prompt]:
    """One prompt or several, each a text or the ids of its tokens."""
    several = isinstance(value, list) and bool(value) and all(isinstance(each, str | list) for each in value)
    listed = value if several else [value]
    if len(listed) > _MOST_PROMPTS:
        raise WrongParameter("prompt", f"There are {len(listed):,} prompts; {_MOST_PROMPTS} are answered at most.")
    return [_prompt(each) for each in listed]


def _prompt(value: Any) -> str | tuple[int, ...]:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(type(number) is int for number in value):
        return tuple(value)
    raise WrongParameter("prompt", "A prompt must be a text, or the ids of its tokens.")


def _conversation(value: Any) -> Conversation:
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_MESSAGES:
        raise WrongParameter(
            "messages", f"The parameter 'messages' must be a list of 1 to {_MOST_MESSAGES:,} messages."
        )
    return Conversation([_message(message, place) for place, message in enumerate(value)])


def _message(message: Any, place: int) -> Mapping[str, str]:
    where = f"messages[{place}]"
    if not isinstance(message, dict):
        raise WrongParameter("messages", f"{where} must be an object with role and content.")
    other = next((name for name, value in message.items() if name not in ("role", "content") and value), None)
    if other is not None:
        raise WrongParameter("messages", f"{where} has {other[:100]!r}; role and content alone are read.")
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        raise WrongParameter("messages", f"{where} has no role of {', '.join(_ROLES)}.")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        (only,) = content
        content = only.get("text") if only.get("type") == "text" else None
    if not isinstance(content, str):
        raise WrongParameter("messages", f"The content of {where} must be one text.")
    return {"role": role, "content": content}


def _stops(value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value or []
    if not isinstance(listed, list) or len(listed) > _MOST_STOPS:
        raise WrongParameter("stop", f"The parameter 'stop' must be a text, or a list of at most {_MOST_STOPS}.")
    if not all(isinstance(stop, str) and 1 <= len(stop) <= _LONGEST_STOP for stop in listed):
        raise WrongParameter("stop", f"A stop must be a text of 1 to {_LONGEST_STOP:,} characters.")
    return tuple(listed)


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise WrongParameter(name, f"The parameter {name!r} must be true or false.")
    return bool(value)


def _whole(data: Mapping[str, Any], name: str, least: int, most: int = _LARGEST) -> int | None:
    wanted = f"a whole number from {least}" + (f" to {most}" if most < _LARGEST else "")
    found = _read(data, name, lambda value: type(value) is int and least <= value <= most, wanted)
    return None if found is None else int(found)


def _number(data: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    def fits(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most

    found = _read(data, name, lambda value: fits(value) and isfinite(value), f"a number from {least:g} to {most:g}")
    return None if found is None else float(found)


def _read(data: Mapping[str, Any], name: str, fits: Callable[[Any], bool], what: str) -> Any:
    value = data.get(name)
    if value is not None and not fits(value):
        raise WrongParameter(name, f"The parameter {name!r} must be {what}; got {str(value)[:40]}.")
    return value
