"""Make src/zoolens/findings/graph/signatures/data/known_structures.json: the signatures that `zoolens identify` knows.

    python scripts/make_signatures.py [--store known.sqlite] [--zoos torchvision keras …] [--limit 300]

Structures are read through `structure_of`, in parallel, and kept in the store given: run it again after an
interruption, or for another zoo, and only what is missing is read. Zoos that are not installed keep the entries the
file has of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

import zoolens.findings.graph.signatures
from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.findings.audit.architectures import architecture, architectures
from zoolens.findings.audit.papers import papers
from zoolens.findings.audit.papers.compile import compile_paper
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.signatures.known_networks import FILE, PAPER, KnownNetwork, from_document, to_document
from zoolens.findings.graph.signatures.signatures import signature
from zoolens.findings.graph.structures.export import export_many
from zoolens.findings.graph.structures.export_pool import ExportJob
from zoolens.findings.graph.structures.structure import structure_of
from zoolens.findings.graph.structures.structure_sources import source_of
from zoolens.inventory.zoos import listing
from zoolens.inventory.zoos.zoo import Entry

TARGET = Path(zoolens.findings.graph.signatures.__file__).parent / FILE
ZOOS = ("torchvision", "keras", "timm", "gluon", "slim", "official", "onnx")
MOST_PARAMETERS = 150e6  # of timm's: larger networks are scaled-up sisters of smaller ones

# timm has more than 1,000 networks; these families are met most often in files.
TIMM = (
    "resnet*", "resnext*", "wide_resnet*", "seresnet*", "ecaresnet50*", "resnetv2_50*", "resnetv2_101", "res2net50*",
    "densenet*", "vgg*", "inception*", "xception*", "mobilenet*", "mnasnet*", "tf_mobilenet*", "tf_efficientnet_*",
    "efficientnet_*", "tf_efficientnetv2_*", "lcnet*", "ghostnet*", "hardcorenas_*", "fbnet*", "spnasnet*",
    "semnasnet*", "regnet*", "dpn*", "dla*", "hrnet_w18*", "hrnet_w32", "repvgg*", "rexnet*", "convnext_*",
    "convnextv2_*", "vit_tiny*", "vit_small*", "vit_base_patch*_224", "deit*", "swin_*", "beit_base*", "mixer_b16*",
    "gmlp*", "coat_*", "mobilevit*", "efficientformer_*", "poolformer*", "cspresnet*", "cspdarknet*", "darknet*",
    "nasnet*", "pnasnet*", "skresnet*", "resnest*", "tinynet*", "mixnet*", "tresnet*", "nf_resnet50", "edgenext*",
    "pvt_v2*", "levit*", "crossvit*", "cait_*", "xcit_tiny*", "maxvit_t*", "selecsls*", "ese_vovnet*", "fastvit*",
    "inception_next*",
)  # fmt: skip

# Widths that papers and files use, but no zoo lists as a model of its own.
KERAS_WIDTHS = {"MobileNet": (0.25, 0.5, 0.75), "MobileNetV2": (0.35, 0.5, 0.75, 1.3, 1.4)}
WIDTH_IDS = {"MobileNet": "mobilenet_v1_{}", "MobileNetV2": "mobilenet_v2_{}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="known_structures.sqlite")
    parser.add_argument("--zoos", nargs="*", default=list(ZOOS))
    parser.add_argument("--limit", type=int, default=300, help="of timm's networks")
    parser.add_argument("--workers", type=int, default=None)
    chosen = parser.parse_args()
    known = {one.ref: one for one in _present()}
    for zoo in chosen.zoos:
        fresh = list(_of_zoo(zoo, chosen.limit, chosen.store, chosen.workers))
        known = {ref: one for ref, one in known.items() if one.zoo != zoo or not fresh}
        known |= {one.ref: one for one in fresh}
        print(f"{zoo}: {len(fresh)} networks", flush=True)
    known = {ref: one for ref, one in known.items() if one.zoo != PAPER}
    known |= {one.ref: one for one in _of_papers()}
    _write(known.values())


def _present() -> tuple[KnownNetwork, ...]:
    if not TARGET.is_file():
        return ()
    try:
        return from_document(json.loads(TARGET.read_text(encoding="utf-8")))
    except ZoolensError:
        return ()


def _of_zoo(zoo: str, limit: int, store: str, workers: int | None) -> Iterator[KnownNetwork]:
    for found in structure_of(_entries(zoo, limit), store=store, workers=workers):
        if found.error or found.source is None:
            print(f"  {found.ref}: {found.error}", file=sys.stderr)
            continue
        yield _known(found.source.ref.partition(":")[2].partition("@")[0], zoo, found.graph, _architecture(found.entry))
    if zoo == "keras":
        yield from _keras_widths(workers)


def _entries(zoo: str, limit: int) -> list[Entry]:
    """One entry for each structure."""
    try:
        listed = listing.listing(zoo=zoo).entries
    except ZoolensError as error:
        print(f"  {zoo}: {error}", file=sys.stderr)
        return []
    listed = [entry for entry in listed if entry.manifest.task == "classification"]
    if zoo == "timm":
        listed = _timm(listed, limit)
    if zoo == "onnx":
        listed = [entry for entry in listed if entry.manifest.name.startswith("light/")]
    unique: dict[str, Entry] = {}
    for entry in sorted(listed, key=lambda one: not _architecture(one)):
        try:
            unique.setdefault(source_of(entry).ref, entry)
        except ZoolensError as error:
            print(f"  {entry.ref}: {error}", file=sys.stderr)
    return list(unique.values())


def _timm(listed: list[Entry], limit: int) -> list[Entry]:
    """Members of the audit's architectures first, then the families above, small networks before large."""
    members = {name for one in architectures() for name in one.members.get("timm", ())}
    wanted = [
        entry
        for entry in listed
        if entry.manifest.name in members
        or (any(fnmatch(entry.manifest.name, one) for one in TIMM) and _size(entry) <= MOST_PARAMETERS)
    ]
    by_name: dict[str, Entry] = {}
    for entry in sorted(wanted, key=lambda one: (one.manifest.name not in members, _size(one))):
        by_name.setdefault(entry.manifest.name.partition(".")[0], entry)
    return list(by_name.values())[:limit]


def _size(entry: Entry) -> float:
    return listing.params_of(entry.manifest) or 0.0


def _architecture(entry: Entry) -> str:
    found = architecture(entry.ref)
    return found.id if found else ""


def _keras_widths(workers: int | None) -> Iterator[KnownNetwork]:
    point = plugins.registered(plugins.GRAPH_LIBRARIES)["keras"].value
    jobs = [
        ExportJob((name, width), point, Request(name, size=(224, 224), arguments={"alpha": width}))
        for name, widths in KERAS_WIDTHS.items()
        for width in widths
    ]
    for done in export_many(jobs, workers=workers):
        name, width = done.job.key
        if done.graph is None:
            print(f"  keras:{name} at width {width}: {done.error}", file=sys.stderr)
            continue
        said = f"width {width:g}"
        yield _known(f"{name}, {said}", "keras", done.graph, WIDTH_IDS[name].format(f"{width:g}"), said)


def _of_papers() -> Iterator[KnownNetwork]:
    for one in papers().values():
        yield _known(one.name, PAPER, compile_paper(one), one.architecture)
        for width in one.widths.values if one.widths else ():
            base = one.architecture.removesuffix("1.0")
            graph = compile_paper(one, width=width)
            yield _known(graph.name, PAPER, graph, f"{base}{width:g}", f"width {width:g}")


def _known(name: str, zoo: str, graph: Graph, id_: str, note: str = "") -> KnownNetwork:
    return KnownNetwork(name, zoo, signature(graph), id_, note)


def _write(known: Iterable[KnownNetwork]) -> None:
    document = to_document(known, dict(_versions()))
    TARGET.parent.mkdir(exist_ok=True)
    text = ",\n".join(f"{json.dumps(key)}:{_lines(value)}" for key, value in document.items())
    TARGET.write_text(f"{{{text}}}\n", encoding="utf-8")
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")


def _lines(value: Any) -> str:
    """One row in a line, so that a change of one network is a change of one line."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join(_compact(row) for row in value) + "\n]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _versions() -> Iterator[tuple[str, Any]]:
    for name in ("torch", "torchvision", "timm", "keras", "onnx", "mxnet", "tf-slim", "tf-models-official"):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


if __name__ == "__main__":
    main()
