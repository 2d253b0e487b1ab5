"""A corpus of zoo networks, each written as ONNX by every exporter that can, with weights as a training leaves them."""
