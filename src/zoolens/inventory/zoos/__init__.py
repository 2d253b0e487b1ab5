"""Where models come from: one file per zoo, all behind the contract in `zoo`."""
