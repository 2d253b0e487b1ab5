"""How a notebook shows results. Their pages lie above this room, which therefore is told and does not ask.

It imports nothing, because `import zoolens` sets the hook and should cost nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, which need not be imported for it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Displayed(Protocol):
        """What a notebook can show."""

        def _repr_html_(self) -> str: ...

    Show = Callable[[object], Displayed]

_show: list[Show] = []


def show_results_with(show: Show) -> None:
    """Sets how a notebook shows results, in place of what was set before."""
    _show[:] = [show]


def result_html(result: object) -> str | None:
    """Returns a result as HTML; None where nobody said how results are shown."""
    return _show[0](result)._repr_html_() if _show else None
