"""Import torchvision where its compiled operators cannot load.

The torchvision wheel on the package index is built against one CUDA version. Beside another build of torch its
operator library fails to load, and then `import torchvision` itself fails, because it registers a fake `nms` whose
schema nobody declared. Classification needs none of these operators: declaring the schemas is enough. Where the real
ones load they must not be declared before them, which would end the process.
"""

from __future__ import annotations

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# The declarations vanish with the object that made them: it lives as long as the process.
_declarations: list[Any] = []


def import_torchvision() -> Any:
    """The torchvision module; raises ImportError where torch or torchvision is not installed."""
    if "torchvision" not in sys.modules and not _operators_load():
        _declare_operators()
    import torchvision

    return torchvision


def _operators_load() -> bool:
    """Whether torchvision's compiled operators fit this torch; loading them twice is loading them once."""
    import torch

    package = find_spec("torchvision")
    for place in (package.submodule_search_locations or ()) if package else ():
        for library in sorted(Path(place).glob("_C*.so")) + sorted(Path(place).glob("_C*.pyd")):
            with contextlib.suppress(ImportError, OSError):
                torch.ops.load_library(str(library))
                return True
    return False


def _declare_operators() -> None:
    import torch

    if _declarations:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    _declarations.append(library)
    for schema in _SCHEMAS:
        with contextlib.suppress(RuntimeError):  # already declared: the compiled operators are here
            library.define(schema)
