"""What the papers that introduced the architectures say: `data/*.yaml`, one file for each architecture."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from zoolens.base.errors import UnknownName
from zoolens.findings.audit.papers.paper_schema import Paper, read_paper
from zoolens.inventory.manifests.yaml_tree import load_own_yaml


@cache
def papers() -> dict[str, Paper]:
    """Every specification, by the id of its architecture."""
    documents = {name: _document(name) for name in _names()}
    return {name: read_paper(name, _extended(name, documents)) for name in documents}


def paper(architecture: str) -> Paper:
    """The specification of one architecture; UnknownName where there is none."""
    specification = papers().get(architecture)
    if specification is None:
        raise UnknownName("paper specification", architecture, papers())
    return specification


def _names() -> list[str]:
    folder = resources.files("zoolens.findings.audit.papers").joinpath("data")
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def _document(name: str) -> dict[str, Any]:
    text = resources.files("zoolens.findings.audit.papers").joinpath(f"data/{name}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = load_own_yaml(text)
    return document


def _extended(name: str, documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A sister of another architecture (ResNet-101 of ResNet-50) says only what is different."""
    own = documents[name]
    if "extends" not in own:
        return own
    base = _extended(own["extends"], documents)
    merged = {**base, **own, "parameters": {**base.get("parameters", {}), **own.get("parameters", {})}}
    return {key: value for key, value in merged.items() if key != "extends"}
