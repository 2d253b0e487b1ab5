"""Weights of two files, tensor by tensor: are they equal, is one the other's rounding, or is it another training?"""
