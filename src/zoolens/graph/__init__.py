"""What a model is made of: one small graph that cost, diff, identity and segment matching all use.

importers → raw graph → passes → canonical graph → cost, blocks, diff, identity.

Everything here needs numpy at most: importers also run inside environments that hold one framework and nothing else.
"""
