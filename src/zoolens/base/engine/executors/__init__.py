"""Where named functions run: on this machine, or on a cluster. One file per executor; the contract is `executor.py`."""
