"""A model's answers as the index keeps them: the smallest labels that hold every class, and a bit for each answer that
is right. Of models that answer no classes, the numbers themselves as float32.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.findings.index.signatures.journal import ALIGNED, Damaged

_TYPES: Final = tuple(map(np.dtype, ("<u1", "<u2", "<u4", "<f4")))
_VECTORS: Final = 3
_LAYOUT: Final = struct.Struct("<HBBI")  # bytes of the key, type of the answers, whether bits follow, numbers an input
_LONGEST_KEY: Final = 1 << 10


class Packed(NamedTuple):
    """What a signature says of itself. `correct`: the byte offset of its bits, where it has some."""

    key: str
    is_labels: bool
    correct: int | None

    def read_correct(self, content: memoryview, probes: int) -> NDArray[np.uint8] | None:
        return None if self.correct is None else np.frombuffer(content, np.uint8, bit_bytes(probes), self.correct)


def packed_labels(answers: NDArray[Any]) -> NDArray[Any]:
    """Return class numbers in the smallest of one, two or four bytes each."""
    if answers.size and int(answers.min()) < 0:
        raise ZoolensError("A class number below 0 cannot be indexed.", hint="Check the model's label_map.")
    largest = int(answers.max()) if answers.size else 0
    return np.ascontiguousarray(answers, _TYPES[0 if largest < 1 << 8 else 1 if largest < 1 << 16 else 2])


def bit_bytes(probes: int) -> int:
    return -(-probes // 8)


def encode(key: str, answers: NDArray[Any], correct: NDArray[np.bool_] | None) -> bytes:
    """Labels (one number an input) or float32 vectors, and which are right where that is known."""
    name = key.encode()
    if not 0 < len(name) <= _LONGEST_KEY:
        raise ZoolensError(f"{key[:40]!r} cannot be a key of the index.", hint="Use 1 to 1,024 bytes.")
    labels = answers.ndim == 1
    values = packed_labels(answers) if labels else np.ascontiguousarray(answers, _TYPES[_VECTORS])
    head = _LAYOUT.pack(len(name), _TYPES.index(values.dtype), correct is not None, 1 if labels else answers.shape[1])
    bits = b"" if correct is None else np.packbits(correct).tobytes()
    return b"".join((head, name, b"\0" * (-len(name) % ALIGNED), values.tobytes(), bits))


def decode(content: memoryview, start: int, stop: int, probes: int) -> Packed:
    """What lies in this stretch of a file; `Damaged` where it is not a signature over so many probes."""
    if stop - start < _LAYOUT.size:
        raise Damaged("a signature is too short")
    length, code, has_bits, width = _LAYOUT.unpack_from(content, start)
    if code >= len(_TYPES) or has_bits > 1 or (code != _VECTORS and width != 1):
        raise Damaged("a signature is of an unknown kind")
    answers = start + _LAYOUT.size + length + -length % ALIGNED
    after = answers + probes * width * _TYPES[code].itemsize
    needed = after + (bit_bytes(probes) if has_bits else 0)
    if needed + -needed % ALIGNED != stop:
        raise Damaged("a signature has another number of probes")
    key = _text(content, start + _LAYOUT.size, length)
    return Packed(key, code != _VECTORS, after if has_bits else None)


def read_answers(content: memoryview, start: int, probes: int) -> NDArray[Any]:
    """The answers in a signature that was decoded before."""
    length, code, _, width = _LAYOUT.unpack_from(content, start)
    answers = np.frombuffer(content, _TYPES[code], probes * width, start + _LAYOUT.size + length + -length % ALIGNED)
    return answers.reshape(probes, width) if code == _VECTORS else answers


def itemsize(content: memoryview, start: int) -> int:
    """Bytes that an answer takes in a signature that was decoded before."""
    return int(_TYPES[_LAYOUT.unpack_from(content, start)[1]].itemsize)


def _text(content: memoryview, start: int, length: int) -> str:
    try:
        return bytes(content[start : start + length]).decode()
    except UnicodeDecodeError as error:
        raise Damaged("a key is not text") from error


def encode_key(key: str) -> bytes:
    name = key.encode()
    return struct.pack("<Q", len(name)) + name


def decode_key(content: memoryview, start: int, stop: int) -> str:
    if stop - start < ALIGNED:
        raise Damaged("a removal is too short")
    (length,) = struct.unpack_from("<Q", content, start)
    if length > stop - start - ALIGNED:
        raise Damaged("a key is longer than its record")
    return _text(content, start + ALIGNED, length)
