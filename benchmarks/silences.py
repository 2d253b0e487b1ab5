"""How long each command says nothing: the longest gap between two bytes on a terminal of its own.

    python benchmarks/silences.py --kept FOLDER [--only TEXT …] [--most 3] [--json FILE]

A command that works for more than a few seconds has to show that it does: a bar with the time left, or a line that says
what goes on. Each line of `COMMANDS` is a command at a size at which it takes long, run on a pseudo-terminal of 100
columns. The gap from its start to the first byte and from the last byte to its end count too. `--kept` keeps a home,
a large store and a ResNet-18 from one call of this script to the next. Servers are ended after `SERVED` seconds.

The exit code is 1 if a command was silent for more than `--most` seconds.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
RUNS: Final = 40_000  # of the large store
SERVED: Final = 8.0  # seconds
LONGEST: Final = 300.0  # seconds that a command may take
SERVERS: Final = ("ui", "serve", "agent")
_ESCAPES: Final = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")

# What the commands name: `{kept}` is the folder of --kept.
# A ~ stands for a space within one argument.
COMMANDS: Final = """\
models
show {kept}/resnet18.yaml
manifest init {kept}/resnet18.onnx -o {kept}/drafted.yaml
manifest validate {kept}/resnet18.yaml
identify {kept}/resnet18.onnx
identify {kept}
cost {kept}/resnet18.onnx
cost torchvision:resnet50 --counters
diff {kept}/resnet18.onnx torchvision:resnet34
diff torchvision:resnet50 keras:ResNet50
segments {kept}/resnet18.onnx torchvision:resnet34
segments demo:lenet-wide demo:lenet-wide-int8 --splice --data demo
init --example {kept}/shoes-new
init {kept}/shoes -r onnxruntime
init {kept}/shoes -r onnxruntime --doctor
demo --trust
demo detection
eval {kept}/resnet18.yaml --data {images} -r onnxruntime --fresh
eval {kept}/resnet18.yaml --data {images} -r openvino --fresh
reproduce last
trace run {kept}/resnet18.yaml -r onnxruntime
trace run {kept}/resnet18.yaml -r openvino
trace show last
trace compare last~1 last
doctor {kept}/shoes/mlp-wide.yaml --data {kept}/shoes/photos
audit --zoo torchvision --zoo keras --arch resnet50
compare demo:lenet-wide demo:resnet-tiny -r onnxruntime
equiv demo:lenet-wide demo:resnet-tiny
equiv demo:* -r onnxruntime --picture {kept}/matrix.svg
disagree demo:lenet-wide --with 5
diverge demo:lenet-wide@onnxruntime demo:lenet-wide@litert --data demo
diverge {kept}/resnet18.yaml@onnxruntime {kept}/resnet18.yaml@openvino --data {images} --limit 8
query CORR~lenet-wide~WITHIN~90%~ON~size~<=~30% --store {kept}/large.sqlite
query ON~accuracy~>=~50%~ORDER~BY~latency_p50~LIMIT~5 --store {kept}/large.sqlite
index build
index show --store {kept}/large.sqlite
index verify --store {kept}/large.sqlite
index rebuild --store {kept}/large.sqlite
index estimate demo:lenet-wide
index add {kept}/resnet18.yaml --data {images} -r onnxruntime
runs --store {kept}/large.sqlite
runs show last --store {kept}/large.sqlite
export -o {kept}/all.parquet --store {kept}/large.sqlite
export -o {kept}/all.csv --store {kept}/large.sqlite
store check --store {kept}/large.sqlite
store clean --store {kept}/large.sqlite
store copy {kept}/large.sqlite {kept}/copied.sqlite
fleet grid --store {kept}/large.sqlite
fleet jobs --store {kept}/large.sqlite
agents --store {kept}/large.sqlite
events --store {kept}/large.sqlite
ui export {kept}/exported --runs demo:*
machine peaks
runtimes
env list
env export last -o {kept}/stack
crosstrain diff torch:resnet50 keras:resnet50
crosstrain train {root}/examples/crosstrain/convnorm.yaml --with torch --with numpy --threads 1
crosstrain space
crosstrain list --store {kept}/large.sqlite
port check {port}/torch_net.py:net {port}/keras_net.py:net --input 3x32x32
port weights {port}/torch_net.py:net {port}/keras_net.py:net --input 3x32x32 --out {kept}/n.weights.h5
port scaffold {port}/torch_net.py:net --to keras --input 3x32x32
port train {port}/torch_net.py:training {port}/keras_net.py:training --input 3x32x32 --epochs 1
ui --no-browser --port 8931
serve {kept}/resnet18.yaml --http 8932 --grpc 8933
serve {kept}/resnet18.yaml --check
agent --name silent
"""


@dataclass(frozen=True)
class Heard:
    """`gap`: the longest silence in seconds; `before`: what was last said before it; `code`: None for one that was
    ended. `cpu`: seconds of processor, since the clock of a busy machine says little."""

    command: str
    seconds: float
    cpu: float
    gap: float
    before: str
    code: int | None


def listen(words: list[str], environment: dict[str, str], folder: Path, *, until: float) -> tuple[Heard, str]:
    """Run a command on a terminal of its own, and hear when it says something."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "zoolens", *words], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    began = last = time.monotonic()
    gap, before, said = 0.0, b"", b""
    ended = False
    while not ended:
        readable, _, _ = select.select([terminal], [], [], 0.5)
        now = time.monotonic()
        if readable:
            try:
                new = os.read(terminal, 1 << 16)
            except OSError:  # Linux: the other end is closed
                new = b""
            if now - last > gap:
                gap, before = now - last, said[-300:]
            said, last, ended = said + new, now, not new
        if now - began > until:
            break
    code, cpu = _end(child, terminal, ended)
    shown = _ESCAPES.sub(b"", before).decode(errors="replace").replace("\r", "\n").strip().splitlines()
    heard = Heard(" ".join(words), time.monotonic() - began, cpu, gap, shown[-1].strip()[:90] if shown else "", code)
    return heard, _ESCAPES.sub(b"", said).decode(errors="replace")


def _end(child: int, terminal: int, ended: bool) -> tuple[int | None, float]:
    """Waits for a command, or ends it; gives its exit code and its seconds of processor."""
    if not ended:
        os.kill(child, signal.SIGINT)
        timer = threading.Timer(20, _kill, [child])
        timer.daemon = True
        timer.start()
    _, status, used = os.wait4(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status) if ended else None, used.ru_utime + used.ru_stime


def _kill(child: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def prepare(kept: Path, environment: dict[str, str]) -> None:
    """The files that the commands name, made once."""
    import large_store
    import waits

    kept.mkdir(parents=True, exist_ok=True)
    if not (kept / "resnet18.onnx").exists():
        making = waits.MAKE_RESNET.format(folder=str(kept), manifest=waits.RESNET)
        subprocess.run([sys.executable, "-c", making], env=environment, check=True)
    if not (kept / "large.sqlite").exists():
        large_store.measured_seed(kept / "large.sqlite")
        large_store.multiply(kept / "large.sqlite", RUNS)
    if not (kept / "shoes").exists():
        command = [sys.executable, "-m", "zoolens", "init", "--example", str(kept / "shoes")]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    for made in ("shoes-new", "exported", "stack", "matrix.svg", "copied.sqlite", "copied.bulk", "drafted.yaml"):
        path = kept / made
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="commands with one of these texts in them")
    parser.add_argument("--most", type=float, default=3.0, help="seconds")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", action="store_true", help="print the end of what each command said")
    chosen = parser.parse_args()
    kept = chosen.kept.resolve()
    environment = {
        **os.environ,
        "ZOOLENS_HOME": str(kept / "home"),
        "PYTHONPATH": str(ROOT / "src"),
        "TERM": "xterm-256color",
    }
    prepare(kept, environment)
    images = f"npz:{kept}/images.npz?layout=NCHW"
    names = {"kept": kept, "root": ROOT, "port": ROOT / "examples" / "port", "images": images}
    heard = []
    for line in COMMANDS.splitlines():
        words = [word.replace("~", " ") if "last~" not in word else word for word in line.split()]
        words = [word.format(**names) for word in words]
        if chosen.only and not any(text in line for text in chosen.only):
            continue
        serves = words[0] in SERVERS and words[1:2] != ["export"] and "--check" not in words
        one, said = listen(words, environment, kept, until=SERVED if serves else LONGEST)
        heard.append(one)
        mark = "!" if one.gap > chosen.most else " "
        figures = f"{mark} {one.gap:6.1f} s of {one.seconds:6.1f} s, cpu {one.cpu:6.1f} s"
        print(f"{figures}  {one.code!s:>4}  {line}   after: {one.before}", flush=True)
        if chosen.show:
            print("    " + "\n    ".join(said.replace("\r", "\n").splitlines()[-12:]), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(one) for one in heard], indent=2))
    sys.exit(any(one.gap > chosen.most for one in heard))


if __name__ == "__main__":
    main()
