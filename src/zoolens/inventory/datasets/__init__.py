"""What a model runs on: one file per kind of data, all behind the contract in `dataset`."""
