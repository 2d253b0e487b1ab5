"""One trainer per framework, each in one file; `base` is the contract."""
