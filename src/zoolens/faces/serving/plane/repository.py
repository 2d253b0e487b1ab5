"""The models that a server may load: each under the name and the version by which clients ask for it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.inventory.catalog.lookup import find, version_order
from zoolens.inventory.catalog.names import bare
from zoolens.inventory.zoos.zoo import Entry

_NAMED: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)=(?P<model>.+)", re.DOTALL)


@dataclass(frozen=True)
class Served:
    """A model of the repository under the name and the version, a whole number, by which clients ask for it."""

    name: str
    version: str
    spec: ModelSpec
    entry: Entry
    settings: EndpointSettings


def find_all_served(
    models: Sequence[str | ModelSpec], settings: EndpointSettings, strict: bool
) -> tuple[dict[str, list[Served]], dict[str, ZoolensError]]:
    """The models by the name that they are served by. Without `strict` also why some of them cannot be read; a name
    that nobody knows is an error in any case."""
    chosen: dict[str, list[Served]] = {}
    unread: dict[str, ZoolensError] = {}
    for model in models:
        try:
            served = find_served(model, settings)
        except UnknownName:
            raise
        except ZoolensError as error:
            if strict:
                raise
            unread[_asked_name(model)] = error
        else:
            chosen.setdefault(served.name, []).append(served)
    return chosen, unread


def _asked_name(model: str | ModelSpec) -> str:
    """The name that a model would be served by, as far as can be said before it is found."""
    text = model.model if isinstance(model, ModelSpec) else model
    named = _NAMED.fullmatch(text)
    return named["name"] if named else bare(text).replace("/", "-").lstrip("-")


def find_served(model: str | ModelSpec, settings: EndpointSettings) -> Served:
    """Find a model and the name that it is served by: its own, with slashes as hyphens, unless another is given."""
    text = model.model if isinstance(model, ModelSpec) else model
    named = _NAMED.fullmatch(text)
    reference = named["model"] if named else text
    entry = find(reference)
    name = named["name"] if named else entry.manifest.name.replace("/", "-")
    spec = ModelSpec(reference) if isinstance(model, str) else replace(model, model=reference)
    return Served(name, "", spec, entry, settings)


def add_versions(known: Mapping[str, Served], added: Sequence[Served]) -> dict[str, Served]:
    """The models of one name by the versions that clients see: 1, 2, … in the order of the manifests' versions.

    The protocol's versions are whole numbers: clients of Triton read them so, and protobuf has no other place for them.
    """
    numbered = dict(known)
    newest = max((version_order(served.entry) for served in known.values()), default=None)
    for served in sorted(added, key=lambda served: version_order(served.entry)):
        order = version_order(served.entry)
        if newest is not None and order == newest:
            raise ZoolensError(
                f"Two models would be served as {served.name}, version {served.entry.manifest.version}.",
                hint="Give one of them another name: NAME=MODEL.",
            )
        if newest is not None and order < newest:
            raise ZoolensError(
                f"A newer version of {served.name} than {served.entry.manifest.version} is served already.",
                hint="Name all versions at once, or give one another name: NAME=MODEL.",
            )
        newest = order
        number = str(len(numbered) + 1)
        numbered[number] = replace(served, version=number)
    return numbered


def unknown_model(model: str, known: Iterable[str]) -> ServingError:
    close = difflib.get_close_matches(model, list(known), n=1)
    hint = f"Did you mean '{close[0]}'?" if close else None
    return ServingError(Refusal.NOT_FOUND, f"There is no model '{model[:200]}' here.", hint=hint)
