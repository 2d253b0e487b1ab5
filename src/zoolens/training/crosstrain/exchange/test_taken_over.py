"""The process that tests of `tables` put in the place of the one that reads tables. It has a file of its own, since
importing what the tests import takes longer than all that it does."""

import json
import os

import numpy as np

from zoolens.base.engine.service import Service


def main(settings, began_ns):
    """A process that was taken over: it answers what it was told to."""
    service = Service(settings, began_ns)

    def answer(request):
        if "table" in request and settings["rows"] == "die":
            print("these are my last words", flush=True)
            os._exit(7)
        layout = service.outputs.write({settings["tensor"]: np.frombuffer(settings["rows"].encode(), np.uint8)})
        return {"problems": [], "settings": json.loads(settings["kinds"]), "tensors": layout}

    service.serve(answer, str)
