"""Live torch networks of torchvision, timm and transformers: built on the meta device, run once, calls recorded."""

from zoolens.findings.graph.importers.torch.torch_library import TIMM, TORCHVISION, TRANSFORMERS

__all__ = ["TIMM", "TORCHVISION", "TRANSFORMERS"]
