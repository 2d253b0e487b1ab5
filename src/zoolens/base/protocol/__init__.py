"""The Open Inference Protocol V2: its messages as plain data, and how they are written for REST and gRPC."""
