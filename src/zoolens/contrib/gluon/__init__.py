"""The model zoo of MXNet's gluon, from its symbols."""

from zoolens.contrib.gluon.library import GLUON

__all__ = ["GLUON"]
