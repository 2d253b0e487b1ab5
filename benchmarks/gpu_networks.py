"""Networks with weights from a seed that `gpu.py` measures: torchvision's, and a ResNet-50 in plain JAX."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))  # blocks and width of each stage of ResNet-50


def torch_network(extent: int, name: str = "resnet50") -> tuple[Any, Path]:
    """Files of a torchvision network for images of this side, with weights from a seed, and its manifest."""
    import torch

    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
    from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec

    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    torch.manual_seed(0)
    network = import_torchvision().models.get_model(name, weights=None).eval()
    for module in network.modules():  # running statistics as after training, so that answers keep their size
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    weights = folder / f"{name}.pth"
    torch.save(network.state_dict(), str(weights))
    architecture = {"library": "torchvision", "name": name}
    shape = (None, 3, extent, extent)
    files = ModelFiles("torch-state-dict", {"model": weights}, architecture, (TensorSpec("input", shape, "float32"),))
    manifest = folder / f"{name}.yaml"
    content = weights.read_bytes()
    manifest.write_text(
        f"zoolens: 1\nname: seeded/{name}\nversion: 1.0.0\ninputs:\n- shape: [null, 3, {extent}, {extent}]\n"
        "  preprocess:\n  - {op: normalize, mean: [127, 127, 127], std: [60, 60, 60]}\n"
        f"outputs:\n- {{}}\nassets:\n- format: torch-state-dict\n  files:\n  - location: {weights.as_uri()}\n"
        f"    sha256: {hashlib.sha256(content).hexdigest()}\n    bytes: {len(content)}\n"
        f"  architecture: {{library: torchvision, name: {name}}}\n"
    )
    return files, manifest


def jax_network(extent: int, divisor: int) -> Any:
    """A ResNet-50 in plain JAX, exported for both devices with weights from a seed as constants. `divisor`: of the
    number of channels."""
    import jax
    import numpy as np
    from jax import export, lax
    from jax import numpy as jnp

    from zoolens.inventory.runtimes.runtime import ModelFiles

    random = np.random.default_rng(0)

    def conv(x: Any, filters: int, kernel: int, stride: int, name: str, active: bool = True) -> Any:
        fan = kernel * kernel * x.shape[-1]
        weights = (random.standard_normal((kernel, kernel, x.shape[-1], filters)) * (2 / fan) ** 0.5).astype(np.float32)
        scale, shift = random.uniform(0.8, 1.2, (2, filters)).astype(np.float32)
        with jax.named_scope(name):
            x = lax.conv_general_dilated(
                x, weights, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = x * scale + (shift - 1)
            return jnp.maximum(x, 0) if active else x

    def network(x: Any) -> Any:
        x = conv(x, 64 // divisor, 7, 2, "stem")
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for stage, (blocks, width) in enumerate(STAGES):
            for block in range(blocks):
                name, width_here = f"stage{stage}.{block}", width // divisor
                stride = 2 if stage and not block else 1
                inner = conv(x, width_here, 1, 1, f"{name}.conv1")
                inner = conv(inner, width_here, 3, stride, f"{name}.conv2")
                inner = conv(inner, 4 * width_here, 1, 1, f"{name}.conv3", active=False)
                if not block:
                    x = conv(x, 4 * width_here, 1, stride, f"{name}.shortcut", active=False)
                with jax.named_scope(f"{name}.join"):
                    x = jnp.maximum(0.5 * (x + inner), 0)
        with jax.named_scope("head"):
            x = x.mean((1, 2))
            weights = (random.standard_normal((x.shape[-1], 1000)) * 0.02).astype(np.float32)
            return x @ weights

    shape = export.symbolic_shape(f"batch, {extent}, {extent}, 3")
    exported = export.export(jax.jit(network), platforms=["cpu", "cuda"])(jax.ShapeDtypeStruct(shape, np.float32))
    path = Path(tempfile.mkdtemp(prefix="jax-")) / "resnet50.jax"
    path.write_bytes(exported.serialize())
    print(f"exported {path.stat().st_size / 1e6:.0f} MB", flush=True)
    return ModelFiles("jax-export", {"model": path})
