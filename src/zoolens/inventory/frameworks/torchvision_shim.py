"""Import torchvision where its compiled operators cannot load.

The torchvision wheel on the package index is built against one CUDA version. Beside another build of torch its
operator library fails to load, and then `import torchvision` itself fails, because it registers a fake `nms` whose
schema nobody declared. Classification needs none of these operators: declaring the schemas is enough. Where the real
ones load they must not be declared before them, which would end the process.

Torchvision also imports torch's compiler, which takes longer than torchvision and nearly as long as torch, for one
question that its detectors ask before they are compiled. Whoever does not measure how long an import takes can put it
off until it is asked.
"""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from zoolens.inventory.frameworks.placeholder_modules import standing_in

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# The declarations vanish with the object that made them: it lives as long as the process.
_declarations: list[Any] = []


def import_torchvision(*, with_compiler: bool = True) -> Any:
    """The torchvision module; raises ImportError where torch or torchvision is not installed.

    `with_compiler`: as its users import it; otherwise torch's compiler is imported when it is first needed.
    """
    if "torchvision" not in sys.modules and not _operators_load():
        _declare_operators()
    if with_compiler:
        import torchvision
    else:
        with standing_in("torch._dynamo.utils", is_compile_supported=_is_compile_supported):
            import torchvision
    return torchvision


def _is_compile_supported(device_type: Any) -> Any:
    """What torch's compiler answers, asked when it is needed."""
    return import_module("torch._dynamo.utils").is_compile_supported(device_type)


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
        # Already declared: the compiled operators are here.
        with contextlib.suppress(RuntimeError):
            library.define(schema)
