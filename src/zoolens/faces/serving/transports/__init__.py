"""REST and gRPC: each only converts between its wire format and the messages of the data plane."""
