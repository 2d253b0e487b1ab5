"""How a model runs: one folder per framework, all behind the contract in `runtime`.

This package imports numpy and the standard library only, so that it also works inside an isolated
environment that holds one old framework and nothing of ours.
"""
