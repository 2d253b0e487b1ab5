"""Whether a call from Python shows how far it is: in a terminal and in a notebook, unless that is switched off."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zoolens.base.present.bars import Bars

SWITCH: Final = "ZOOLENS_PROGRESS"  # "off": calls from Python are silent
_OFF: Final = ("off", "0", "no", "false")


def watched() -> Bars | None:
    """Returns bars for a call whose caller watches, to be used in a `with`; None where nobody does."""
    if os.environ.get(SWITCH, "").lower() in _OFF or not _somebody_looks():
        return None
    from zoolens.base.present.bars import Bars

    return Bars()


def _somebody_looks() -> bool:
    # Bars of two threads would overwrite each other's lines.
    in_main_thread = threading.current_thread() is threading.main_thread()
    # `pytest -s` leaves the terminal to the tests.
    in_test = "PYTEST_CURRENT_TEST" in os.environ
    return in_main_thread and not in_test and (_on_terminal() or _in_notebook())


def _on_terminal() -> bool:
    # Under pythonw there is no standard error at all.
    return sys.stderr is not None and sys.stderr.isatty()


def _in_notebook() -> bool:
    """Tells whether a Jupyter kernel runs this process; IPython is not imported for the question."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
