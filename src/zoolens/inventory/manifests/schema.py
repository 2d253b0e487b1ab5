"""The manifest: everything needed to run a model correctly and to judge its answers, as data.

`Manifest.model_json_schema()` is the schema editors use (`zoolens manifest schema`).
"""

from __future__ import annotations

from typing import Any, Literal, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import Field, ValidationInfo, field_validator, model_validator

from zoolens.base import plugins
from zoolens.inventory.manifests.part import MAX_EXTENT, Part
from zoolens.inventory.manifests.schema_boxes import check_box_steps
from zoolens.inventory.manifests.schema_inputs import (
    SizeOf,
    check_given,
    check_inputs,
    check_sound,
    check_text,
    check_texts,
)
from zoolens.inventory.manifests.schema_masks import check_mask_steps
from zoolens.inventory.manifests.schema_sound import MAX_SAMPLES as MAX_SOUND
from zoolens.inventory.manifests.schema_sound import Sound
from zoolens.inventory.manifests.schema_steps import (
    Divide,
    DropLeading,
    L2Normalize,
    Linear,
    OutputStep,
    Pool,
    Select,
    Softmax,
    Step,
)
from zoolens.inventory.manifests.schema_texts import check_text_steps
from zoolens.inventory.manifests.tokenizer import ROLE, Tokenizer

MAX_ELEMENTS = 1 << 28
MAX_LABEL_BYTES = 1 << 22  # of a labels file

FORMATS = (  # those of the built-in runtimes
    "onnx",
    "tflite",
    "openvino-ir",
    "caffe",
    "torchscript",
    "torch-export",
    "torch-state-dict",
    "keras",
    "keras-h5",
    "tf-savedmodel",
    "tf-frozen",
    "jax-export",
    "mxnet",
    "gguf",
    "fake",
)

TASKS = (  # the built-in ones
    "classification",
    "detection",
    "segmentation",
    "voice-activity",
    "multilabel",
    "embedding",
    "regression",
    "token-classification",
    "question-answering",
    "text-recognition",
    "language-model",
    "multiple-choice",
    "generation",
    "other",
)

Decoder = Literal["pillow", "opencv", "tensorflow"]
DEFAULT_DECODER: Decoder = "pillow"

# What a sample is, for sentences.
MODALITIES = {
    "image": "an image",
    "array": "an array",
    "text": "a text",
    "sound": "a sound",
    "constant": "a constant",
    "size": "the size of an image",
}

DType = Literal[
    "float32", "float16", "float64", "bfloat16", "uint8", "int8", "int16", "int32", "int64", "bool", "string"
]


class Framework(Part):
    """The framework that made the model, and the versions it is known to work with."""

    name: str = Field(examples=["torch", "tensorflow", "jax", "caffe"])
    version: str = Field(default="", description="A version constraint such as '>=2.1,<3'.")

    @field_validator("version")
    @classmethod
    def _is_specifier(cls, value: str) -> str:
        try:
            SpecifierSet(value)
        except InvalidSpecifier as error:
            raise ValueError(f"{value!r} is not a version constraint such as '>=2.1,<3'") from error
        return value


class Input(Part):
    """One input. Quantised tensors: `preprocess` yields real values, which are then quantised with the file's
    own scale and zero point."""

    name: str | None = Field(
        default=None,
        description="Tensor name; may be left out for a single input. Of a text beside other inputs, the name of a "
        "part of the sample.",
    )
    modality: Literal["image", "array", "text", "sound", "constant", "size"] = Field(
        default="image",
        description="A text fills several inputs of the model, as `tokenizer` says; a sound all of them, as `sound` "
        "says. constant and size are for inputs beside that of the sample: see `value` and `size`.",
    )
    shape: tuple[int | None, ...] = Field(description="With the batch axis; null is a free dimension.")
    layout: Literal["NCHW", "NHWC", "NHW", "NC"] = "NCHW"
    color: Literal["RGB", "BGR", "gray"] = "RGB"
    dtype: DType = "float32"
    decoder: Decoder = Field(
        default=DEFAULT_DECODER,
        description="Who decodes image files: JPEG decoders differ by several grey levels, and OpenCV turns pictures "
        "as their EXIF data say. Datasets of decoded pixels ignore it.",
    )
    preprocess: tuple[Step, ...] = ()
    tokenizer: Tokenizer | None = None
    sound: Sound | None = None
    value: float | tuple[float, ...] | None = Field(
        default=None, description="Of modality: constant: one number for all elements, or all of them in order."
    )
    size: SizeOf | None = Field(
        default=None,
        description="Of modality: size: height and width (hw), or width and height (wh), of the image, of what it is "
        "resized to (content), or the factors between the two (scale).",
    )

    @field_validator("shape")
    @classmethod
    def _sane(cls, value: tuple[int | None, ...], info: ValidationInfo) -> tuple[int | None, ...]:
        elements = 1
        longest = MAX_SOUND if info.data.get("modality") == "sound" else MAX_EXTENT
        for extent in value:
            if extent is None:
                continue
            if not 1 <= extent <= longest:
                raise ValueError(f"a dimension of {extent:,} is outside 1 to {longest:,}")
            elements *= extent
        if elements > MAX_ELEMENTS:
            raise ValueError(f"{elements:,} elements per input is more than any real model takes")
        return value

    @model_validator(mode="after")
    def _layout_fits(self) -> Self:
        if self.modality == "image" and len(self.shape) != len(self.layout):
            raise ValueError(f"layout {self.layout} has {len(self.layout)} axes but shape has {len(self.shape)}")
        return self

    @model_validator(mode="after")
    def _sample_fits(self) -> Self:
        check_text(self.modality, self.tokenizer, self.shape, self.dtype, self.preprocess)
        check_sound(self.modality, self.sound, self.preprocess)
        check_given(self.modality, self.value, self.size, self.shape, self.preprocess)
        return self

    @property
    def channels(self) -> int | None:
        return self.shape[self.layout.index("C")] if "C" in self.layout else None


class Output(Part):
    name: str | None = Field(default=None, description="Tensor name; may be left out for a single output.")
    parts: dict[str, str] | None = Field(
        default=None,
        description="Tensor names by what each holds, of a task that reads several: boxes, scores, classes.",
    )
    batch_axis: int = Field(
        default=0, ge=0, le=7, description="Which axis of its tensors counts the inputs: 1 of [steps, batch, symbols]."
    )
    task: str = Field(
        default="classification",
        description=f"What the output does: {', '.join(TASKS)}, or the task of a plug-in.",
        examples=list(TASKS),
    )
    scores: Literal["logits", "probabilities"] = "logits"
    postprocess: tuple[OutputStep, ...] = ()
    labels: tuple[str, ...] | None = Field(
        default=None, description="Class names after postprocessing, in output order."
    )
    labels_file: str | None = Field(default=None, description="One class name per line, relative to the manifest.")
    label_map: dict[int, int] | None = Field(
        default=None, description="Output index to the dataset's class index, where the two orders differ."
    )

    @field_validator("task")
    @classmethod
    def _known_task(cls, task: str) -> str:
        if task not in TASKS and task not in plugins.registered(plugins.TASKS):
            known = dict.fromkeys((*TASKS, *plugins.names(plugins.TASKS)))
            raise ValueError(f"there is no task {task!r}; tasks are {', '.join(known)}")
        return task

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if self.parts is not None and self.name is not None:
            raise ValueError("give either name, of a single tensor, or parts, of several")
        return self

    @model_validator(mode="after")
    def _steps_fit(self) -> Self:
        kinds = [type(step) for step in self.postprocess]
        if self.task == "classification" and (Pool in kinds or L2Normalize in kinds):
            raise ValueError(
                "pool and l2_normalize are for vectors, not for the scores of classes: say task: embedding"
            )
        of_scores = {Softmax, Select, DropLeading, Divide} & {*kinds}
        if self.task in TASKS and self.task != "classification" and of_scores:
            raise ValueError(
                f"softmax, select, drop_leading and divide are for scores of classes, not for task: {self.task}"
            )
        check_box_steps(self.task, self.postprocess)
        check_mask_steps(self.task, self.postprocess)
        check_text_steps(self.task, self.postprocess)
        if Linear in kinds and (self.task != "regression" or len(kinds) > 1):
            raise ValueError("linear is the only step of task: regression, and for no other task")
        if Divide in kinds[1:]:
            raise ValueError("divide is the first step, and there is one at most")
        if Pool in kinds[1:]:
            raise ValueError("pool is the first step, and there is one at most")
        return self

    @property
    def pooling(self) -> Pool | None:
        first = self.postprocess[0] if self.postprocess else None
        return first if isinstance(first, Pool) else None


# --- files


class AssetFile(Part):
    location: str = Field(
        description="A path inside the manifest's folder, file:///absolute/path (may use ${VARIABLE}), https://…, "
        "package://distribution/path, pip://distribution==version/path, or hf://owner/repository/file."
    )
    role: Literal["model", "weights", "labels", "tokenizer"] = "model"
    sha256: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{8,64}$", description="Full digest, or ≥ 8 first digits."
    )
    bytes: int | None = Field(default=None, ge=0)


class Architecture(Part):
    """How to build the network that bare weights belong to."""

    library: Literal["torchvision", "timm", "transformers", "keras", "code"]
    name: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    match: Literal["name", "position"] = Field(
        default="name",
        description="position: pair the tensors by order, where two libraries name them differently.",
    )
    prefix: str = Field(default="", description="Prefix to strip from the weights' names, such as 'module.'.")
    key: str | None = Field(default=None, description="Where in the checkpoint the weights lie, such as 'state_dict'.")


class Asset(Part):
    """The model in one file format. A manifest may list several; a runtime takes the first it can run."""

    format: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]*$", examples=list(FORMATS), description="Plug-ins may bring formats of their own."
    )
    files: tuple[AssetFile, ...] = Field(min_length=1)
    architecture: Architecture | None = None

    @model_validator(mode="after")
    def _one_file_a_role(self) -> Self:
        roles = [file.role for file in self.files]
        if len(set(roles)) < len(roles):
            raise ValueError("two files have the same role: give one 'model' and at most one 'weights'")
        return self

    @model_validator(mode="after")
    def _weights_need_architecture(self) -> Self:
        if self.format == "torch-state-dict" and self.architecture is None:
            raise ValueError("a torch-state-dict holds weights only: say under architecture how to build the network")
        return self


class Code(Part):
    """Python that runs only with --allow-code, in a process of its own.

    preprocess: defines `preprocess(image)` → array without batch axis; replaces the declared steps.
    postprocess: defines `postprocess(outputs)` → scores (batch × classes); replaces the declared steps.
    architecture: defines `build()` → torch.nn.Module, for `architecture.library: code`.
    """

    preprocess: str | None = None
    postprocess: str | None = None
    architecture: str | None = None


class Claim(Part):
    """What the source says about the model; never mixed with what we measure."""

    metric: str = Field(examples=["top1", "top5", "params", "flops"])
    value: float
    unit: str = ""
    dataset: str | None = None
    source: str


class Manifest(Part):
    zoolens: Literal[1] = Field(default=1, description="Version of this schema.")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/+-]*$")
    version: str = Field(
        default="0.0.0", pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$", description="Semantic version."
    )
    description: str = ""
    license: str | None = None
    references: tuple[str, ...] = ()
    framework: Framework | None = None
    element_type: str = Field(default="float32", description="Type of the weights and arithmetic, such as int8.")
    inputs: tuple[Input, ...] = Field(min_length=1)
    outputs: tuple[Output, ...] = Field(min_length=1)
    assets: tuple[Asset, ...] = Field(default=(), description="None: structure only, the weights are not here.")
    requires: str = Field(default="", description="Constraints like --require: 'onnxruntime>=1.20, avx512'.")
    code: Code | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    claims: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _code_is_there(self) -> Self:
        for asset in self.assets:
            wants = asset.architecture is not None and asset.architecture.library == "code"
            if wants and (self.code is None or self.code.architecture is None):
                raise ValueError("architecture.library is 'code' but code.architecture is absent")
        return self

    @model_validator(mode="after")
    def _outputs_are_named(self) -> Self:
        if len(self.outputs) > 1 and any(output.parts for output in self.outputs):
            unnamed = [place for place, output in enumerate(self.outputs) if not output.parts and output.name is None]
            if unnamed:
                raise ValueError(
                    f"output {unnamed[0] + 1} has no name: beside an output with parts, its place does not tell which "
                    "tensor it is"
                )
        return self

    @model_validator(mode="after")
    def _inputs_fit(self) -> Self:
        check_inputs([spec.modality for spec in self.inputs])
        return self

    @model_validator(mode="after")
    def _texts_fit(self) -> Self:
        check_texts(
            [(spec.name, spec.tokenizer) for spec in self.inputs],
            [any(file.role == ROLE for file in asset.files) for asset in self.assets],
            pooled=any(output.pooling for output in self.outputs),
            coded=self.code is not None and self.code.preprocess is not None,
        )
        return self

    def __repr__(self) -> str:
        """One line; `model_dump` has all of it."""
        formats = ", ".join(asset.format for asset in self.assets)
        return f"<Manifest {self.name}@{self.version}: {formats or 'no files'}>"

    @property
    def takes_text(self) -> bool:
        """Whether its only input is a text. A text beside other inputs is one of several."""
        return [spec.modality for spec in self.inputs] == ["text"]

    @property
    def decoder(self) -> Decoder:
        """Who decodes image files: as the first image says."""
        return next((spec for spec in self.inputs if spec.modality == "image"), self.inputs[0]).decoder

    @property
    def takes_sound(self) -> bool:
        return any(spec.modality == "sound" for spec in self.inputs)

    @property
    def task(self) -> str:
        return self.outputs[0].task

    def claimed(self, metric: str) -> float | None:
        return next((claim.value for claim in self.claims if claim.metric == metric), None)
