"""A first manifest for a model file, from what the file says about itself.

Runs in the main process only. Shapes, types and tensor names are read by opening the file in an installed runtime,
what its outputs come from by reading the graph and by answering a little noise;
what the file cannot say (normalisation, colour order, class names) is guessed, and the guesses are listed in the
description so that nobody takes them for facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from zoolens.base import plugins
from zoolens.base.engine.environments import ensure_environment, parse_env
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.inventory.catalog.drafted import UNCHECKED, DraftedFile, TaskGuess
from zoolens.inventory.catalog.embedded_classes import DROPPED, with_class_names
from zoolens.inventory.catalog.gguf_draft import draft_gguf
from zoolens.inventory.catalog.language_models import language_model
from zoolens.inventory.catalog.pixel_ranges import quantised_range, stated_normalisation
from zoolens.inventory.catalog.task_guesses import guessed_task, with_steps
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.formats import detect_format, followed, legal_name, location_of, model_stem
from zoolens.inventory.manifests.guesses import Guesses
from zoolens.inventory.manifests.locations import resolve_asset
from zoolens.inventory.manifests.schema import Asset, AssetFile, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import Divide, DropLeading, OutputStep, Step
from zoolens.inventory.runtimes.isolation.isolated import open_model
from zoolens.inventory.runtimes.litert.tflite_metadata import FileNotes, TensorNotes, read_notes
from zoolens.inventory.runtimes.onnx import onnx_file
from zoolens.inventory.runtimes.onnx.decoder_form import takes_caches
from zoolens.inventory.runtimes.outputs.noise_probe import NoiseAnswers, answers_to_noise, is_one
from zoolens.inventory.runtimes.outputs.output_endings import Ending, endings
from zoolens.inventory.runtimes.outputs.output_layers import OutputLayers, output_layers
from zoolens.inventory.runtimes.runtime import ModelFiles, Runtime, TensorSpec
from zoolens.inventory.zoos.undescribed import DRAFT_VERSION
from zoolens.inventory.zoos.zoo import Entry

_BACKGROUND_AND_IMAGENET = 1001
_IMAGENET_CLASSES = (1000, _BACKGROUND_AND_IMAGENET)  # SqueezeNet pools its scores
_EMBEDDING_WORDS = ("embed", "feature", "hidden", "pooler")
_COUNTED = ("int32", "int64", "uint32", "uint64", "bool", "string")  # numbers of classes, say: no scores
_GEOMETRY_WORDS = ("box", "landmark", "keypoint", "coord", "anchor", "pose")  # numbers that are no classes
_PROBABILITY_WORDS = ("prob", "softmax", "sigmoid")
_DRAFT_ORDER = ("onnxruntime", "litert", "openvino", "opencv", "torch")  # quick to import first


def draft_manifest(
    path: Path, env: str = "", say: Callable[[str], None] = lambda _: None, *, beside: bool = True
) -> Manifest:
    """A manifest for the file at `path` (or for the pair it belongs to), its files named relative to its folder. `env`:
    packages of an isolated environment, for a file whose runtime is not installed here; `say` hears how it is built.
    `beside`: further files that a manifest needs may be written beside the model's."""
    path = followed(path)
    format_, files = detect_format(path)
    if format_ == "torch-state-dict" and (described := language_model(path)) is not None:
        return described
    if format_ == "torch-state-dict":
        raise ModelError(
            f"{path.name} holds weights only, not the network they belong to.",
            hint="Write a manifest that says under assets.architecture how to build it.",
        )
    if format_ == "gguf":
        return draft_gguf(path, beside=beside)
    only = None
    if format_ == "onnx":
        graph = onnx_file.read_graph(path)
        if outside := graph.external_files():
            files["weights"] = path.parent / outside[0]
        # Other runtimes would refuse it for what they lack, whatever is wrong with the file.
        only = "onnxruntime" if takes_caches(graph.inputs) else None
    inputs, outputs, runtime, noise = _specs(ModelFiles(format_, files), env, say, only=only)
    if not inputs or not outputs:
        raise ModelError(
            f"{path.name} does not say what its inputs and outputs are.", hint="Write them into a manifest by hand."
        )
    guesses = _Guesses(format_)
    file = DraftedFile(format_, files["model"], inputs, outputs, guesses.metadata(format_, files["model"]))
    try:
        found = guessed_task(file) or TaskGuess((), ())
        guesses.prepared = found.steps is not None
        manifest_inputs = found.inputs or tuple(
            with_steps(guesses.input(spec, file.input_notes(place)), found.steps) for place, spec in enumerate(inputs)
        )
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ModelError(f"{path.name} declares an invalid input: {what}.") from error
    guesses.said += found.said
    guesses.stated += found.stated
    manifest_outputs = found.outputs
    if not manifest_outputs:
        ends = endings(format_, files["model"], len(outputs))
        sources = output_layers(format_, files["model"])
        manifest_outputs = guesses.labelled(guesses.outputs(outputs, ends, noise, sources), file)
    return Manifest(
        name=legal_name(model_stem(path)),
        version=DRAFT_VERSION,
        description=f"Drafted from {files['model'].name} with {runtime}. {guesses.summary()}",
        element_type=_element_type([*inputs, *outputs]),
        inputs=manifest_inputs,
        outputs=manifest_outputs,
        assets=(Asset(format=format_, files=(*_files(files, path.parent), *found.files)),),
        attributes=guesses.attributes,
    )


def draft_entry(entry: Entry) -> Entry:
    """Returns an entry whose placeholder is replaced by a drafted manifest."""
    manifest = entry.manifest
    if not manifest.assets:
        raise ModelError(
            f"{entry.ref} holds weights only, not the network they belong to.",
            hint="Write a manifest that says under assets.architecture how to build it.",
        )
    paths = resolve_asset(manifest.assets[0], entry.folder, fetch=False)
    drafted = draft_manifest(paths["model"], beside=False)
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
    model: ModelFiles, env: str = "", say: Callable[[str], None] = lambda _: None, *, only: str | None = None
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], str, NoiseAnswers]:
    """Inputs and outputs as the first runtime that opens the file reports them, its name, and what the outputs answer
    to noise."""
    reasons: list[str] = []
    hint: str | None = None
    for runtime in _runtimes_for(model.format, installed=not env):
        if only not in (None, runtime.name):
            continue
        try:
            environment = ensure_environment(parse_env(env), runtime.requirements, say) if env else None
            with open_model(runtime, model, environment=environment) as session:
                return session.inputs, session.outputs, runtime.name, answers_to_noise(session)
        except ZoolensError as error:
            reasons.append(f"{runtime.name}: {error.message}")
            hint = hint or error.hint
    if reasons:
        listed = "; ".join(reason.rstrip(".") for reason in reasons)
        raise ModelError(f"{model.path().name} could not be opened. {listed}.", hint=hint)
    who = f"No installed runtime runs {model.format} models"
    if only is not None:
        who = f"{only}, which alone runs models that take keys and values of earlier tokens, is not installed"
    raise ModelError(
        f"{who}, so {model.path().name} cannot be inspected.",
        hint=_how_to_open(model.format),
    )


def _how_to_open(format_: str) -> str:
    """An environment of its own, where a runtime for it names its packages."""
    extra = next((runtime.extra for runtime in _runtimes_for(format_, installed=False) if runtime.extra), None)
    packages = next(
        (runtime.requirements for runtime in _runtimes_for(format_, installed=False) if runtime.requirements), ()
    )
    install = f"Run: pip install 'zoolens[{extra}]'" if extra else "`zoolens runtimes` says what to install"
    return f"{install}, or open it with --env '{','.join(packages)}'." if packages else f"{install}."


def _runtimes_for(format_: str, *, installed: bool = True) -> list[Runtime]:
    names = plugins.names(plugins.RUNTIMES)
    ordered = [*(name for name in _DRAFT_ORDER if name in names), *(n for n in names if n not in _DRAFT_ORDER)]
    runtimes: list[Runtime] = []
    for name in ordered:
        try:
            runtime: Runtime = plugins.load(plugins.RUNTIMES, name)()
        except ZoolensError:
            # A broken plug-in is not the file's fault.
            continue
        if format_ in runtime.formats and (not installed or runtime.version() is not None):
            runtimes.append(runtime)
    return runtimes


class _Guesses(Guesses):
    """Turns tensor specs into manifest parts and keeps count of what was only assumed."""

    prepared: bool = False  # how images are prepared is known otherwise
    _notes = TensorNotes()  # of the input that is drafted
    _spec = TensorSpec("", (), "float32")

    def _steps(self, *described: Any) -> Iterable[Step]:
        return () if self.prepared else super()._steps(*described)

    def labelled(self, outputs: Iterable[Output], file: DraftedFile) -> tuple[Output, ...]:
        """The outputs, the first with the names of its classes where the file holds them."""
        first, *others = outputs
        shape = next(spec.shape for spec in file.outputs if spec.name == first.name)
        return (with_class_names(first, file, _classes(shape), self), *others)

    def input(self, spec: TensorSpec, notes: TensorNotes = TensorNotes()) -> Input:  # noqa: B008 - it is frozen
        self._spec, self._notes = spec, notes
        return self.image_or_array(spec.name, spec.shape, spec.dtype, quantised=spec.quantised)

    def metadata(self, format_: str, path: Path) -> FileNotes | None:
        """What a TFLite file says of its tensors. Damaged metadata are no damaged model, and are named."""
        try:
            return read_notes(path) if format_ == "tflite" else None
        except ModelError as error:
            self.said.append(f"nothing of the metadata is used: {error.message.rstrip('.')}")
            return None

    def _color(self, color: str) -> None:
        if self._notes.color is None:
            super()._color(color)
        else:
            self.stated.append(f"{self._notes.color} order by the metadata")

    def _normalising(self, dtype: str, quantised: bool, channels: int | None) -> Iterable[Step]:
        found = stated_normalisation(self._spec, self._notes, channels)
        if found is not None:
            self.stated.append(found.why)
            yield from found.steps
            return
        found = quantised_range(self._spec)
        if found is not None:
            self.said.append(found.why)
            yield from found.steps
            return
        before = len(self.said)
        yield from super()._normalising(dtype, quantised, channels)
        # Nothing in a file with floats says which numbers it was trained on.
        if dtype.startswith("float"):
            self.said[before:] = [f"{guess} ({UNCHECKED})" for guess in self.said[before:]]

    def outputs(
        self,
        specs: Sequence[TensorSpec],
        known_ends: Sequence[Ending],
        noise: NoiseAnswers,
        known_sources: Sequence[OutputLayers] | None = None,
    ) -> Iterable[Output]:
        """The outputs of a file, the one that is taken for its answer first."""
        ends = known_ends if len(known_ends) == len(specs) else [Ending.UNKNOWN] * len(specs)
        if _detects(specs, ends):
            self.said.append("the task is unknown, boxes among the outputs suggest a detector")
            return [Output(name=spec.name, task="other") for spec in specs]
        known = known_sources is not None and len(known_sources) == len(specs)
        sources = dict(zip((spec.name for spec in specs), known_sources or (), strict=True)) if known else {}
        drafted = [
            self._output(spec, end, noise)
            for spec, end in zip(specs, ends, strict=True)
            if self._is_answer(spec, sources)
        ]
        first = self._answer_among(drafted, sources)
        return sorted(drafted, key=lambda output: output is not first)

    def _is_answer(self, spec: TensorSpec, sources: Mapping[str, OutputLayers]) -> bool:
        """Whether an output depends on the input, and on weights if any output does."""
        if spec.name not in sources or not any(other.layers and other.uses_input for other in sources.values()):
            return True
        if not sources[spec.name].uses_input:
            self.said.append(f"{spec.name} is left out: it does not depend on the input")
            return False
        if not sources[spec.name].layers:
            self.said.append(f"{spec.name} is left out: it depends on no layer with weights")
            return False
        return True

    def _answer_among(self, drafted: Sequence[Output], sources: Mapping[str, OutputLayers]) -> Output:
        """Returns the first output of class scores that depends on the most layers; without any, the first output."""
        candidates = [output for output in drafted if output.task == "classification"]
        if len(candidates) < 2:
            return candidates[0] if candidates else drafted[0]
        layers = {output.name or "": len(sources[output.name or ""].layers) if sources else 0 for output in candidates}
        chosen = max(candidates, key=lambda output: layers[output.name or ""])
        others = ", ".join(output.name or "" for output in candidates if output is not chosen)
        most = layers[chosen.name or ""]
        equal = sum(count == most for count in layers.values()) > 1
        reason = "the first of them" if equal or not sources else f"it depends on the most layers ({most})"
        self.said.append(f"of the outputs with scores of classes {chosen.name} is the answer ({reason}), not {others}")
        return chosen

    def _output(self, spec: TensorSpec, end: Ending, noise: NoiseAnswers) -> Output:
        if spec.name in noise.mixing_rows:
            self.said.append(
                f"the task of {spec.name} is unknown, its answer to an input depends on the other inputs of the batch"
            )
            return Output(name=spec.name, task="other")
        if spec.name in noise.other_rows:
            self.said.append(
                f"the task of {spec.name} is unknown, it does not have one row for each input: found objects, say"
            )
            return Output(name=spec.name, task="other")
        if _one_number(spec.shape) and (spec.dtype not in _COUNTED or spec.quantised):
            return self._one_score(spec, end)
        classes = _classes(spec.shape)
        if classes is None or (spec.dtype in _COUNTED and not spec.quantised):
            self.said.append(f"the task of {spec.name} is unknown")
            return Output(name=spec.name, task="other")
        named = spec.name.lower()
        # One minus each probability adds up to a constant too, but is never above 1 as percentages are.
        unit_range = spec.name in noise.in_unit_range
        total = noise.sums.get(spec.name)
        total = None if total is not None and unit_range and not is_one(total) else total
        # Softmax is quantised with a step of 1/256: its range is known in advance.
        probable = (
            end is Ending.SOFTMAX
            or total is not None
            or (end is Ending.UNKNOWN and (spec.scale == 1 / 256 or any(word in named for word in _PROBABILITY_WORDS)))
        )
        if not probable and any(word in named for word in _EMBEDDING_WORDS):
            self.said.append(f"{spec.name} is an embedding of {classes:,} numbers")
            return Output(name=spec.name, task="embedding")
        if not probable and any(word in named for word in _GEOMETRY_WORDS):
            self.said.append(f"the task of {spec.name} is unknown, {classes:,} numbers that its name calls no classes")
            return Output(name=spec.name, task="other")
        pooled = end is Ending.FEATURES and classes not in _IMAGENET_CLASSES
        if end is Ending.RANKED or (not probable and (end is Ending.SIGMOID or pooled)):
            self.said.append(f"the task of {spec.name} is unknown, {classes:,} numbers from {end}")
            return Output(name=spec.name, task="other")
        return self._scores(spec, classes, total, probable=probable, unit_range=unit_range)

    def _scores(
        self, spec: TensorSpec, classes: int, total: float | None, *, probable: bool, unit_range: bool
    ) -> Output:
        kind: Literal["probabilities", "logits"] = "probabilities" if probable else "logits"
        steps: list[OutputStep] = []
        if total is not None and not is_one(total):
            divisor = round(total) if abs(total - round(total)) < 1e-3 * total else total
            steps.append(Divide(op="divide", by=divisor))
            self.said.append(f"{spec.name} holds probabilities × {divisor:.6g} of {classes:,} classes")
        elif unit_range and not probable:
            self.said.append(
                f"{spec.name} holds logits of {classes:,} classes, although all of its answers to noise lie between 0 "
                "and 1: confidences and calibration are wrong if these are other scores"
            )
        else:
            self.said.append(f"{spec.name} holds {kind} of {classes:,} classes")
        if classes == _BACKGROUND_AND_IMAGENET:
            steps.append(DropLeading(op="drop_leading"))
            self.said.append(DROPPED)
        return Output(name=spec.name, scores=kind, postprocess=tuple(steps))

    def _one_score(self, spec: TensorSpec, end: Ending) -> Output:
        """Returns the output of one number per input: binary classification after a sigmoid, else unknown."""
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
    """Boxes beside other outputs: n × 4 numbers an input, or of one image with lists of classes and scores; or what a
    detector's last operator gives."""
    boxes = any(len(spec.shape) == 3 and spec.shape[2] == 4 for spec in specs)
    of_one = any(len(spec.shape) == 2 and spec.shape[1] == 4 for spec in specs)
    lists = sum(len(spec.shape) == 1 for spec in specs)
    return Ending.DETECTIONS in ends or (boxes and len(specs) > 1) or (of_one and lists > 1)


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
            location=location_of(path, folder),
            role=role,  # type: ignore[arg-type]
            sha256=digest(path),
            bytes=size_on_disk(path),
        )
