"""The model zoo of MXNet's gluon, from its symbols."""

from zoolens.contrib.gluon.gluon_library import GLUON

__all__ = ["GLUON"]
