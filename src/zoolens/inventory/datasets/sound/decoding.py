"""From the bytes of a sound file to a waveform: WAV by zoolens itself, other kinds by libsndfile."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np

from zoolens.base.errors import DatasetError, MissingDependency
from zoolens.inventory.datasets.sound.wav import decode_wav, is_wav
from zoolens.inventory.datasets.sound.waveform import Samples, Waveform, check_format, check_length

SUFFIXES: Final = frozenset({".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3"})
_KINDS: Final = ("FLAC", "OGG", "MP3")  # as libsndfile names them
_BLOCK: Final = 1 << 16  # moments that are decoded at once


def decode_sound(content: bytes, name: str) -> Waveform:
    """Samples of a WAV, FLAC, Ogg or MP3 file. `name` is what an error calls the file."""
    if is_wav(content):
        return decode_wav(content, name)
    if not content:
        raise DatasetError(f"{name} is empty.", hint="Fetch it again or remove it.")
    if not _is_compressed(content):
        raise DatasetError(
            f"{name} is not a sound of a known kind (WAV, FLAC, OGG, MP3).", hint="Remove or convert it."
        )
    return _decode_compressed(content, name)


def _is_compressed(content: bytes) -> bool:
    if content[:4] in {b"fLaC", b"OggS"} or content[:3] == b"ID3":
        return True
    # a frame of MPEG audio begins with eleven bits that are set
    return len(content) > 1 and content[0] == 0xFF and content[1] >= 0xE0


def _decode_compressed(content: bytes, name: str) -> Waveform:
    try:
        import soundfile
    # An OSError says that the Python package is there and libsndfile is not.
    except (ImportError, OSError) as error:
        raise MissingDependency("Decoding FLAC, OGG and MP3", "soundfile", "sound") from error
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.format not in _KINDS:
                raise DatasetError(
                    f"{name} is a file of the kind {file.format}; WAV, {', '.join(_KINDS)} are decoded.",
                    hint="Remove or convert it.",
                )
            check_format(name, file.channels, file.samplerate)
            check_length(name, file.frames * file.channels)
            samples = _read(file, name)
            claimed, rate = file.frames, file.samplerate
    except (soundfile.SoundFileError, ValueError) as error:
        raise DatasetError(
            f"{name} cannot be decoded: {str(error).rstrip('.')}.",
            hint="It is truncated or damaged: fetch it again or remove it.",
        ) from error
    if len(samples) < claimed:
        raise DatasetError(
            f"{name} claims {claimed:,} samples a channel and {len(samples):,} are there.",
            hint="It is truncated or damaged: fetch it again or remove it.",
        )
    if not np.isfinite(samples).all():
        raise DatasetError(f"{name} has samples that are NaN or infinite.", hint="Record or convert it again.")
    return Waveform(samples, rate)


def _read(file: Any, name: str) -> Samples:
    """All samples in blocks, so that memory grows with what is there and not with what a header claims."""
    blocks: list[Samples] = []
    length = 0
    while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):
        blocks.append(block)
        length += block.size
        check_length(name, length)
    if not blocks:
        raise DatasetError(f"{name} has no samples.", hint="Remove it, or record it again.")
    return np.concatenate(blocks)
