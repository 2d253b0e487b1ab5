"""What all checks share. It runs in a client's environment: numpy and the standard library only.

Arguments: address of REST, address of gRPC, and a file with the model's name, an input and the answer to expect.
"""

import json
import sys
import traceback

import numpy as np

HTTP, GRPC, FILE = sys.argv[1:4]
with np.load(FILE) as _file:
    MODEL, INPUT, OUTPUT = (str(_file[name]) for name in ("model", "input", "output"))
    X, Y = _file["x"], _file["y"]
_checks = {}


def check(name):
    """Register a function as the check of this name."""

    def register(function):
        _checks[name] = function
        return function

    return register


def same(answer):
    np.testing.assert_array_equal(answer, Y)


def error_of(call):
    """The exception that a call ends with."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error")


def run():
    """Run all checks and print, as JSON, their names with "ok" or what went wrong."""
    results = {}
    for name, function in _checks.items():
        try:
            function()
        except BaseException:
            results[name] = traceback.format_exc()[-1500:]
        else:
            results[name] = "ok"
    print(json.dumps(results))
