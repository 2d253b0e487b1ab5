"""JSON of a stranger: strict UTF-8, no key twice in an object, no NaN, and no more values than a stated number."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, NoReturn

from zoolens.base.protocol.datatypes import Buffer
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.limits import DEFAULT, Limits, invalid
from zoolens.base.protocol.messages import Parameter


def parse_object(content: Buffer, limits: Limits = DEFAULT) -> dict[str, Any]:
    """The JSON object that `content` is; ServingError where it is something else."""
    text = bytes(content)
    if sum(map(text.count, (b",", b"[", b"{"))) > limits.json_values:
        raise invalid(f"The JSON has more than {limits.json_values:,} values.")
    try:
        value = _DECODER.decode(text.decode())
    except RecursionError:
        raise invalid("The JSON is nested too deeply.") from None
    except UnicodeDecodeError:
        raise invalid("The JSON is not UTF-8 text.") from None
    except json.JSONDecodeError as error:
        raise invalid(f"This is not JSON: {error.msg} at character {error.pos}.") from None
    except ServingError:
        raise
    except ValueError:  # an integer of thousands of digits
        raise invalid("The JSON holds a number with too many digits.") from None
    if not isinstance(value, dict):
        raise invalid("A JSON object is expected.")
    return value


def dump(value: Any) -> bytes:
    """Returns compact JSON as UTF-8."""
    return _ENCODER.encode(value).encode()


def clean(text: str) -> str:
    """A text with halves of surrogate pairs written as escapes: a stranger's JSON may hold them, and UTF-8 may not."""
    return text.encode(errors="backslashreplace").decode()


def text(value: Any, what: str, limits: Limits = DEFAULT) -> str:
    """`value` if it is a text that may be repeated in an answer; `what` names it in the error."""
    if not isinstance(value, str):
        raise invalid(f"{what} must be a text.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise invalid(f"{what} holds half of a surrogate pair, which UTF-8 cannot express.") from None
    if size > limits.text_bytes:
        raise invalid(f"{what} has {size:,} bytes; at most {limits.text_bytes:,} are accepted.")
    return value


def parameters(value: Any, limits: Limits = DEFAULT) -> dict[str, Parameter]:
    """The parameters of a request, a tensor or an answer: names with truth values, numbers or texts."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid("The parameters must be a JSON object.")
    return {text(key, "A parameter's name", limits): _parameter(key, item, limits) for key, item in value.items()}


def _parameter(name: str, value: Any, limits: Limits) -> Parameter:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise invalid(f"Parameter {name!r} is an integer of more than 64 bits.")
    if isinstance(value, float) and not isfinite(value):
        raise invalid(f"Parameter {name!r} is a number beyond the range of 64-bit floats.")
    return value if isinstance(value, int | float) else text(value, f"Parameter {name!r}", limits)


def integers(value: Any, what: str) -> tuple[int, ...]:
    """A list of integers, such as a shape."""
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise invalid(f"{what} must be a list of integers.")
    return tuple(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise invalid("An object in the JSON has the same key twice.")
    return value


def _constant(name: str) -> NoReturn:
    raise invalid(f"The JSON holds {name}, which is not JSON: send such values as binary data.")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
