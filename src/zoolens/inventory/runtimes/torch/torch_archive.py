"""Torch's zip archives, opened so that torch cannot read them differently.

Torch has a zip reader of its own (miniz): it ignores the case of names, takes the first of two entries with one name,
and finds the index by other fields than Python does. What was checked must be what is run, so an archive that leaves
any of this open is refused: it begins with its first entry, ends with its index, and has one folder with plain names.
"""

from __future__ import annotations

import pickletools
import re
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_archive, open_entry, read_entry
from zoolens.inventory.runtimes.model_files.allowlists import refused
from zoolens.inventory.runtimes.model_files.model_reading import MAX_TEXT_BYTES

AGAIN: Final = "Save it again with torch, and do not repack the archive."
_NAMES: Final = re.compile(r"[\w.\-+ ]+(/[\w.\-+ ]+)+", re.ASCII)
_END: Final = struct.Struct("<4sHHHHIIH")
_END_64: Final = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR_64: Final = struct.Struct("<4sIQI")
# What the pickles inside may name: containers, storages and the rebuilding of tensors.
_GLOBALS: Final = re.compile(
    r"collections OrderedDict|torch \w+Storage|torch (device|Size|QInt\w+|per_\w+_affine|strided|contiguous_format)"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|qtensor|parameter)"
    r"|torch\.jit\._pickle (build_\w+list|build_tensor_from_id|restore_type_tag)"
)
_MODULES: Final = re.compile(r"__torch__(\.\w+)* \w+")
_PACKED: Final = re.compile(r"__torch__\.torch\.classes\.quantized[. ]\w+")


@contextmanager
def opened(path: Path, kind: str) -> Iterator[tuple[zipfile.ZipFile, dict[str, str]]]:
    """The archive, and the full name of each entry by its name inside the one folder."""
    try:
        with open_archive(path, ignore_case=True) as archive:
            yield archive, _inner_names(path, archive)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelError(
            f"{path.name} is not a {kind} archive: {error}.",
            hint="Is it complete? Weights alone are the format torch-state-dict.",
        ) from error
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read: {error.strerror or error}.", hint=AGAIN) from error


def text_of(archive: zipfile.ZipFile, entry: str) -> bytes:
    """An entry that is code or a description, unpacked within bounds."""
    return read_entry(archive, entry, MAX_TEXT_BYTES)


def check_pickle(path: Path, entry: str, content: bytes) -> None:
    """Refuse a pickle that names more than torch's containers, tensors and the classes whose code is in the archive."""
    try:
        for operation, argument, _ in pickletools.genops(content):
            if operation.name in ("INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
                raise refused(path.name, f"the pickle instruction {operation.name} in {entry}", AGAIN)
            if operation.name == "GLOBAL" and not _is_known(str(argument)):
                raise refused(path.name, f"the Python name {str(argument)[:80]!r} in {entry}", AGAIN)
    except (ValueError, IndexError, KeyError, struct.error) as error:
        raise ModelError(f"{path.name} has a damaged entry {entry}.", hint="Fetch it again.") from error


def _is_known(name: str) -> bool:
    if name.startswith("__torch__.torch.classes"):
        return bool(_PACKED.fullmatch(name))
    return bool(_GLOBALS.fullmatch(name) or _MODULES.fullmatch(name))


def _inner_names(path: Path, archive: zipfile.ZipFile) -> dict[str, str]:
    entries = archive.infolist()
    for entry in entries:
        if not _NAMES.fullmatch(entry.orig_filename) or ".." in entry.orig_filename:
            raise refused(path.name, f"an entry named {entry.orig_filename[:80]!r}", AGAIN)
        with open_entry(archive, entry):
            # It compares the name in the index with the one before the data.
            pass
    folders = {entry.filename.split("/", 1)[0] for entry in entries}
    if len(folders) != 1:
        raise ModelError(f"{path.name} is an archive of {len(folders)} folders instead of one.", hint=AGAIN)
    assert archive.fp is not None
    if min(entry.header_offset for entry in entries) != 0 or not _ends_with_index(archive.fp, archive):  # type: ignore[arg-type]
        raise ModelError(f"{path.name} has data before or after its archive.", hint=AGAIN)
    return {entry.filename.split("/", 1)[1]: entry.filename for entry in entries}


def _ends_with_index(file: BinaryIO, archive: zipfile.ZipFile) -> bool:
    """Whether the index stands directly before its end record, all numbers say so, and nothing follows."""
    file.seek(0, 2)
    end = file.tell() - _END.size
    file.seek(end)
    mark, disk, start_disk, here, total, size, offset, comment = _END.unpack(file.read(_END.size))
    if mark != b"PK\x05\x06" or disk or start_disk or comment:
        return False
    sizes = (here, total, size, offset)
    if end >= _LOCATOR_64.size + _END_64.size:
        file.seek(end - _LOCATOR_64.size)
        locator = _LOCATOR_64.unpack(file.read(_LOCATOR_64.size))
        # torch follows the locator of a large archive, Python takes the record that stands before it: both must be the
        # same.
        if locator[0] == b"PK\x06\x07":
            end -= _LOCATOR_64.size + _END_64.size
            file.seek(end)
            record = _END_64.unpack(file.read(_END_64.size))
            large = record[6:]
            agree = all(
                a in (b, limit) for a, b, limit in zip(sizes, large, (0xFFFF,) * 2 + (0xFFFFFFFF,) * 2, strict=True)
            )
            if record[0] != b"PK\x06\x06" or record[4:6] != (0, 0) or locator[2] != end or not agree:
                return False
            sizes = large
    here, total, size, offset = sizes
    return bool(here == total == len(archive.infolist()) and offset + size == end and archive.start_dir == offset)
