"""OpenVINO's IR files."""

from zoolens.findings.graph.importers.openvino.openvino_import import OPENVINO

__all__ = ["OPENVINO"]
