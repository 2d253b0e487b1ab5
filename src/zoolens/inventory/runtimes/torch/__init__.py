"""PyTorch: TorchScript, exported programs, eager modules and their profile."""
