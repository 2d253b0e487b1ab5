"""Caffe networks: .prototxt and .caffemodel files."""

from zoolens.contrib.caffe.file import CAFFE

__all__ = ["CAFFE"]
