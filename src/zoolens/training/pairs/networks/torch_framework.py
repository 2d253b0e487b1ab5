"""A user's torch.nn.Module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from zoolens.base.errors import ModelError, first_line
from zoolens.findings.graph.ir.model import Graph
from zoolens.training.pairs.networks.framework import Array, LiveNetwork, checked_assignment, joined, no_gpu, plain
from zoolens.training.pairs.networks.torch_dropout import dropouts
from zoolens.training.pairs.reading.side_facts import SideFacts


class TorchNetwork(LiveNetwork):
    framework: ClassVar[str] = "torch"

    def __init__(self, module: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str], name: str) -> None:
        # Layers in evaluation mode in a network that is not: their owner keeps them so while it is trained.
        self.evaluating = [layer for layer in module.modules() if not layer.training] if module.training else []
        _refuse_complex(module, name)
        self._before = [(layer, layer.training) for layer in module.modules()], _device_of(module)
        self.module = module.cpu().eval()
        self._shapes, self._kinds, self._name = shapes, kinds, name

    @property
    def device(self) -> Any:
        return _device_of(self.module)

    def named(self) -> dict[str, Any]:
        """The live tensors by name: parameters, and floating buffers that a state_dict has."""
        kept = self.module.state_dict(keep_vars=True)
        buffers = {
            name: tensor
            for name, tensor in self.module.named_buffers()
            if name in kept and tensor.is_floating_point()  # others are counters, or made anew by the constructor
        }
        return {**dict(self.module.named_parameters()), **buffers}

    def tensors(self) -> dict[str, Array]:
        return {name: _numpy(tensor).copy() for name, tensor in self.named().items()}

    def learned(self) -> list[str]:
        return [name for name, tensor in self.named().items() if tensor.requires_grad]

    def assign(self, values: Mapping[str, Array]) -> None:
        import torch

        named = self.named()
        checked_assignment({name: tuple(tensor.shape) for name, tensor in named.items()}, values)
        with torch.no_grad():
            for name, array in values.items():
                named[name].copy_(torch.tensor(array))

    def graph(self) -> Graph:
        return self._traced(self._zeros(), None)

    def opaque_answers(self, inputs: Sequence[Array]) -> tuple[Graph, dict[str, Array]]:
        answers: dict[str, Array] = {}
        return self._traced(inputs, answers), answers

    def decisions(self, inputs: Sequence[Array]) -> list[tuple[str, bool]]:
        found = self._traced(inputs, None).facts.get("decisions", ())
        return [(str(place), bool(taken)) for place, taken in found]

    def _traced(self, inputs: Sequence[Array], answers: dict[str, Array] | None) -> Graph:
        import torch

        from zoolens.findings.graph.importers.torch.torch_library import graph_of_module

        tensors = [torch.tensor(array) for array in inputs]
        fed = [tensor.to(self.floating()) if tensor.is_floating_point() else tensor for tensor in tensors]
        with self._on_cpu(), _outputs_by_name(self.module):
            return graph_of_module(self.module, fed, self._name, weights=True, departures=True, answers=answers)

    @contextmanager
    def _on_cpu(self) -> Iterator[None]:
        """What reads a module reads numpy's arrays."""
        device = self.device
        self.module.cpu()
        try:
            yield
        finally:
            self.module.to(device)

    def run_once(self) -> list[tuple[int, ...]]:
        """Run it once on zeros, for the shapes of its answers: an input that does not fit is told before anything else
        is done."""
        try:
            answers = self.run(self._zeros())
        except Exception as error:
            sizes = " and ".join("×".join(map(str, shape)) for shape in self._shapes)
            raise ModelError(f"{self._name} does not take inputs of {sizes}: {first_line(error)}") from error
        if not answers:
            raise ModelError(f"{self._name} answers without any tensor.", hint="Return the outputs from forward.")
        return [answer.shape for answer in answers]

    def _zeros(self) -> list[Array]:
        return [
            np.zeros((1, *shape), np.int64 if kind == "int" else np.float32)
            for shape, kind in zip(self._shapes, self._kinds, strict=True)
        ]

    def floating(self) -> Any:
        """The floating type of the parameters."""
        import torch

        return next((tensor.dtype for tensor in self.module.parameters() if tensor.is_floating_point()), torch.float32)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        from zoolens.findings.graph.importers.torch.trace import tensors_in

        fed = [torch.tensor(array).to(self.device) for array in inputs]
        with torch.no_grad(), _outputs_by_name(self.module):
            answer = self.module(
                *(tensor.to(self.floating()) if tensor.is_floating_point() else tensor for tensor in fed)
            )
        return [plain(_numpy(tensor)) for tensor in tensors_in([answer])]

    def facts(self) -> SideFacts:
        import torch

        from zoolens.training.pairs.reading.torch_reading import drawn_tensors, norm_facts

        with self._on_cpu():
            return SideFacts(
                versions={"torch": str(torch.__version__)},
                network=type(self.module).__name__,
                layers=tuple(dropouts(self.module, self.run_once)),
                drawn=tuple(drawn_tensors(self.module)),
                norms=tuple(norm_facts(self.module)),
                channels="first",
            )

    def move_to_gpu(self) -> None:
        """The parameters stay the same objects, which the user's optimizer holds."""
        import torch

        if not torch.cuda.is_available():
            raise no_gpu("torch")
        self.module.to("cuda")

    def module_classes(self) -> dict[str, str]:
        return {path: type(module).__name__ for path, module in self.module.named_modules() if path}

    def give_back(self) -> None:
        modes, device = self._before
        self.module.to(device)
        for layer, training in modes:
            layer.training = training

    def dtype(self) -> str:
        types = Counter(str(tensor.dtype).removeprefix("torch.") for tensor in self.module.parameters())
        return ", ".join(name for name, _ in types.most_common()) or "float32"

    def load(self, path: Path) -> None:
        """A state_dict in a .pt, .pth or .safetensors file. Whole numbers, such as counters, may be missing."""
        from zoolens.inventory.runtimes.torch.torch_weights import read_weights

        kept = self.module.state_dict(keep_vars=True)
        try:
            weights = read_weights(path)
        except ModelError as error:
            raise ModelError(error.message, hint="Save module.state_dict() and nothing else.") from error
        given = self._untied(weights, kept, path.name)
        learned = {name: tensor for name, tensor in given.items() if name not in kept or kept[name].is_floating_point()}
        named = self.named()
        joined(named, learned, path.name)
        others = {name: tensor for name, tensor in given.items() if name not in learned}
        checked_assignment({name: tuple(tensor.shape) for name, tensor in kept.items()}, others)
        self.assign({name: _numpy(tensor) for name, tensor in learned.items()})
        for name, tensor in others.items():
            kept[name].copy_(tensor)

    def _untied(self, weights: Mapping[str, Any], kept: Mapping[str, Any], file: str) -> dict[str, Any]:
        """The tensors of a checkpoint, those that the network shares between several names under one of them."""
        owners = {id(tensor): name for name, tensor in self.named().items()}
        found: dict[str, Any] = {}
        for name, tensor in weights.items():
            owner = owners.get(id(kept[name]), name) if name in kept else name
            if owner in found and not found[owner].equal(tensor):
                raise ModelError(
                    f"The checkpoint {file} has other numbers for {name} than for {owner}, which are one tensor in the "
                    "network.",
                    hint="Is it of this network?",
                )
            found[owner] = tensor
        return found

    def save(self, path: Path) -> None:
        import torch

        torch.save(self.module.state_dict(), path)


def _device_of(module: Any) -> Any:
    import torch

    return next((tensor.device for tensor in module.parameters()), torch.device("cpu"))


def _refuse_complex(module: Any, name: str) -> None:
    held = (*module.named_parameters(), *module.named_buffers())
    found = next((key for key, tensor in held if tensor.is_complex()), None)
    if found is not None:
        raise ModelError(
            f"{name} has complex numbers in {found}, and only real weights are compared.",
            hint="Keep its two parts as real numbers, and make complex ones of them in forward: torch.view_as_complex.",
        )


def _numpy(tensor: Any) -> Array:
    """A tensor's numbers; floating types that numpy does not have become float32, and the two parts of a complex number
    are a last axis."""
    import torch

    tensor = tensor.detach().cpu()
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    known = not tensor.is_floating_point() or tensor.dtype in (torch.float64, torch.float32)
    array: Array = (tensor if known else tensor.float()).numpy()
    return array


def by_name(answer: Any) -> Any:
    """A plain dictionary in the order of its names, anything else as it is."""
    named = type(answer) is dict and all(isinstance(name, str) for name in answer)
    return dict(sorted(answer.items())) if named else answer


@contextmanager
def _outputs_by_name(module: Any) -> Iterator[None]:
    """Give the outputs of a plain dictionary in the order of their names, as Keras and JAX do."""
    hook = module.register_forward_hook(lambda _, __, answer: by_name(answer))
    try:
        yield
    finally:
        hook.remove()
