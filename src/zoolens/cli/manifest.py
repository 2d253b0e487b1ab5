"""`zoolens manifest`: write, check and describe manifests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from zoolens.errors import ManifestError, ZoolensError
from zoolens.manifests.files import SUFFIXES, Problem, check_manifest, dump_manifest, line_of, read_text
from zoolens.manifests.locations import presence, resolve_file
from zoolens.manifests.schema import Manifest, Output


@click.group("manifest")
def command() -> None:
    """Write, check and describe manifests."""


@command.command("init")
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to; - for standard output.")
@click.option("--force", is_flag=True, help="Overwrite.")
def init(file: Path, output: Path | None, force: bool) -> None:
    """Draft a manifest for a model FILE: shapes and types from the file, the rest guessed and marked so."""
    from zoolens.runtimes.draft import draft_manifest

    file = file.resolve()
    manifest = draft_manifest(file)
    target = output or file.with_name(f"{manifest.name}.yaml")
    if str(target) == "-":
        click.echo(dump_manifest(manifest), nl=False)
        return
    if target.exists() and not force:
        raise ManifestError(f"{target} exists already.", hint="Overwrite it with --force, or name another with -o.")
    target.write_text(dump_manifest(_relocated(manifest, file.parent, target.resolve().parent)), encoding="utf-8")
    click.echo(f"{target} written. {manifest.description}")


@command.command("validate")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="PATH...")
def validate(paths: tuple[Path, ...]) -> None:
    """Check manifests (files, or folders of them): every problem with its line; exit code 1 if there is any."""
    failed = False
    for path in _manifests_in(paths):
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
    click.echo(json.dumps(Manifest.model_json_schema(), indent=2, ensure_ascii=False))


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
            continue  # not here yet: nothing to compare
        for f, file in enumerate(asset.files):
            where = ("assets", a, "files", f)
            try:
                found = resolve_file(file, folder, fetch=False)
            except ZoolensError as error:
                yield Problem(line_of(text, *where, "location"), f"assets[{a}].files[{f}]", str(error))
                continue
            if file.bytes is not None and found.is_file() and found.stat().st_size != file.bytes:
                what = f"{file.location} has {found.stat().st_size:,} bytes, not {file.bytes:,}"
                yield Problem(line_of(text, *where, "bytes"), f"assets[{a}].files[{f}].bytes", what)


def _check_labels(manifest: Manifest, folder: Path, text: str) -> Iterator[Problem]:
    for index, output in enumerate(manifest.outputs):
        line = line_of(text, "outputs", index, "labels_file" if output.labels_file else "labels")
        problem = _label_problem(output, folder)
        if problem:
            yield Problem(line, f"outputs[{index}]", problem)


def _label_problem(output: Output, folder: Path) -> str | None:
    """What is wrong with the class names, as far as it shows without opening the model."""
    if output.labels is not None and output.labels_file is not None:
        return "give labels or labels_file, not both"
    if output.labels_file is not None:
        path = (folder / output.labels_file).resolve()
        if not path.is_relative_to(folder.resolve()):
            return f"{output.labels_file} leads out of the manifest's folder"
        if not path.is_file():
            return f"{output.labels_file} does not exist"
    if output.labels is None:
        return None
    kept = next((len(step.indices) for step in reversed(output.postprocess) if step.op == "select"), None)
    if kept is not None and kept != len(output.labels):
        return f"{len(output.labels)} labels for the {kept} classes that postprocess selects"
    highest = max(output.label_map, default=-1) if output.label_map else -1
    return (
        f"label_map names class {highest}, but there are {len(output.labels)} labels" * (highest >= len(output.labels))
        or None
    )


def _relocated(manifest: Manifest, source: Path, target: Path) -> Manifest:
    """The files named from where the manifest will lie: relative if below it, absolute otherwise."""
    if source == target:
        return manifest
    assets = []
    for asset in manifest.assets:
        files = []
        for file in asset.files:
            path = source / file.location
            inside = path.is_relative_to(target)
            location = path.relative_to(target).as_posix() if inside else f"file://{path}"
            files.append(file.model_copy(update={"location": location}))
        assets.append(asset.model_copy(update={"files": tuple(files)}))
    return manifest.model_copy(update={"assets": tuple(assets)})


def _manifests_in(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        else:
            yield path
