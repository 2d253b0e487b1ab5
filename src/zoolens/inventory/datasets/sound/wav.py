"""WAV files of strangers, read with the standard library and numpy.

Every size in the file is compared with the bytes that are there before it is used. Integers become float32 as
libsndfile, librosa, torchaudio and TensorFlow scale them: n bits are divided by 2 to the power n − 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.sound.waveform import Samples, Waveform, check_format, check_length

_MOST_CHUNKS: Final = 1000  # files of recorders have about ten; each costs a step of Python
_PCM: Final = 1
_FLOAT: Final = 3
_EXTENSIBLE: Final = 0xFFFE
_OTHER_CODINGS: Final = {2: "MS ADPCM", 6: "A-law", 7: "µ-law", 17: "IMA ADPCM", 49: "GSM 6.10", 85: "MP3"}
# The tail that all sub-formats of WAVE_FORMAT_EXTENSIBLE share; the two bytes before it are the coding.
_SUBFORMAT: Final = bytes.fromhex("000000001000800000aa00389b71")
# Programs that write to a pipe cannot know the length, and write this one.
_UNKNOWN_LENGTH: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("<4sI4s")
_CHUNK: Final = struct.Struct("<4sI")
_FORMAT: Final = struct.Struct("<HHIIHH")
_EXTENSION: Final = struct.Struct("<HHIH14s")
_WIDTHS: Final = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}


@dataclass(frozen=True)
class _Coding:
    tag: int
    channels: int
    rate: int
    bits: int

    @property
    def block(self) -> int:
        """Bytes of one moment of all channels."""
        return self.channels * self.bits // 8


def is_wav(content: bytes) -> bool:
    return content[:4] in {b"RIFF", b"RIFX", b"RF64"} and content[8:12] == b"WAVE"


def decode_wav(content: bytes, name: str) -> Waveform:
    """Samples of a WAV file with PCM of 8, 16, 24 or 32 bits or floats. `name` is what an error calls the file."""
    if not is_wav(content):
        raise DatasetError(f"{name} is not a WAV file.", hint="Convert it to WAV.")
    if content[:4] != b"RIFF":
        order = content[:4].decode("ascii")
        raise DatasetError(f"{name} is a WAV file of the kind {order}; only RIFF is read.", hint="Convert it to RIFF.")
    coding: _Coding | None = None
    for kind, begin, length in _chunks(content, name):
        if kind == b"fmt ":
            coding = _read_coding(_part(content, begin, length, name), name)
        elif kind == b"data":
            if coding is None:
                raise _damaged(name, "its samples begin before their format is given")
            data = _data(content, begin, length, name)
            return Waveform(_samples(data, coding, name), coding.rate)
    raise _damaged(name, "it ends before its samples" if coding else "it has no format chunk")


def _chunks(content: bytes, name: str) -> Iterator[tuple[bytes, int, int]]:
    """Kind, first byte and claimed length of each chunk."""
    position = _HEADER.size
    for _ in range(_MOST_CHUNKS):
        if position + _CHUNK.size > len(content):
            return
        kind, length = _CHUNK.unpack_from(content, position)
        position += _CHUNK.size
        yield kind, position, length
        # chunks begin at even positions
        position += length + length % 2
    raise _damaged(name, f"it has more than {_MOST_CHUNKS:,} chunks")


def _part(content: bytes, begin: int, length: int, name: str) -> memoryview:
    there = len(content) - begin
    if length > there:
        raise _damaged(name, f"a chunk claims {length:,} bytes and {there:,} are there")
    return memoryview(content)[begin : begin + length]


def _data(content: bytes, begin: int, length: int, name: str) -> memoryview:
    if length == _UNKNOWN_LENGTH:
        return memoryview(content)[begin:]
    return _part(content, begin, length, name)


def _read_coding(chunk: memoryview, name: str) -> _Coding:
    if len(chunk) < _FORMAT.size:
        raise _damaged(name, f"its format chunk has {len(chunk)} bytes instead of {_FORMAT.size} or more")
    tag, channels, rate, _, block, bits = _FORMAT.unpack_from(chunk)
    check_format(name, channels, rate)
    if tag == _EXTENSIBLE:
        tag = _extended_tag(chunk, bits, name)
    if tag not in _WIDTHS:
        other = _OTHER_CODINGS.get(tag, f"coding {tag}")
        raise DatasetError(
            f"{name} is a WAV file with {other}; PCM and floats are read.", hint="Convert it to 16-bit PCM."
        )
    if bits not in _WIDTHS[tag]:
        kind = "PCM" if tag == _PCM else "floats"
        known = ", ".join(map(str, _WIDTHS[tag]))
        raise DatasetError(f"{name} has {kind} of {bits} bits; {known} are read.", hint="Convert it to 16-bit PCM.")
    coding = _Coding(tag, channels, rate, bits)
    if block != coding.block:
        raise _damaged(name, f"{channels} × {bits} bits are {coding.block} bytes, and its header says {block}")
    return coding


def _extended_tag(chunk: memoryview, bits: int, name: str) -> int:
    if len(chunk) < _FORMAT.size + _EXTENSION.size:
        raise _damaged(name, "its extensible format chunk is too short")
    _, valid_bits, _, tag, tail = _EXTENSION.unpack_from(chunk, _FORMAT.size)
    if tail != _SUBFORMAT:
        raise DatasetError(f"{name} is a WAV file with an unknown sub-format.", hint="Convert it to 16-bit PCM.")
    # Fewer valid bits lie in the upper bits of a sample, so that its scale is that of all bits.
    if valid_bits > bits:
        raise _damaged(name, f"{valid_bits} of {bits} bits of a sample are said to be valid")
    return int(tag)


def _samples(data: memoryview, coding: _Coding, name: str) -> Samples:
    if not data:
        raise DatasetError(f"{name} has no samples.", hint="Remove it, or record it again.")
    if len(data) % coding.block:
        raise _damaged(name, f"{len(data):,} bytes of samples are no multiple of {coding.block}")
    check_length(name, len(data) * 8 // coding.bits)
    values = _floats(data, coding) if coding.tag == _FLOAT else _integers(data, coding.bits)
    if not np.isfinite(values).all():
        raise DatasetError(f"{name} has samples that are NaN or infinite.", hint="Record or convert it again.")
    return values.reshape(-1, coding.channels)


def _floats(data: memoryview, coding: _Coding) -> Samples:
    # A float64 beyond the range of float32 becomes infinite, which is refused.
    with np.errstate(over="ignore"):
        return np.frombuffer(data, "<f4" if coding.bits == 32 else "<f8").astype(np.float32)


def _integers(data: memoryview, bits: int) -> Samples:
    if bits == 8:
        # 8 bits alone are unsigned
        return (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)
    if bits == 24:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        # The lowest byte stays zero: the same sample, as 32 bits.
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        numbers, bits = wide.view("<i4").reshape(-1), 32
    else:
        numbers = np.frombuffer(data, f"<i{bits // 8}")
    # A division by a power of two is exact: the one rounding is that of 32 bits to the 24 of a float32.
    return numbers.astype(np.float32) / np.float32(2 ** (bits - 1))


def _damaged(name: str, why: str) -> DatasetError:
    return DatasetError(
        f"{name} cannot be decoded: {why}.", hint="It is truncated or damaged: fetch it again or remove it."
    )
