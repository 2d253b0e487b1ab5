"""Where named functions run: on this machine, or on a cluster. One file per executor; `base` has the contract."""
