"""Caffe networks: .prototxt and .caffemodel files."""

from zoolens.contrib.caffe.caffe_file import CAFFE

__all__ = ["CAFFE"]
