"""A first manifest for a model file, from what the file says about itself.

Runs in the main process only. Shapes, types and tensor names are read by opening the file in an installed runtime,
what its outputs come from by reading the graph and by answering a little noise;
what the file cannot say (normalisation, colour order, class names) is guessed, and the guesses are listed in the
description so that nobody takes them for facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from zoolens import plugins
from zoolens.engine.environments import ensure_environment, parse_env
from zoolens.errors import ModelError, ZoolensError
from zoolens.manifests.digests import digest, size_on_disk
from zoolens.manifests.formats import detect_format, legal_name, model_stem
from zoolens.manifests.guesses import Guesses
from zoolens.manifests.locations import resolve_asset
from zoolens.manifests.schema import (
    Asset,
    AssetFile,
    DropLeading,
    Input,
    Manifest,
    Output,
    OutputStep,
)
from zoolens.runtimes import onnxfile
from zoolens.runtimes.base import ModelFiles, Runtime, TensorSpec
from zoolens.runtimes.endings import Ending, endings
from zoolens.runtimes.isolated import open_model
from zoolens.runtimes.noise import outputs_that_sum_to_one
from zoolens.zoos.base import Entry

_BACKGROUND_AND_IMAGENET = 1001
_IMAGENET_CLASSES = (1000, _BACKGROUND_AND_IMAGENET)  # SqueezeNet pools its scores
_EMBEDDING_WORDS = ("embed", "feature", "hidden", "pooler")
_COUNTED = ("int32", "int64", "uint32", "uint64", "bool", "string")  # numbers of classes, say: no scores
_GEOMETRY_WORDS = ("box", "landmark", "keypoint", "coord", "anchor", "pose")  # numbers that are no classes
_PROBABILITY_WORDS = ("prob", "softmax", "sigmoid")
_DRAFT_ORDER = ("onnxruntime", "litert", "openvino", "opencv", "torch")  # quick to import first


def draft_manifest(path: Path, env: str = "", say: Callable[[str], None] = lambda _: None) -> Manifest:
    """A manifest for the file at `path` (or for the pair it belongs to), its files named relative to its folder. `env`:
    packages of an isolated environment, for a file whose runtime is not installed here; `say` hears how it is built."""
    path = path.resolve()
    format_, files = detect_format(path)
    if format_ == "torch-state-dict":
        raise ModelError(
            f"{path.name} holds weights only, not the network they belong to.",
            hint="Write a manifest that says under assets.architecture how to build it.",
        )
    if format_ == "onnx":
        outside = onnxfile.read_graph(path).external_files()
        if outside:
            files["weights"] = path.parent / outside[0]
    inputs, outputs, runtime, sums_to_one = _specs(ModelFiles(format_, files), env, say)
    if not inputs or not outputs:
        raise ModelError(
            f"{path.name} does not say what its inputs and outputs are.", hint="Write them into a manifest by hand."
        )
    guesses = _Guesses(format_)
    try:
        manifest_inputs = tuple(guesses.input(spec) for spec in inputs)
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ModelError(f"{path.name} declares an input that makes no sense: {what}.") from error
    manifest_outputs = tuple(guesses.outputs(outputs, endings(format_, files["model"], len(outputs)), sums_to_one))
    return Manifest(
        name=legal_name(model_stem(path)),
        version="0.1.0",
        description=f"Drafted from {files['model'].name} with {runtime}. {guesses.summary()}",
        element_type=_element_type([*inputs, *outputs]),
        inputs=manifest_inputs,
        outputs=manifest_outputs,
        assets=(Asset(format=format_, files=tuple(_files(files, path.parent))),),
        attributes=guesses.attributes,
    )


def draft_entry(entry: Entry) -> Entry:
    """The same entry with a drafted manifest in place of the placeholder."""
    manifest = entry.manifest
    if not manifest.assets:
        raise ModelError(
            f"{entry.ref} holds weights only, not the network they belong to.",
            hint="Write a manifest that says under assets.architecture how to build it.",
        )
    paths = resolve_asset(manifest.assets[0], entry.folder, fetch=False)
    drafted = draft_manifest(paths["model"])
    checked = {file.role: file for file in drafted.assets[0].files}
    files = tuple(
        file.model_copy(update={"sha256": checked[file.role].sha256, "bytes": checked[file.role].bytes})
        for file in manifest.assets[0].files
    )
    # A file that keeps its weights in another one: only the draft, which has looked inside, knows of it.
    known = set(checked) == {file.role for file in files}
    asset = manifest.assets[0].model_copy(update={"files": files}) if known else drafted.assets[0]
    own = {"name": manifest.name, "assets": (asset,), "license": manifest.license}
    return Entry(entry.zoo, drafted.model_copy(update=own), entry.weights, entry.folder)


def output_classes(model: ModelFiles) -> int | None:
    """How many classes the first output of a file has; None: it does not say."""
    _, outputs, _, _ = _specs(model)
    return _classes(outputs[0].shape) if outputs else None


def _specs(
    model: ModelFiles, env: str = "", say: Callable[[str], None] = lambda _: None
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], str, frozenset[str]]:
    """Inputs and outputs as the first runtime that opens the file reports them, its name, and the outputs that answer
    noise with rows of probabilities."""
    reasons: list[str] = []
    hint: str | None = None
    for runtime in _runtimes_for(model.format, installed=not env):
        try:
            environment = ensure_environment(parse_env(env), runtime.requirements, say) if env else None
            with open_model(runtime, model, environment=environment) as session:
                return session.inputs, session.outputs, runtime.name, outputs_that_sum_to_one(session)
        except ZoolensError as error:
            reasons.append(f"{runtime.name}: {error.message}")
            hint = hint or error.hint
    if reasons:
        listed = "; ".join(reason.rstrip(".") for reason in reasons)
        raise ModelError(f"{model.path().name} could not be opened. {listed}.", hint=hint)
    raise ModelError(
        f"No installed runtime runs {model.format} models, so {model.path().name} cannot be looked into.",
        hint=_how_to_open(model.format),
    )


def _how_to_open(format_: str) -> str:
    """An environment of its own, where a runtime for it names its packages."""
    packages = next(
        (runtime.requirements for runtime in _runtimes_for(format_, installed=False) if runtime.requirements), ()
    )
    several = "`zoolens runtimes` says what to install"
    return f"{several}, or open it with --env '{','.join(packages)}'." if packages else f"{several}."


def _runtimes_for(format_: str, *, installed: bool = True) -> list[Runtime]:
    names = plugins.names(plugins.RUNTIMES)
    ordered = [*(name for name in _DRAFT_ORDER if name in names), *(n for n in names if n not in _DRAFT_ORDER)]
    runtimes: list[Runtime] = []
    for name in ordered:
        try:
            runtime: Runtime = plugins.load(plugins.RUNTIMES, name)()
        except ZoolensError:  # a broken plug-in is not the file's fault
            continue
        if format_ in runtime.formats and (not installed or runtime.version() is not None):
            runtimes.append(runtime)
    return runtimes


class _Guesses(Guesses):
    """Turns tensor specs into manifest parts and keeps count of what was only assumed."""

    def input(self, spec: TensorSpec) -> Input:
        return self.image_or_array(spec.name, spec.shape, spec.dtype, quantised=spec.quantised)

    def outputs(
        self, specs: Sequence[TensorSpec], known_ends: Sequence[Ending], sums_to_one: frozenset[str]
    ) -> Iterable[Output]:
        ends = known_ends if len(known_ends) == len(specs) else [Ending.UNKNOWN] * len(specs)
        if _detects(specs, ends):
            self.said.append("the task is unknown, boxes among the outputs suggest a detector")
            return [Output(name=spec.name, task="other") for spec in specs]
        drafted = [self._output(spec, end, spec.name in sums_to_one) for spec, end in zip(specs, ends, strict=True)]
        if specs[0].dtype in _COUNTED and not specs[0].quantised:  # scikit-learn gives the class first, then its scores
            return sorted(drafted, key=lambda output: output.task != "classification")
        return drafted

    def _output(self, spec: TensorSpec, end: Ending, sums_to_one: bool) -> Output:
        if _one_number(spec.shape) and (spec.dtype not in _COUNTED or spec.quantised):
            return self._one_score(spec, end)
        classes = _classes(spec.shape)
        if classes is None or (spec.dtype in _COUNTED and not spec.quantised):
            self.said.append(f"the task of {spec.name} is unknown")
            return Output(name=spec.name, task="other")
        named = spec.name.lower()
        # Softmax is quantised with a step of 1/256: its range is known in advance.
        probable = (
            end is Ending.SOFTMAX
            or sums_to_one
            or (end is Ending.UNKNOWN and (spec.scale == 1 / 256 or any(word in named for word in _PROBABILITY_WORDS)))
        )
        if not probable and any(word in named for word in _EMBEDDING_WORDS):
            self.said.append(f"{spec.name} is an embedding of {classes:,} numbers")
            return Output(name=spec.name, task="embedding")
        if not probable and any(word in named for word in _GEOMETRY_WORDS):
            self.said.append(f"the task of {spec.name} is unknown, {classes:,} numbers that its name calls no classes")
            return Output(name=spec.name, task="other")
        if not probable and (end is Ending.SIGMOID or (end is Ending.FEATURES and classes not in _IMAGENET_CLASSES)):
            self.said.append(f"the task of {spec.name} is unknown, {classes:,} numbers from {end}")
            return Output(name=spec.name, task="other")
        self.said.append(f"{spec.name} holds {'probabilities' if probable else 'logits'} of {classes:,} classes")
        steps: tuple[OutputStep, ...] = ()
        if classes == _BACKGROUND_AND_IMAGENET:
            steps = (DropLeading(op="drop_leading"),)
            self.said.append("class 0 is background and is dropped")
        return Output(name=spec.name, scores="probabilities" if probable else "logits", postprocess=steps)

    def _one_score(self, spec: TensorSpec, end: Ending) -> Output:
        """One number for each input: a sigmoid tells two classes apart, anything else may be a quantity."""
        if end is Ending.SIGMOID or any(word in spec.name.lower() for word in _PROBABILITY_WORDS):
            self.said.append(f"{spec.name} is the probability of the second of two classes")
            return Output(name=spec.name, scores="probabilities")
        self.said.append(
            f"the task of {spec.name} is unknown, one number: a quantity (task: regression), or the score of the "
            "second of two classes (task: classification)"
        )
        return Output(name=spec.name, task="other")


def _one_number(shape: tuple[int | None, ...]) -> bool:
    return len(shape) > 1 and all(extent == 1 for extent in shape[1:])


def _detects(specs: Sequence[TensorSpec], ends: Sequence[Ending]) -> bool:
    """Boxes beside other outputs: n × 4 numbers an input, or what a detector's last operator gives."""
    boxes = any(len(spec.shape) == 3 and spec.shape[2] == 4 for spec in specs)
    return Ending.DETECTIONS in ends or (boxes and len(specs) > 1)


def _classes(shape: tuple[int | None, ...]) -> int | None:
    """Batch × classes, also with trailing axes of one, as Caffe exports have."""
    if len(shape) < 2 or any(extent != 1 for extent in shape[2:]):
        return None
    classes = shape[1]
    return classes if classes and classes > 1 else None


def _element_type(specs: Iterable[TensorSpec]) -> str:
    return next((spec.dtype for spec in specs if spec.quantised), "float32")


def _files(files: dict[str, Path], folder: Path) -> Iterable[AssetFile]:
    for role, path in files.items():
        yield AssetFile(
            location=path.relative_to(folder).as_posix(),
            role=role,  # type: ignore[arg-type]
            sha256=digest(path),
            bytes=size_on_disk(path),
        )
