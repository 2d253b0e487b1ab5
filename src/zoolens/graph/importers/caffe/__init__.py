"""Caffe networks: .prototxt and .caffemodel files."""

from zoolens.graph.importers.caffe.file import CAFFE

__all__ = ["CAFFE"]
