"""`zoolens manifest`: write, import, check and describe manifests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import click

from zoolens.base.errors import ManifestError, ZoolensError
from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.options import trust_option
from zoolens.inventory.manifests.files import (
    SUFFIXES,
    Problem,
    check_manifest,
    dump_manifest,
    is_manifest,
    line_of,
    read_text,
)
from zoolens.inventory.manifests.formats import followed
from zoolens.inventory.manifests.locations import presence, resolve_asset, resolve_file
from zoolens.inventory.manifests.pickles import TORCH_FORMATS, check_no_object
from zoolens.inventory.manifests.schema import Manifest, Output
from zoolens.inventory.manifests.schema_steps import DropLeading, Select

_QUICK_FORMATS = ("onnx", "tflite")


@click.group("manifest")
def command() -> None:
    """Write, import, check and describe manifests."""


@command.command("init")
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; - for standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.option("--env", default="", help="Packages of an isolated environment that opens it: mxnet==1.9.1,numpy<1.24.")
@trust_option
def init(file: Path, output: Path | None, force: bool, env: str) -> None:
    """Draft a manifest for a model FILE: shapes and types from the file, the rest guessed and marked so.

    A file whose runtime is not installed here is opened in an environment of its own, which --env names.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.inventory.catalog.draft import draft_manifest

    file = followed(file)
    # An environment that is built on the way says so on lines of its own.
    with nullcontext() if env else spinner(file.name, "open"):
        manifest = draft_manifest(file, env, lambda text: click.echo(text, err=True))
    _write(manifest, file.parent, output, force)


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; - for standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def import_(file: Path, output: Path | None, force: bool) -> None:
    """Draft a manifest from FILE of another system: an MLModelScope manifest (YAML), or a Triton config.pbtxt.

    FILE may also be the folder of a Triton model. What the file does not say is guessed and marked so, or named as
    unknown; code in it is not executed, and nothing is fetched.
    """
    from zoolens.inventory.manifests.foreign.importing import import_manifest

    manifest = import_manifest(file)
    file = file.resolve()
    _write(manifest, file if file.is_dir() else file.parent, output, force)


def _write(manifest: Manifest, folder: Path, output: Path | None, force: bool) -> None:
    """Write a drafted manifest, whose files are named from `folder`, to `output` or else into that folder."""
    target = output or folder / f"{manifest.name.replace('/', '_')}.yaml"
    if str(target) == "-":
        click.echo(dump_manifest(manifest), nl=False)
        return
    write_manifest(manifest, folder, target, force=force)
    click.echo(f"{target} written. {manifest.description}")


def write_manifest(manifest: Manifest, folder: Path, target: Path, *, force: bool = False) -> None:
    """Write a manifest whose files are named from `folder`. A file that exists is overwritten only by force."""
    from zoolens.inventory.preprocess.outputs import relocated_manifest

    if target.exists() and not force:
        raise ManifestError(f"{target} exists already.", hint="Overwrite it with --force, or name another with -o.")
    text = dump_manifest(relocated_manifest(manifest, folder, target.resolve().parent))
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"{target} cannot be written: {error.strerror}.", hint="Name another with -o.") from error


@command.command("validate")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="PATH...")
@trust_option
def validate(paths: tuple[Path, ...]) -> None:
    """Check manifests (files, or folders of them): every problem with its line; exit code 1 if there is any."""
    failed = False
    manifests = list(_manifests_in(paths))
    if not manifests:
        raise ManifestError(f"There are no manifests in {', '.join(map(str, paths))}.", hint="They end in .yaml.")
    for path in manifests:
        problems = list(check_file(path))
        failed |= bool(problems)
        for problem in problems:
            click.echo(f"{path} {problem}")
        if not problems:
            click.echo(f"{path} is valid.")
    if failed:
        raise SystemExit(1)


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of a manifest, for editors."""
    echo_json(Manifest.model_json_schema())


def check_file(path: Path) -> Iterator[Problem]:
    """Problems of the text, then of the files and labels it names."""
    try:
        text = read_text(path)
    except ManifestError as error:
        yield Problem(1, "", str(error))
        return
    manifest, problems = check_manifest(text)
    yield from problems
    if manifest is not None:
        yield from _check_files(manifest, path.parent, text)
        yield from _check_labels(manifest, path.parent, text)


def _check_files(manifest: Manifest, folder: Path, text: str) -> Iterator[Problem]:
    for a, asset in enumerate(manifest.assets):
        if presence(asset, folder) == "remote":
            # Not here yet: nothing to compare.
            continue
        for f, file in enumerate(asset.files):
            where = ("assets", a, "files", f)
            try:
                path = resolve_file(file, folder, fetch=False)
                if asset.format in TORCH_FORMATS:
                    check_no_object(path)
            except ZoolensError as error:
                yield Problem(line_of(text, *where, "location"), f"assets[{a}].files[{f}]", str(error))
                continue
            if file.bytes is not None and path.is_file() and path.stat().st_size != file.bytes:
                what = f"{file.location} has {path.stat().st_size:,} bytes, not {file.bytes:,}"
                yield Problem(line_of(text, *where, "bytes"), f"assets[{a}].files[{f}].bytes", what)


def _check_labels(manifest: Manifest, folder: Path, text: str) -> Iterator[Problem]:
    from zoolens.inventory.preprocess.outputs import labels_of

    for index, output in enumerate(manifest.outputs):
        try:
            labels = labels_of(output, folder)
            classes = _class_count(manifest, output, folder) if labels and index == 0 else None
        except ZoolensError as error:
            labels, classes = None, None
            yield Problem(line_of(text, "outputs", index, "labels_file"), f"outputs[{index}]", str(error))
        if labels is not None and classes is not None and len(labels) != classes:
            key = "labels_file" if output.labels_file else "labels"
            what = f"{len(labels):,} class names, but the model gives {classes:,} classes after postprocessing"
            yield Problem(line_of(text, "outputs", index, key), f"outputs[{index}].{key}", what)


def _class_count(manifest: Manifest, output: Output, folder: Path) -> int | None:
    """Classes after postprocessing, as a file that is here and quick to open tells."""
    from zoolens.inventory.catalog.draft import output_classes
    from zoolens.inventory.runtimes.runtime import ModelFiles

    here = (a for a in manifest.assets if a.format in _QUICK_FORMATS and presence(a, folder) == "present")
    asset = next(here, None)
    if asset is None or (output.name is not None and len(manifest.outputs) > 1):
        return None
    try:
        classes = output_classes(ModelFiles(asset.format, resolve_asset(asset, folder, fetch=False)))
    except ZoolensError:
        # Altered files are reported by themselves, absent runtimes are no fault of the manifest.
        return None
    for step in output.postprocess:
        if isinstance(step, DropLeading) and classes is not None:
            classes -= step.count
        elif isinstance(step, Select):
            classes = len(step.indices)
    return classes


def _manifests_in(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES and _means_to_be_one(file))
        else:
            yield path


def _means_to_be_one(path: Path) -> bool:
    try:
        return is_manifest(read_text(path))
    except ManifestError:
        return False
