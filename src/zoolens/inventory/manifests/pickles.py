"""Torch files that hold pickled objects instead of weights, detected without unpickling anything."""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Final, cast

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import Refused, open_archive, open_entry, open_regular

TORCH_FORMATS: Final = frozenset({"torchscript", "torch-export", "torch-state-dict"})
_MOST_STEPS: Final = 5_000_000
_MOST_BYTES: Final = 1 << 28  # that are read or unpacked of one file
_LONGEST: Final = 1 << 24  # bytes of one text or number: a packed file of 3 MB can hold one of 3 GB
_PICKLES_OF_OLD: Final = 4  # before torch 1.6: a magic number, a version, facts about the system, the object
_WEIGHTS: Final = ("torch", "collections", "_codecs", "builtins", "__builtin__", "numpy", "copy_reg", "copyreg")
_NETWORKS: Final = ("torch.nn.modules", "torch.fx", "torch.jit", "torch.export", "torch.nn.parallel", "torch.ao")


def check_no_object(path: Path) -> None:
    """ModelError where a torch file is a pickled module or holds other objects, which only unpickling could read."""
    pickled = pickled_class(path)
    if pickled is not None:
        raise ModelError(
            f"{path.name} holds a pickled object of class {pickled[:100]}, as torch.save(model) writes it: reading it "
            "would run its maker's code, so zoolens does not.",
            hint="Save the weights with torch.save(model.state_dict(), …) and say under architecture how to build the "
            "network, or export the model with torch.export.save or torch.onnx.export.",
        )


def pickled_class(path: Path) -> str | None:
    """The first class in a torch file's pickle that weights do not need; None: weights, or no such pickle."""
    try:
        with open_regular(path) as file:
            head = file.read(2)
            if head[:1] == b"\x80":
                file.seek(0)
                return _first_object(_Bounded(file), _PICKLES_OF_OLD)
        if head != b"PK":
            return None
        with open_archive(path) as archive:
            names = archive.namelist()
            inner = {name.partition("/")[2]: name for name in names}
            # TorchScript has both, and is read otherwise.
            if "data.pkl" not in inner or "constants.pkl" in inner:
                return None
            with open_entry(archive, inner["data.pkl"]) as pickled:
                return _first_object(_Bounded(pickled), 1)
    except (OSError, zipfile.BadZipFile):
        return None  # whoever opens it explains that better


class _Bounded:
    """A stream for `pickletools` with a limit on each read, whose length the pickle chooses."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = _MOST_BYTES

    def read(self, size: int) -> bytes:
        # An instruction says how much is to be read at once, and a packed file of 3 MB can say 3 GB.
        return self._counted(self._stream.read(min(size, _LONGEST + 1)))

    def readline(self) -> bytes:
        return self._counted(self._stream.readline(_LONGEST + 1))

    def _counted(self, part: bytes) -> bytes:
        self._left -= len(part)
        if len(part) > _LONGEST or self._left < 0:
            raise Refused("its pickle is too large to be looked through")
        return part


def _first_object(file: _Bounded, pickles: int) -> str | None:
    try:
        for _ in range(pickles):
            for module, name in _globals(file):
                if module.split(".")[0] not in _WEIGHTS or module.startswith(_NETWORKS):
                    return f"{module}.{name}"
    except (ValueError, IndexError, KeyError, EOFError, OverflowError):
        return None
    return None


def _globals(file: _Bounded) -> Iterator[tuple[str, str]]:
    """(module, name) of all that one pickle would import."""
    texts: list[str] = []
    for operation, argument, _ in islice(pickletools.genops(cast(IO[bytes], file)), _MOST_STEPS):
        if operation.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            yield module, name
        elif operation.name == "STACK_GLOBAL" and len(texts) > 1:
            yield texts[-2], texts[-1]
        elif isinstance(argument, str):
            texts = [*texts[-1:], argument]
