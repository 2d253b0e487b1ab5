"""What an endpoint says of the next token: the token itself and the most likely ones, each number checked.

Servers write it in three ways: as OpenAI's chat does (also llama.cpp everywhere, with numbers of tokens), as OpenAI's
older completions do (also vLLM), or not at all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.errors import ZoolensError

# Logarithms of float32 probabilities: their sum was seen 2e-6 above 1, and that of a certain token 1e-6 above 0.
_ABOVE: Final = 1e-3
_IMPOSSIBLE: Final = -9999.0  # what OpenAI writes for a token that cannot come; others write minus infinity
_NUMBERED: Final = re.compile(r"token_id:(\d{1,9})|token:(\d{1,9})")  # how vLLM writes numbers of tokens
_LONGEST: Final = 1 << 12  # bytes of a token


@dataclass(frozen=True)
class ToldToken:
    """A token as the server tells it: its number, or its text in bytes, or both. `exact`: the bytes are the token's
    own; otherwise they are those of a text, in which a broken character is written as U+FFFD."""

    id: int | None
    text: bytes
    exact: bool = False


@dataclass(frozen=True)
class NextToken:
    """What is told of one position. `log`: log-probability of `token`, if told; `top`: the most likely tokens."""

    token: ToldToken
    log: float | None = None
    top: tuple[tuple[ToldToken, float], ...] = ()


def read_choices(document: Mapping[str, Any], count: int, who: str) -> list[list[NextToken]]:
    """For each of the prompts that were asked at once, what is told of its positions."""
    choices = document.get("choices")
    if not isinstance(choices, list) or len(choices) != count:
        raise ZoolensError(f"{who} was asked {count} prompts and gives {_length(choices)} answers.")
    ordered: dict[int, list[NextToken]] = {}
    for place, choice in enumerate(choices):
        if not isinstance(choice, dict):
            raise ZoolensError(f"{who} gives an answer that is no object.")
        index = choice.get("index", place)
        if not isinstance(index, int) or not 0 <= index < count or index in ordered:
            raise ZoolensError(f"{who} numbers its answers wrongly.")
        ordered[index] = _read_choice(choice, who)
    return [ordered[index] for index in range(count)]


def _read_choice(choice: Mapping[str, Any], who: str) -> list[NextToken]:
    logs = choice.get("logprobs")
    if logs is None:
        return [NextToken(ToldToken(None, _text_of(choice, who)))]
    if not isinstance(logs, dict):
        raise ZoolensError(f"{who} gives log-probabilities that are no object.")
    content = logs.get("content")
    if content == []:
        # The first token ended the answer: it has no text, and llama.cpp then tells nothing of its position.
        return [NextToken(ToldToken(None, _text_of(choice, who)))]
    if isinstance(content, list):
        return [_position(entry, who) for entry in content]
    return list(_older(logs, who))


def _text_of(choice: Mapping[str, Any], who: str) -> bytes:
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if text is None:
        text = ""  # some servers write nothing where the first token ends the answer
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ZoolensError(f"{who} gives no text of one token.")
    return text.encode("utf-8", "surrogatepass")


def _position(entry: Any, who: str) -> NextToken:
    if not isinstance(entry, dict):
        raise ZoolensError(f"{who} gives a position that is no object.")
    top = entry.get("top_logprobs") or []
    if not isinstance(top, list):
        raise ZoolensError(f"{who} gives likely tokens that are no list.")
    token, log = _entry(entry, who)
    return _checked(NextToken(token, log, tuple(_entry(each, who) for each in top)), who)


def _entry(entry: Any, who: str) -> tuple[ToldToken, float]:
    if not isinstance(entry, dict):
        raise ZoolensError(f"{who} gives a likely token that is no object.")
    number = entry.get("id")
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise ZoolensError(f"{who} gives {str(number)[:40]!r} as the number of a token.")
    token = _named(entry.get("token"), number, who)
    content = entry.get("bytes")
    if isinstance(content, list) and len(content) <= _LONGEST:
        try:
            token = ToldToken(token.id, bytes(content), exact=True)
        except (TypeError, ValueError) as error:
            raise ZoolensError(f"{who} gives bytes of a token that are none.") from error
    return token, _log(entry.get("logprob"), who)


def _older(logs: Mapping[str, Any], who: str) -> Iterator[NextToken]:
    """The form of the older completions. The first token of an echoed prompt has no log-probability (null)."""
    tokens, own, top = (logs.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
    top = top if top is not None else [None] * _length(tokens)
    if not all(isinstance(each, list) and len(each) == _length(tokens) for each in (tokens, own, top)):
        raise ZoolensError(f"{who} gives log-probabilities in a form that is not known.")
    assert isinstance(tokens, list)
    assert isinstance(own, list)
    assert isinstance(top, list)
    for text, log, likely in zip(tokens, own, top, strict=True):
        if likely is not None and not isinstance(likely, dict):
            raise ZoolensError(f"{who} gives likely tokens that are no object.")
        entries = tuple((_named(name, None, who), _log(value, who)) for name, value in (likely or {}).items())
        position = NextToken(_named(text, None, who), None if log is None else _log(log, who), entries)
        yield _checked(position, who)


def _named(text: Any, number: int | None, who: str) -> ToldToken:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ZoolensError(f"{who} gives a token without its text.")
    numbered = _NUMBERED.fullmatch(text) if number is None else None
    if numbered:
        return ToldToken(int(numbered[1] or numbered[2]), b"")
    return ToldToken(number, text.encode("utf-8", "surrogatepass"))


def _log(value: Any, who: str) -> float:
    try:
        log = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        log = math.nan
    if math.isnan(log):
        raise ZoolensError(f"{who} gives {str(value)[:40]!r} as a log-probability.")
    if log > _ABOVE:
        raise ZoolensError(f"{who} gives the log-probability {log:g}, which is above 0.")
    return min(max(log, _IMPOSSIBLE), 0.0)


def _checked(told: NextToken, who: str) -> NextToken:
    """Returns what was told; ZoolensError where its probabilities cannot be those of one distribution."""
    total = math.fsum(math.exp(log) for _, log in told.top)
    if total > 1 + _ABOVE:
        raise ZoolensError(f"{who} gives probabilities whose sum is {total:.3f}, which is above 1.")
    ids = [token.id for token, _ in told.top if token.id is not None]
    if len(set(ids)) < len(ids):
        raise ZoolensError(f"{who} gives one token twice among the most likely ones.")
    return told


def in_vocabulary(told: Sequence[NextToken], vocabulary: int, who: str) -> None:
    """ZoolensError where a number of a token is outside the vocabulary."""
    for each in told:
        for token in (each.token, *(token for token, _ in each.top)):
            if token.id is not None and token.id >= vocabulary:
                raise ZoolensError(
                    f"{who} gives the token {token.id:,}, and the vocabulary of the model ends at {vocabulary - 1:,}.",
                    hint="It is another model, or the manifest's vocabulary is wrong.",
                )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0
