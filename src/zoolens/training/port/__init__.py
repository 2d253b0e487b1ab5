"""Ports of a network from one framework to another: are they the same, and can the weights move?"""
