"""How a model runs: one file per runtime, all behind the contract in `base`.

This package imports numpy and the standard library only, so that it also works inside an isolated
environment that holds one old framework and nothing of ours.
"""
