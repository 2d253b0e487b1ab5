"""Networks of bare weights whose numbers are kept and computed in bfloat16."""

from __future__ import annotations

import re
from typing import Any, Final

MODES: Final = ("bfloat16", "bfloat16-cuda-graphs")


def network_in_bfloat16(torch: Any, module: Any) -> Any:
    """The network with its weights in bfloat16. What a state_dict leaves out stays as it is: networks of transformers
    compute rotary positions from a table in float32 that they make themselves, and from_pretrained leaves it too. So do
    weights stay that a network of transformers names for it."""
    exact = _exact_names(module)
    kept = {name for name in module.state_dict() if not exact.search(name)}
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not exact.search(name):
                parameter.data = cast(torch, parameter.data)
            kept.discard(name)
        for name, buffer in list(module.named_buffers()):
            if name in kept and buffer.is_floating_point():
                place, _, own = name.rpartition(".")
                setattr(module.get_submodule(place), own, cast(torch, buffer))
    return module


def _exact_names(module: Any) -> re.Pattern[str]:
    """What is found in the names of weights that stay in float32 in bfloat16 too: transformers keeps those of
    `_keep_in_fp32_modules` only where numbers are float16."""
    names = getattr(module, "_keep_in_fp32_modules_strict", None) or ()
    return re.compile("|".join(name.replace("*", ".*") for name in sorted(names)) or "(?!)")


def cast(torch: Any, values: Any) -> Any:
    """Whole numbers, such as those of tokens, stay what they are."""
    return values.to(torch.bfloat16) if values.is_floating_point() else values
