"""Reading a model's file, which is untrusted: pipes, devices, bombs and damage are one sentence."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import check_unpacked, open_archive, open_regular, read_bytes, read_text

MAX_MODEL_BYTES: Final = (1 << 31) - 1  # of a file that is held in memory; protobuf and flatbuffers end there too
MAX_TEXT_BYTES: Final = 1 << 26  # of a graph that is written as text


def check_file(path: Path) -> None:
    """ModelError where a framework that opened this path would wait for a pipe, read a device or unpack a bomb."""
    try:
        with open_regular(path) as file:
            starts_as_archive = file.read(4) == b"PK\x03\x04"
            # Also one that begins with something else: some readers look at the end.
            packed = zipfile.is_zipfile(file)
        if packed:
            with open_archive(path) as archive:
                check_unpacked(archive)
    except zipfile.BadZipFile as error:
        # Otherwise weights that happen to hold an archive's mark.
        if starts_as_archive:
            raise ModelError(f"{path.name} is a damaged archive: {error}.", hint="Fetch it again.") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def model_bytes(path: Path, limit: int = MAX_MODEL_BYTES) -> bytes:
    """All of a model file that is held in memory; ModelError where it is larger, or no regular file."""
    try:
        return read_bytes(path, limit)
    except OSError as error:
        raise _unreadable(path, error) from error


def model_text(path: Path, limit: int = MAX_TEXT_BYTES) -> str:
    """All of a model file that is written as text; ModelError where it is larger, no UTF-8, or no regular file."""
    try:
        return read_text(path, limit)
    except UnicodeDecodeError as error:
        raise ModelError(f"{path.name} is not text in UTF-8.", hint="Is the format in the manifest right?") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"{path.name} cannot be read: {error.strerror or error}.")
