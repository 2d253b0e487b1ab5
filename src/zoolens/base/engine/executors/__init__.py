"""Where named functions run: on this machine, or on a cluster. One file per executor; `executor` has the contract."""
