"""The model zoo of MXNet's gluon, from its symbols."""

from zoolens.graph.importers.gluon.library import GLUON

__all__ = ["GLUON"]
