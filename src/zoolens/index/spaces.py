"""Which class is which, for many models at once: answers in the data's order of classes, wherever names allow it.

Two models whose manifests name different classes are not comparable, and their agreement is unknown. A model that
names none is taken at its word that it answers in the data's order, as its accuracy was computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from zoolens.equivalence.compatibility import Head, Interface, Translation, compare_interfaces, interface_of
from zoolens.index.attributes import manifest_of
from zoolens.store.records import Run, fingerprint


@dataclass(frozen=True)
class Space:
    """`name`: of the classes; "" for the data's own, None where the manifest names none. `translation`: into the data's
    order, where needed."""

    name: str | None = None
    translation: Translation | None = None


_UNNAMED: Final = Space()


def class_space(run: Run) -> Space:
    output: dict[str, Any] = (manifest_of(run).get("outputs") or [{}])[0]
    if output.get("task", "classification") != "classification" or output.get("label_map"):
        return _UNNAMED
    if not output.get("labels") and not output.get("labels_file"):
        return _UNNAMED
    own = interface_of(run)
    if own.main.names is None:  # the file of names is gone
        return _UNNAMED
    if own.data_names is None:
        return Space(fingerprint(own.main.names))
    data = Interface(run, (), (Head("classification", None, own.data_names),), own.data_names)
    fit = compare_interfaces(own, data)
    return Space(fingerprint(own.main.names)) if fit.reasons else Space("", fit.translation_a)
