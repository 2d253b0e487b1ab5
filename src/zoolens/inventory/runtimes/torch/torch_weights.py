"""Bare torch weights: read without unpickling objects, the network built by a library, the two joined strictly."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import CodeNotAllowed, MissingDependency, ModelError, first_line
from zoolens.base.phrases import first_few
from zoolens.base.safety.untrusted import MAX_FILE, parse_json
from zoolens.inventory.runtimes.model_files.constructor_arguments import plain_arguments
from zoolens.inventory.runtimes.model_files.model_reading import check_file, model_bytes
from zoolens.inventory.runtimes.runtime import ModelFiles

_SAFETENSORS_TYPES: Final = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
_DRAWING: Final = threading.Lock()


def build_with_weights(model: ModelFiles) -> Any:
    architecture = model.architecture
    if architecture is None:
        raise ModelError(
            f"{model.path().name} holds weights only.", hint="Say under architecture how to build the network."
        )
    weights = read_weights(model.path(), architecture.get("key"))
    prefix = str(architecture.get("prefix") or "")
    weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
    module = _build(architecture)
    if architecture.get("match") == "position":
        weights = _by_position(module, weights)
    _join(module, weights)
    return module


def read_weights(path: Path, key: str | None = None) -> dict[str, Any]:
    """Tensors by name from a .pth/.pt checkpoint or a .safetensors file."""
    import torch

    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    check_file(path)
    try:
        weights = torch.load(str(path), weights_only=True, map_location="cpu")
    except Exception as error:
        # torch's own message advises to switch the protection off; ours must not.
        holds_objects = "WeightsUnpickler" in str(error) or "Weights only load failed" in str(error)
        reason = "it holds Python objects" if holds_objects else first_line(error)[:120]
        raise ModelError(
            f"{path.name} cannot be read as plain weights: {reason}.",
            hint="Save module.state_dict() and nothing else, or check that the file is complete.",
        ) from error
    if key is not None:
        weights = weights.get(key) if isinstance(weights, Mapping) else None
    if not isinstance(weights, Mapping):
        raise ModelError(
            f"{path.name} has no table of weights{f' under {key!r}' if key else ''}.",
            hint="Set architecture.key to where the checkpoint keeps them.",
        )
    stray = next((name for name, value in weights.items() if not isinstance(value, torch.Tensor)), None)
    if stray is not None:
        raise ModelError(
            f"{path.name} has {stray!r} among its weights, which is not a tensor.",
            hint="Set architecture.key to where the checkpoint keeps them.",
        )
    return dict(weights)


def _read_safetensors(path: Path) -> dict[str, Any]:
    import torch

    data = bytearray(model_bytes(path, MAX_FILE))
    try:
        (size,) = struct.unpack_from("<Q", data)
        header = parse_json(bytes(data[8 : 8 + size]))
        header.pop("__metadata__", None)
        body = memoryview(data)[8 + size :]
        weights = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            dtype = getattr(torch, _SAFETENSORS_TYPES[entry["dtype"]])
            weights[name] = torch.frombuffer(body[begin:end], dtype=dtype).reshape(entry["shape"])
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ModelError(f"{path.name} is not a complete safetensors file: {first_line(error)}.") from error
    return weights


def _build(architecture: Mapping[str, Any]) -> Any:
    library, name = architecture.get("library"), str(architecture.get("name") or "")
    arguments = plain_arguments(architecture.get("arguments") or {})
    if library == "code":
        return _build_from_code(architecture)
    try:
        if library == "torchvision":
            from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

            return import_torchvision().models.get_model(name, weights=None, **arguments)
        if library == "timm":
            return _timm().create_model(_local(name), pretrained=False, **arguments)
        if library == "transformers":
            return _of_transformers(name, arguments)
    except ImportError as error:
        raise MissingDependency(f"Building {name}", str(library), str(library)) from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise ModelError(f"{library} cannot build {name!r}: {first_line(error)}.") from error
    raise ModelError(f"Torch weights cannot be joined to an architecture of library {library!r}.")


def _timm() -> Any:
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    import_torchvision()
    import timm

    return timm


def _local(name: str) -> str:
    """timm reads names such as hf-hub:… and local-dir:… as places to fetch a configuration from."""
    if ":" in name:
        raise ModelError(f"{name!r} is a path, not the name of a timm architecture.")
    return name


def _of_transformers(name: str, configuration: dict[str, Any]) -> Any:
    """A network by its class in transformers, from the numbers of its configuration alone: nothing is looked up on a
    hub, and no code beside the weights is read."""
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    with suppress(ImportError):
        # transformers imports it where it is installed.
        import_torchvision(with_compiler=False)
    import transformers

    built = getattr(transformers, name, None)
    if not (isinstance(built, type) and issubclass(built, transformers.PreTrainedModel)):
        raise ModelError(
            f"transformers {transformers.__version__} has no network {name!r}.",
            hint="architecture.name is the class that config.json names under architectures, such as LlamaForCausalLM.",
        )
    made: Any = built
    # `_join` wants all parameters, and drawing random ones first takes longer than reading them.
    with _nothing_drawn():
        # Every text is read from its start, so that keys and values need not be kept for later.
        network = made(made.config_class(**{**configuration, "use_cache": False}))
    # Which parameters are one tensor is decided where they are drawn.
    network.tie_weights()
    return network


@contextmanager
def _nothing_drawn() -> Iterator[None]:
    """One thread at a time: transformers takes functions away from torch, and a second thread would take those that do
    nothing for torch's own and leave them there."""
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        # transformers 4
        from transformers.modeling_utils import no_init_weights
    with _DRAWING, no_init_weights():
        yield


def _build_from_code(architecture: Mapping[str, Any]) -> Any:
    if architecture.get("allowed") is not True:
        raise CodeNotAllowed(
            "The network of these weights is built by Python code in the manifest, which runs only if you allow it.",
            hint="Read the code, then add --allow-code.",
        )
    space: dict[str, Any] = {"__name__": "architecture"}
    exec(compile(str(architecture.get("source") or ""), "code.architecture", "exec"), space)  # noqa: S102
    if not callable(space.get("build")):
        raise ModelError("code.architecture defines no function build().")
    return space["build"]()


def _by_position(module: Any, weights: Mapping[str, Any]) -> dict[str, Any]:
    wanted = module.state_dict()
    if len(wanted) != len(weights):
        raise ModelError(
            f"The weights are {len(weights)} tensors but the network has {len(wanted)}: they do not pair by position."
        )
    return dict(zip(wanted, weights.values(), strict=True))


def _join(module: Any, weights: Mapping[str, Any]) -> None:
    """load_state_dict, strictly, with the first differences named."""
    own = module.state_dict()
    wanted = {name: tuple(tensor.shape) for name, tensor in own.items()}
    # Of two names of one tensor, such as an embedding that is the last layer too, a file has one.
    shared = {tensor.data_ptr() for name, tensor in own.items() if name in weights and tensor.numel()}
    missing = [
        name
        for name, tensor in own.items()
        if name not in weights and not name.endswith("num_batches_tracked") and tensor.data_ptr() not in shared
    ]
    surplus = [name for name in weights if name not in wanted]
    if missing or surplus:
        raise ModelError(
            f"The weights do not fit the network: {_differences(missing, surplus)}.",
            hint="Check architecture.name, prefix and key, or match by position.",
        )
    misfit = next((name for name in wanted if name in weights and wanted[name] != tuple(weights[name].shape)), None)
    if misfit is not None:
        raise ModelError(
            f"The weights do not fit the network: {misfit} has shape {tuple(weights[misfit].shape)}, "
            f"the network expects {wanted[misfit]}.",
            hint="Check architecture.name and arguments such as num_classes.",
        )
    module.load_state_dict(dict(weights), strict=False)


def _differences(missing: list[str], surplus: list[str]) -> str:
    parts = []
    for what, names in (("absent", missing), ("without a place", surplus)):
        if names:
            parts.append(f"{what}: {first_few(names, 3)}")
    return "; ".join(parts)
