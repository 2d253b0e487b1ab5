"""One trainer per framework, each in one file; `trainer` is the contract."""
