"""TF-slim's networks and the TF Model Garden's official ones, and any tf.Graph with static shapes.

Both libraries need an old Keras and packages that fit into no other environment, so both name one of their own.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ModelError, UnknownName
from zoolens.contrib.tensorflow_models.ops import OPERATORS, SEVERAL, further_output, unknown
from zoolens.contrib.tensorflow_models.walk import TensorFlowWalk, Variable, constant, needed_operations, static_shape
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import STATISTICS, Graph
from zoolens.inventory.runtimes.model_files.constructor_arguments import plain_arguments

# network -> the module of tf_slim.nets that has it, and how many outputs its published checkpoint has
_SLIM: Final = {
    "alexnet_v2": ("alexnet", 1000), "overfeat": ("overfeat", 1000),
    "vgg_a": ("vgg", 1000), "vgg_16": ("vgg", 1000), "vgg_19": ("vgg", 1000),
    **{f"inception_v{version}": (f"inception_v{version}", 1001) for version in (1, 2, 3)},
    **{f"resnet_v1_{depth}": ("resnet_v1", 1000) for depth in (50, 101, 152, 200)},
    **{f"resnet_v2_{depth}": ("resnet_v2", 1001) for depth in (50, 101, 152, 200)},
}  # fmt: skip
_OFFICIAL: Final = (  # pattern of the name, experiment, type of the backbone, its model_id
    (r"resnet_(\d+)", "resnet_imagenet", "resnet", int),
    (r"resnet_rs_(\d+)", "resnet_rs_imagenet", "resnet", int),
    (r"mobilenet_v(\d\w*)", "mobilenet_imagenet", "mobilenet", lambda found: "MobileNetV" + _camel(found)),
    (r"efficientnet_(b\d)", None, "efficientnet", str),
)  # fmt: skip


def _camel(text: str) -> str:
    return text.title().replace("_", "")


def load_slim(request: Request) -> Graph:
    tf = _tensorflow("tf_slim")
    if request.subject not in _SLIM:
        raise UnknownName("network of tf_slim", request.subject, _SLIM)
    module, classes = _SLIM[request.subject]
    nets = importlib.import_module(f"tf_slim.nets.{module}")
    network = getattr(nets, request.subject)
    side = 231 if request.subject == "overfeat" else getattr(network, "default_image_size", 224)
    height, width = request.size or (side, side)
    options = {"num_classes": classes, "is_training": False, **plain_arguments(request.arguments)}
    with _cheap_variables(tf), tf.Graph().as_default():
        image = tf.compat.v1.placeholder(tf.float32, (1, height, width, 3), "input")
        with (
            tf.variable_creator_scope(_declared),
            importlib.import_module("tf_slim").arg_scope(_arguments(nets, module)),
        ):
            output = _built(request.subject, lambda: network(image, **options)[0])
    return graph_of_tf_graph(
        [image], [output], name=request.subject, weights=request.weights, facts=_facts("slim", "tf_slim")
    )


def _arguments(nets: Any, module: str) -> Any:
    """The network's own defaults (batch norm's epsilon is among them), without decay: it would only add operations."""
    family = "resnet" if module.startswith("resnet") else "alexnet_v2" if module == "alexnet" else module
    return getattr(nets, f"{family}_arg_scope")(weight_decay=0.0)


def load_official(request: Request) -> Graph:
    """The registered experiment's classifier with the backbone the name says; batch norm as one device has it."""
    tf = _tensorflow("official", "tf-models-official")
    factory = importlib.import_module("official.vision.modeling.factory")
    height, width = request.size or (224, 224)
    config = _official_config(request)
    specs = importlib.import_module("tf_keras").layers.InputSpec(shape=[1, height, width, 3])
    image = tf.TensorSpec((1, height, width, 3), tf.float32, name="input")

    def function(*, autograph: bool) -> Any:
        model = factory.build_classification_model(specs, config)
        call = tf.function(lambda image: model(image, training=False), autograph=autograph)
        return call.get_concrete_function(image)

    with tf.variable_creator_scope(_declared), _inner_models_called_once():
        try:
            with _without_autograph():
                traced = function(autograph=False)
        except (TypeError, ValueError, KeyError):
            # An error of the library's own comes again; an `if` on a value that only the running graph knows does not.
            traced = _built(request.subject, lambda: function(autograph=True))
    facts = _facts("official", "tf-models-official")
    return graph_of_tf_function(traced, name=request.subject, weights=request.weights, facts=facts)


def _official_config(request: Request) -> Any:
    plain_arguments(request.arguments)
    experiment, backbone = _official_parts(request)
    known = importlib.import_module("official.core.exp_factory")
    importlib.import_module("official.vision.configs.image_classification")
    if experiment is None:
        config = sys.modules["official.vision.configs.image_classification"].ImageClassificationModel()
    else:
        config = known.get_exp_config(experiment).task.model
    config.backbone.type = backbone["type"]
    getattr(config.backbone, backbone["type"]).model_id = backbone["model_id"]
    config.num_classes = int(request.arguments.get("num_classes", 1001))
    config.norm_activation.use_sync_bn = False  # computes the same here, in many small operations instead of one
    return config


def _official_parts(request: Request) -> tuple[str | None, Mapping[str, Any]]:
    if "backbone" in request.arguments:
        return request.arguments.get("experiment"), request.arguments["backbone"]
    for pattern, experiment, kind, identify in _OFFICIAL:
        match = re.fullmatch(pattern, request.subject)
        if match:
            return experiment, {"type": kind, "model_id": identify(match[1])}
    examples = ("resnet_50", "resnet_rs_50", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0")
    raise UnknownName("classifier of tf-models-official", request.subject, examples)


# One environment for both: making one takes a minute and a gigabyte.
_ENVIRONMENT: Final = (
    "numpy==2.4.6",
    "tensorflow==2.21.0",
    "tf_keras==2.21.0",
    "tf_slim==1.1.0",
    "gin-config==0.5.0",
    "tensorflow-datasets==4.9.10",
    "tensorflow-hub==0.16.1",
    "pycocotools==2.0.11",
    "opencv-python-headless==5.0.0.93",
    "matplotlib==3.11.2",
    "scipy==1.17.1",
    "PyYAML==6.0.3",
    "psutil==7.2.2",
    "setuptools<81",  # tensorflow-hub still asks for pkg_resources
)
_ALONE: Final = ("tf-models-official==2.20.0",)  # it asks for versions that cannot be had together
SLIM: Final = Importer(load_slim, ("tf-slim", "tensorflow"), _ENVIRONMENT, _ALONE, seconds=1.5)
OFFICIAL: Final = Importer(load_official, ("tf-models-official", "tensorflow"), _ENVIRONMENT, _ALONE, seconds=2.5)


def _tensorflow(package: str, distribution: str | None = None) -> Any:
    """TensorFlow with the Keras 2 that both libraries were written for."""
    if importlib.util.find_spec(package) is None:
        raise MissingDependency(f"Building a network of {distribution or package}", distribution or package)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        for name in ("legacy_tf_layers", "legacy_tf_layers.normalization"):  # where TensorFlow 2.21 looks for them
            sys.modules.setdefault(f"tf_keras.{name}", importlib.import_module(f"tf_keras.src.{name}"))
        importlib.import_module(package)
        return importlib.import_module("tensorflow")
    except ImportError as error:
        raise MissingDependency(f"Building a network of {distribution or package}", error.name or package) from error


@contextmanager
def _cheap_variables(tf: Any) -> Iterator[None]:
    """Switches tensor equality off: a variable is then hashed by identity, twice as fast where each layer makes a set
    of all."""
    tf.compat.v1.disable_tensor_equality()
    try:
        yield
    finally:
        tf.compat.v1.enable_tensor_equality()


def _declared(create: Any, **given: Any) -> Any:
    """A variable that is only its shape: nobody looks at first weights, and drawing them takes a third of the time."""
    variables = importlib.import_module("tensorflow.python.ops.resource_variable_ops")
    if given.get("shape") is None or given.get("dtype") is None:
        return create(**given)
    wanted = {key: given[key] for key in ("name", "shape", "dtype", "trainable", "synchronization", "aggregation")}
    return variables.UninitializedVariable(**wanted)


def _without_autograph() -> Any:
    """Layers are called as they are written: translating them first takes a tenth of the time."""
    autograph = importlib.import_module("tensorflow.python.autograph.core.ag_ctx")
    return autograph.ControlStatusCtx(autograph.Status.DISABLED)


@contextmanager
def _inner_models_called_once() -> Iterator[None]:
    """A model that is called as a layer of another is not traced again for what its outputs look like: it says so
    already, and the trace that counts comes at the end."""
    functional = importlib.import_module("tf_keras.src.engine.functional").Functional
    tensors = importlib.import_module("tf_keras.src.engine.keras_tensor")
    tf = importlib.import_module("tensorflow")
    trace = functional._infer_output_signature

    def known(self: Any, inputs: Any, args: Any, kwargs: Any, masks: Any) -> Any:
        given, own = ([(one.shape, one.dtype) for one in tf.nest.flatten(side)] for side in (inputs, self.inputs))
        alike = given == own
        if not alike or args or any(tf.nest.flatten(masks)):
            return trace(self, inputs, args, kwargs, masks)
        return tf.nest.map_structure(lambda one: tensors.KerasTensor(one.type_spec), self._nested_outputs)

    functional._infer_output_signature = known
    try:
        yield
    finally:
        del functional._infer_output_signature


def _built(name: str, build: Any) -> Any:
    try:
        return build()
    except (TypeError, ValueError, KeyError) as error:
        first = str(error).strip().split("\n")[0]
        raise ModelError(f"TensorFlow cannot build {name}: {first}") from error


def _facts(library: str, distribution: str) -> dict[str, Any]:
    from importlib.metadata import version

    return {"library": library, "version": version(distribution), "tensorflow": version("tensorflow")}


def graph_of_tf_function(
    function: Any, *, name: str, weights: bool = False, facts: Mapping[str, Any] | None = None
) -> Graph:
    """The raw graph of a concrete function: its variables are what it captured."""
    handles = {id(variable.handle): variable for variable in function.graph.variables}
    captured = {}
    for outer, inner in function.graph.captures:
        variable = handles.get(id(outer))
        if variable is not None:
            captured[inner.op.name] = Variable(variable.name.removesuffix(":0"), tuple(variable.shape.as_list()))
    fed = [tensor for tensor in function.inputs if tensor.op.name not in captured and tensor.dtype.name != "resource"]
    return graph_of_tf_graph(fed, function.outputs, name=name, weights=weights, facts=facts, captured=captured)


def graph_of_tf_graph(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    name: str,
    weights: bool = False,
    facts: Mapping[str, Any] | None = None,
    captured: Mapping[str, Variable] | None = None,
) -> Graph:
    """The raw graph between two lists of symbolic tensors; `weights` gives every variable seeded values by its name."""
    walk = TensorFlowWalk(GraphBuilder(name, keep_weights=weights), captured or {})
    for tensor in inputs:
        axes = "NHWC" if tensor.shape.rank == 4 else ""
        made = walk.builder.add("input", (), static_shape(tensor), source=tensor.op.name, axes=axes)
        walk.names[tensor.name] = made
    fed_operations = [tensor.op for tensor in inputs]
    needed = needed_operations(outputs, fed_operations)
    for operation in inputs[0].graph.get_operations():
        if operation in needed and operation not in fed_operations and _is_value(walk, operation):
            _add(walk, operation, needed)
    graph = walk.builder.finish([walk.value(tensor) for tensor in outputs])
    return replace(graph, facts={**_counted(graph), **(facts or {})})


def _counted(graph: Graph) -> dict[str, Any]:
    """The numbers as Keras counts them: each variable once, the statistics of norms among them."""
    statistics = {tensor.key: tensor.size for node in graph for tensor in node.parameters if tensor.role in STATISTICS}
    kept = sum(statistics.values())
    shape = list(graph.inputs[0].shape)
    return {"name": graph.name, "input": shape, "parameters_total": graph.parameters + kept, "statistics": kept}


def _is_value(walk: TensorFlowWalk, operation: Any) -> bool:
    """Depends on the input, and is not arithmetic on its shape."""
    if not any(walk.fed(tensor) for tensor in operation.inputs):
        return False
    return not all(tensor.dtype.is_integer and constant(tensor) is not None for tensor in operation.outputs)


def _add(walk: TensorFlowWalk, operation: Any, needed: set[Any]) -> None:
    """The node or nodes of an operation, each under the name of the output it is; further ones only where used."""
    users = {tensor.name: sum(user in needed for user in tensor.consumers()) for tensor in operation.outputs}
    if operation.type in SEVERAL:
        made = dict(zip(users, SEVERAL[operation.type](walk, operation), strict=True))
    else:
        first, *others = operation.outputs
        made = {first.name: OPERATORS.get(operation.type, unknown)(walk, operation)}
        made |= {
            output_tensor.name: further_output(walk, made[first.name], output_tensor)
            for output_tensor in others
            if users[output_tensor.name]
        }
    for output, name in made.items():
        walk.names[output] = name
        walk.users[name] = max(users[output], walk.users.get(name, 0))
