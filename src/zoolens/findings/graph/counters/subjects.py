"""What a counter is given: a network of a library, built here with random weights, or a model file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.input_shapes import sized
from zoolens.inventory.runtimes.runtime import TensorSpec

_KINDS: Final = {
    "torchvision": "torch",
    "timm": "torch",
    "transformers": "torch",
    "keras": "keras",
    "onnx": "onnx",
}  # importer -> kind
_FLOAT: Final = 1  # element types as ONNX numbers them
_INT64: Final = 7
_FREE_INITIALISERS: Final = 4  # the version of ONNX from which an initialiser need not be an input as well


@dataclass(frozen=True)
class CountedModel:
    """The model that counters look at. `plugin` is the name under which its importer is registered."""

    plugin: str
    request: Request

    @property
    def kind(self) -> str | None:
        """What counters call it; None: nothing that a public counter looks at."""
        return _KINDS.get(self.plugin)


def torch_network(subject: CountedModel, device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """A fresh module in evaluation mode, and example inputs by name."""
    import torch

    from zoolens.findings.graph.importers.torch import modules as torch_modules

    plans: dict[str, Callable[[Request], Any]] = {
        "torchvision": torch_modules.plan_torchvision,
        "timm": torch_modules.plan_timm,
        "transformers": torch_modules.plan_transformers,
    }
    plan = plans[subject.plugin](subject.request)
    module = torch_modules.built(plan, subject.request.subject, "cpu").to(device)
    kinds = {name: torch.float32 if len(shape) == 4 else torch.int64 for name, shape in plan.inputs(module).items()}
    inputs = {name: torch.zeros(shape, dtype=kinds[name], device=device) for name, shape in plan.inputs(module).items()}
    return module, inputs


def keras_model(subject: CountedModel) -> Any:
    """Variables must exist for a profiler to trace the model."""
    from zoolens.findings.graph.importers.keras import build

    return build(replace(subject.request, weights=True))


def onnx_model(subject: CountedModel) -> Any:
    """The file as a ModelProto of batch 1, with every input size known."""
    import onnx

    model = onnx.load(subject.request.subject, load_external_data=False)
    _fix_inputs(model.graph, subject.request.size)
    return model


def without_made_weights(model: Any) -> Any:
    """Weights that a file makes up while it runs (ConstantOfShape, in the graphs that the onnx package ships) become
    initialisers that have a shape and no values, so that a counter does not charge for making them."""
    import onnx

    integers = [tensor for tensor in model.graph.initializer if tensor.data_type == _INT64]
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in integers}
    made = [node for node in model.graph.node if node.op_type == "ConstantOfShape" and node.input[0] in shapes]
    for node in made:
        model.graph.node.remove(node)
        dims = shapes[node.input[0]].tolist()
        model.graph.initializer.append(onnx.TensorProto(name=node.output[0], dims=dims, data_type=_FLOAT))
    model.ir_version = max(model.ir_version, _FREE_INITIALISERS)
    return model


def _fix_inputs(graph: Any, size: tuple[int, int] | None) -> None:
    """Gives every input the shape at which our importer reads the file, and forgets shapes that were written down for
    another size."""
    weights = {tensor.name for tensor in graph.initializer}
    for given in graph.input:
        if given.name not in weights:
            dims = given.type.tensor_type.shape.dim
            spec = TensorSpec(given.name, tuple(dim.dim_value or None for dim in dims), "float32")
            for dim, extent in zip(dims, sized(spec, size), strict=True):
                dim.dim_value = extent
    del graph.value_info[:]
