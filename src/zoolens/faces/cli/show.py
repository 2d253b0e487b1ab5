"""`zoolens show`: everything known about one model."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from zoolens.base.errors import AssetError, ZoolensError
from zoolens.base.present.figures import count, figure, percent
from zoolens.base.present.terminal import echo_json, echo_prose
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import json_option, trust_option
from zoolens.faces.cli.show_sound import describe_sound, describe_sound_step
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.manifests.locations import locate, presence
from zoolens.inventory.manifests.schema import DEFAULT_DECODER, AssetFile, Claim, Input, Output
from zoolens.inventory.manifests.schema_boxes import Letterbox
from zoolens.inventory.manifests.schema_sound import LogMel, Mfcc, ScaleWaveform, Standardize
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize, ResizeHeight, Step
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.manifests.twins import origin_of_twin
from zoolens.inventory.runtimes.runtime import shape_text
from zoolens.inventory.tasks.task import task_named
from zoolens.inventory.zoos.zoo import Entry

if TYPE_CHECKING:
    from zoolens.findings.graph.ir.model import Graph


@click.command("show")
@click.argument("model", shell_complete=complete_models)
@json_option
@trust_option
def command(model: str, as_json: bool) -> None:
    """Show everything known about one MODEL (zoo:name, or the path of a manifest or model file)."""
    from zoolens.base.present.bars import spinner

    with spinner(model, "open"):
        entry = find(model)
    if as_json:
        echo_json(_as_data(entry))
        return
    for line in _lines(entry, model):
        echo_prose(line)


def _as_data(entry: Entry) -> dict[str, object]:
    return {
        "ref": entry.full_ref,
        "zoo": entry.zoo,
        "weights": str(entry.weights),
        "folder": str(entry.folder) if entry.folder else None,
        **_parameters_data(entry),
        "assets": [{"format": a.format, "presence": presence(a, entry.folder)} for a in entry.manifest.assets],
        "manifest": entry.manifest.model_dump(mode="json", exclude_defaults=True),
    }


def _lines(entry: Entry, asked: str) -> Iterator[str]:
    manifest = entry.manifest
    yield entry.full_ref
    if manifest.description:
        yield manifest.description
    yield ""
    yield from _facts(entry, asked)
    yield "inputs"
    for item in manifest.inputs:
        yield f"  {describe_input(item)}"
        yield from (f"    {number}. {describe_step(step)}" for number, step in enumerate(item.preprocess, 1))
    yield "outputs"
    yield from (f"  {describe_output(item)}" for item in manifest.outputs)
    yield "files" if manifest.assets else "files: none here; only the structure is known"
    for asset in manifest.assets:
        built = asset.architecture
        how = f", network from {built.library} {built.name or ''}".rstrip() if built else ""
        yield f"  {asset.format} ({presence(asset, entry.folder)}){how}"
        yield from (f"    {_describe_file(file, entry)}" for file in asset.files)
    if manifest.claims:
        yield "claims (what the source says, not measured here)"
        yield from (f"  {describe_claim(claim)}" for claim in manifest.claims)


def _facts(entry: Entry, asked: str) -> Iterator[str]:
    manifest = entry.manifest
    yield f"task        {manifest.task if entry.described else 'unknown (no manifest)'}"
    yield f"weights     {entry.weights}"
    if manifest.framework:
        yield f"framework   {manifest.framework.name} {manifest.framework.version}".rstrip()
    yield f"element     {manifest.element_type}"
    yield from _parameters(entry, asked)
    yield f"license     {manifest.license or 'not stated'}"
    if manifest.requires:
        yield f"requires    {manifest.requires}"
    if manifest.code:
        yield "code        carries Python of its own, which runs only with --allow-code:"
        for name, source in manifest.code.model_dump(exclude_none=True).items():
            yield f"  {name}"
            yield from (f"    | {line}" for line in source.splitlines())
    yield from (f"see         {reference}" for reference in manifest.references)
    yield from (f"{name:12}{text}" for name, text in origin_of_twin(manifest.attributes).items())


def _parameters(entry: Entry, asked: str) -> Iterator[str]:
    """How many parameters were counted; what a source claims may include those that lead to no output."""
    from zoolens.findings.graph.cost.held_parameters import held_parameters

    graph = _kept_graph(entry)
    if graph is not None:
        held = held_parameters(graph)
        yield f"parameters  {graph.parameters:,}{f' ({held.text})' if held else ''}"
    elif any(claim.metric == "params" for claim in entry.manifest.claims):
        yield f"parameters  not counted here yet: `zoolens cost {quote(asked)}` counts those in use"


def _parameters_data(entry: Entry) -> dict[str, object]:
    from zoolens.findings.graph.cost.held_parameters import held_data

    graph = _kept_graph(entry)
    return {} if graph is None else {"parameters": graph.parameters, **held_data(graph)}


def _kept_graph(entry: Entry) -> Graph | None:
    """The network's structure, if it was read before; a store that cannot be read tells nothing here."""
    from zoolens.findings.graph.structures.structure import kept_structure

    try:
        known = kept_structure(entry)
    except ZoolensError:
        return None
    return known.graph if known is not None and known.packed is not None else None


def describe_input(item: Input) -> str:
    if item.tokenizer is not None:
        return describe_text(item, item.tokenizer)
    if item.sound is not None:
        return describe_sound(item, item.sound)
    kind = {
        "image": f"{item.color} image, {item.layout}",
        "constant": f"always {item.value}",
        "size": f"the image's {item.size}",
    }.get(item.modality, "array")
    decoded = "" if item.decoder == DEFAULT_DECODER else f", decoded by {item.decoder}"
    return f"{item.name or 'the input'}: {shape_text(item.shape)} {item.dtype}, {kind}{decoded}"


def describe_text(item: Input, tokenizer: Tokenizer) -> str:
    cut = {"right": "cut at its end", "left": "cut at its start", "refuse": "refused"}[tokenizer.truncation]
    filled = {
        "max_length": "shorter ones filled up",
        "longest": "shorter ones filled up to the longest of a batch",
        "none": "one at a time",
    }[tokenizer.padding]
    side = "" if tokenizer.padding == "none" else f" on the {tokenizer.padding_side}"
    special = "" if tokenizer.special_tokens else ", without special tokens"
    filling = ", ".join(f"{name} ({kind})" for kind, name in tokenizer.tensors.names.items()) or "the input"
    return (
        f"{filling}: {shape_text(item.shape)} {item.dtype}, text of at most {tokenizer.max_length:,} tokens{special}; "
        f"a longer one is {cut}, {filled}{side}"
    )


def describe_step(step: Step) -> str:
    match step:
        case Resize():
            size = f"shorter side to {step.size}" if isinstance(step.size, int) else "to {}×{}".format(*step.size)
            smoothing = "" if step.antialias is None else f", {'with' if step.antialias else 'without'} antialiasing"
            return f"resize {size}, {step.method} as {step.library} does it{smoothing}"
        case Letterbox():
            where = "in the middle" if step.fit == "letterbox" else "in the top left corner"
            sides = "" if step.rounding is None else f", sides by {step.rounding}"
            return (
                f"fit the whole image onto {step.size[0]}×{step.size[1]}, {where}, filled with {step.fill:g}, "
                f"{step.method} as {step.library} does it{sides}"
            )
        case ResizeHeight():
            limits = "×{} to {}".format(*step.width) if step.width[0] < step.width[1] else f"×{step.width[0]}"
            return (
                f"resize to {step.height}{limits}, as wide as the aspect ratio says, filled with {step.fill:g} on the "
                f"right, {step.method} as {step.library} does it"
            )
        case CenterCrop(size=None):
            return f"crop the central {percent(step.fraction, 1)} of each side"
        case CenterCrop():
            assert step.size is not None
            return "crop the central {}×{}".format(*step.size)
        case Normalize():
            return f"normalise: (pixel × {step.scale:.6g} − {_numbers(step.mean)}) ÷ {_numbers(step.std)}"
        case ScaleWaveform() | LogMel() | Mfcc() | Standardize():
            return describe_sound_step(step)


def describe_output(item: Output) -> str:
    steps = ", ".join(step.op.replace("_", " ") for step in item.postprocess)
    labels = f", {len(item.labels):,} class names" if item.labels else ""
    parts = ", ".join(f"{role} {tensor}" for role, tensor in (item.parts or {}).items())
    name = item.name or parts or "the first output"
    scores = f", {item.scores}" if task_named(item.task).discrete else ""
    return f"{name}: {item.task}{scores}{f', then {steps}' if steps else ''}{labels}"


def describe_claim(claim: Claim) -> str:
    value = count(claim.value) if not claim.unit else figure(claim.value, claim.unit)
    if claim.unit == "multiply-adds":
        value = f"{count(claim.value)} multiply-adds"
    return f"{claim.metric} {value}{f' on {claim.dataset}' if claim.dataset else ''} — {claim.source}"


def _describe_file(file: AssetFile, entry: Entry) -> str:
    try:
        path = locate(file, entry.folder)
    except AssetError as error:
        return f"{file.role}: {error}"
    size = f", {figure(file.bytes, 'B')}" if file.bytes else ""
    digest = f", sha256 {file.sha256[:12]}…" if file.sha256 else ", no sha256"
    return f"{file.role}: {path or file.location}{size}{digest}"


def _numbers(values: tuple[float, ...]) -> str:
    text = ", ".join(f"{value:g}" for value in values)
    return text if len(values) == 1 else f"[{text}]"
