"""Runs `zoolens` commands as processes of their own, without importing zoolens again for each of them.

A server that has imported every command, and read the models and data that come with zoolens, forks for each call. What
is left out is the second that an interpreter takes to start, and the tenth of one in which it takes itself apart at its
end; a command has its own process, environment, folder and exit code as ever, and none has run in the server before.
tests/test_readme.py and tests/test_wheel.py start the command from nothing.

Run as a script, this file is the server: requests and answers are lines of JSON on two file descriptors.
"""

import atexit
import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

# what commands import when they run
LATER = (
    "zoolens.findings.comparisons.compare", "zoolens.training.crosstrain", "zoolens.findings.measure.evaluate",
    "zoolens.findings.queries.query",
    "zoolens.base.store.store", "pyarrow.parquet", "sqlalchemy.dialects.sqlite", "numpy.random", "rich.markup",
    "rich.progress",
)  # fmt: skip
# what pyarrow imports for the first array that it makes, where it is installed
OPTIONAL = ("pandas", "pyarrow.pandas_compat")


class CommandServer:
    """`started_by`: the beginning of a command that starts the server, such as one that gives it other mounts."""

    def __init__(self, *started_by):
        ours, theirs = os.pipe(), os.pipe()  # answers, requests
        self._process = subprocess.Popen(
            [*started_by, sys.executable, __file__, str(theirs[0]), str(ours[1])], pass_fds=(theirs[0], ours[1])
        )
        os.close(theirs[0])
        os.close(ours[1])
        self._answers, self._requests = os.fdopen(ours[0]), os.fdopen(theirs[1], "w")

    def run(self, *arguments, code=None, environment=None, folder=None, memory=None, timeout=300):
        """As `subprocess.run([sys.executable, "-m", "zoolens", …], capture_output=True, text=True)` does; with `code`,
        as `[sys.executable, "-c", code, …]` does. `memory`: how many bytes of addresses it may have."""
        arguments = [str(argument) for argument in arguments]
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place) / "out", Path(place) / "err"
            request = {
                "arguments": arguments,
                "code": code,
                "environment": environment or dict(os.environ),
                "folder": str(folder or Path.cwd()),
                "memory": memory,
                "out": str(out),
                "err": str(err),
                "timeout": timeout,
            }
            print(json.dumps(request), file=self._requests, flush=True)
            answer = json.loads(self._answers.readline())
            if answer is None:
                raise subprocess.TimeoutExpired(arguments, timeout)
            return subprocess.CompletedProcess(arguments, answer, out.read_text(), err.read_text())

    def close(self):
        self._requests.close()
        self._answers.close()
        self._process.wait()


def become(request):
    """Make this process the one that the request asks for."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # what an interpreter does with these when it starts
    sys.path[:0] = [request["folder"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    sys.argv = ["-c" if request["code"] else "zoolens", *request["arguments"]]
    if request["memory"]:
        resource.setrlimit(resource.RLIMIT_AS, (request["memory"],) * 2)


def ended(child, timeout):
    """The exit code of the child, negative for a signal; None if it had to be killed because time was over."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(int(timeout))
    _, status = os.waitpid(child, 0)
    late = signal.alarm(0) == 0
    code = os.waitstatus_to_exitcode(status)
    return None if late and code == -signal.SIGKILL else code


def serve(requests, answers):
    """Returns in the child, with the code that it is to run, if any; the server itself ends where no more requests
    come."""
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
            requests.close()
            answers.close()
            return request["code"]
        print(json.dumps(ended(child, request["timeout"])), file=answers, flush=True)
    os._exit(0)


def end(code):
    """End this process with an exit code, after all that an interpreter does at its end but to take every module apart.
    That writes to each page of memory that it shares with the server, and took 0.1 s of CPU of every command."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    from zoolens.faces.cli.main import COMMANDS, main
    from zoolens.inventory.datasets.demo import open_demo
    from zoolens.inventory.zoos.demo import DemoZoo

    for name in (*(f"zoolens.faces.cli.{command.replace('-', '_')}" for command in COMMANDS), *LATER):
        importlib.import_module(name)
    with suppress(ImportError):
        for name in OPTIONAL:
            importlib.import_module(name)
    # Models and data that come with zoolens, which most commands read: each process would parse and unpack them again.
    list(DemoZoo().entries())
    open_demo()
    # Nothing of this is ever free: no process needs to look at it again for cycles.
    gc.collect()
    gc.freeze()
    descriptors = [int(number) for number in sys.argv[1:]]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    code = serve(os.fdopen(descriptors[0]), os.fdopen(descriptors[1], "w"))
    try:
        if code is None:
            main()
        else:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as ending:
        if not isinstance(ending.code, int):
            raise  # its words are printed
        end(ending.code & 0xFF)
    end(0)
