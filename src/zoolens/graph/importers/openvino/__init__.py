"""OpenVINO's IR files."""

from zoolens.graph.importers.openvino.file import OPENVINO

__all__ = ["OPENVINO"]
