"""What a model is made of: one small graph that cost, diff, identification and segment matching all use.

Importers make a raw graph, passes make a canonical graph of it, and cost, outline, diff and signatures read that one.

Everything here needs numpy at most: importers also run inside environments that hold one framework and nothing else.
"""
