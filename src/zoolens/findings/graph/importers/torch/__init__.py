"""Live torch networks: torchvision, timm and transformers, built on the meta device and traced by torch.export."""

from zoolens.findings.graph.importers.torch.torch_library import TIMM, TORCHVISION, TRANSFORMERS

__all__ = ["TIMM", "TORCHVISION", "TRANSFORMERS"]
