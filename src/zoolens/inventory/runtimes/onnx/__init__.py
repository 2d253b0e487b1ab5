"""The ONNX file format: reading, editing and a reference evaluation."""
