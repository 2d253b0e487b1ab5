"""Other forms of a network that compute the same, for two networks that differ as they are written.

Each form is applied to both sides. Where they are nearer to each other in it, what differed before came from how they
are written, and the verdict says in which form they were compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zoolens.graph.model import Graph
from zoolens.graph.passes.packed_layers import split_packed_layers

Form = Callable[[Graph], Graph]
# What the verdict says of a form, and the form.
FORMS: Final[tuple[tuple[str, Form], ...]] = (
    ("layers that are packed into one (such as q, k and v) are compared one by one", split_packed_layers),
)
