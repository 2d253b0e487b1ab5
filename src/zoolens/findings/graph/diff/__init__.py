"""How two networks differ: aligned block by block, each difference with its cause and its share of the cost gap.

outline (blocks) → align → causes → shares → report, then words and pictures. `report.diff` does all of it.
"""
