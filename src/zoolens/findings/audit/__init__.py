"""Claims against facts, zoo against zoo: is a model what it says it is?"""
