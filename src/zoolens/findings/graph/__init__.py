"""What a model is made of: one small graph that cost, diff, identification and segment matching all use.

Importers make a raw graph and passes make a canonical graph of it; everything else reads the canonical one. From below:

    ir           the graph itself: nodes, operators, shapes, equality, storage format
    reference    computes a graph in numpy
    passes       rewrite a raw graph into the canonical one, and prove on numbers that nothing changed
    importers    read ONNX, TFLite, OpenVINO, GGUF and Keras files, and models of torch, Keras and JAX
    onnx_writer  writes a graph as an ONNX file
    cost         multiply-accumulates, parameters and bytes
    outline      blocks and stages
    structures   graphs of models, read in worker processes and kept in the store
    counters     what public packages count for the same model
    diff         how two networks differ, in words and as a picture
    weights      values of two files: rounding, or another training
    segments     parts that two networks share, and splicing
    signatures   which known network a graph is

`ir`, `reference`, `passes` and `importers` need numpy at most: importers also run inside environments that hold one
framework and nothing else.
"""
