"""oneDNN's log, as several of its versions write it, and what is no log."""

import os
import subprocess
import sys

import pytest

from zoolens.inventory.runtimes.timing.onednn_log import Primitive, read_lines

CONVOLUTION = (
    "onednn_verbose,v1,1794855648235.573975,primitive,exec,cpu,convolution,indirect_gemm:acl,forward_training,"
    "src:f32:a:blocked:acdb::f0 wei:f32:a:blocked:Acdb4a::f0 bia:f32:a:blocked:a::f0 dst:f32:a:blocked:acdb::f0,"
    "attr-scratchpad:user,alg:convolution_direct,mb8_ic32oc64_ih30oh28kh3sh1dh0ph0_iw30ow28kw3sw1dw0pw0,7.40015\n"
)
REORDER = (
    "onednn_verbose,v1,1794855648225.458984,primitive,exec,cpu,reorder,jit:uni,undef,"
    "src:f32::blocked:abcd::f0 dst:f32::blocked:acdb::f0,attr-scratchpad:user,,8x32x30x30,5.5791\n"
)


def test_a_primitive_has_its_implementation_and_its_times():
    (primitive,) = read_lines([CONVOLUTION])
    problem = "mb8_ic32oc64_ih30oh28kh3sh1dh0ph0_iw30ow28kw3sw1dw0pw0"
    expected = Primitive(
        "convolution", "indirect_gemm:acl", primitive.start, 7_400_150, precision="float32", problem=problem
    )
    assert primitive == expected
    assert abs(primitive.start - 1_794_855_648_235_573_975) < 1000  # milliseconds in a float have no nanoseconds
    assert [part.kind for part in read_lines([REORDER])] == ["reorder"]


def test_lines_of_versions_before_the_format_had_a_number_are_read():
    old = CONVOLUTION.replace("onednn_verbose,v1,", "onednn_verbose,").replace("primitive,exec", "exec")
    for tensor in ("src", "wei", "bia", "dst"):
        old = old.replace(f"{tensor}:f32", f"{tensor}_f32")
    assert list(read_lines([old])) == list(read_lines([CONVOLUTION]))


@pytest.mark.parametrize(
    ("memory", "attributes", "precision"),
    [
        ("src:u8::blocked:a::f0 wei:s8::blocked:a::f0 dst:f32::blocked:a::f0", "", "int8"),
        ("src:bf16::blocked:a::f0 wei:bf16::blocked:a::f0 dst:f32::blocked:a::f0", "", "bfloat16"),
        ("src:f32::blocked:a::f0 wei:f32::blocked:a::f0 dst:f32::blocked:a::f0", "attr-fpmath:bf16", "bfloat16"),
        ("src_bf16::blocked:acdb:f0 wei_bf16:p:blocked:ABcd16b:f0 dst_bf16::blocked:acdb:f0", "", "bfloat16"),
        ("data_f32::blocked:a::f0 diff_undef::undef::", "", None),
        ("", "", None),
    ],
)
def test_the_precision_is_that_of_what_is_multiplied(memory, attributes, precision):
    line = f"onednn_verbose,v1,1.5,primitive,exec,cpu,matmul,gemm:jit,undef,{memory},{attributes},,2x2,0.5"
    (primitive,) = read_lines([line])
    assert primitive.precision == precision


@pytest.mark.parametrize(
    "line",
    [
        "",
        "exec",
        "onednn_verbose",
        "onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2",
        CONVOLUTION.replace("1794855648235.573975,", ""),  # no timestamps
        CONVOLUTION[:-20],  # cut off
        CONVOLUTION.replace("7.40015", "nan"),
        CONVOLUTION.replace("7.40015", "-1"),
        CONVOLUTION.replace("7.40015", "1e400"),
        CONVOLUTION.replace("onednn_verbose", "ONEDNN"),
        CONVOLUTION.replace("primitive,exec", "graph,exec"),
        CONVOLUTION.replace("cpu,", "cpu," * 60),
    ],
)
def test_what_is_no_line_of_a_primitive_that_ran_is_left_out(line):
    assert list(read_lines([line])) == []


def test_what_others_print_meanwhile_is_passed_on():
    program = f"""
import os
from zoolens.inventory.runtimes.timing.onednn_log import recorded_log
print("before")
with recorded_log() as log:
    os.write(1, {CONVOLUTION.encode()!r} + b"from a library\\n" + {REORDER.encode()!r})
    print("from Python")
print("after", [primitive.kind for primitive in log.primitives])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.splitlines() == ["before", "from a library", "from Python", "after ['reorder', 'convolution']"]
