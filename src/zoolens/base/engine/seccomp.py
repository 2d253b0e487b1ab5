"""A seccomp filter: system calls that no model needs are refused by the kernel.

Standard library only: it runs first thing in a worker. The filter is a classic BPF program, made here and installed by
prctl. It refuses and does not allow: frameworks use several hundred calls, and new versions new ones. So it names what
reaches beyond the process (sockets, other processes, programs, mounts, keys, clocks) or around Landlock (io_uring,
file handles, the mode and owner of files).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from typing import Final

_SOCKET: Final = (41, 198)
# name: (x86-64, aarch64); None: the architecture does not have it. Numbers from 424 on are the same everywhere.
_CALLS: Final[dict[str, tuple[int | None, int | None]]] = {
    # the network; also sockets with a name in the file system (agents, containers, databases), which Landlock lets pass
    "socket": _SOCKET,
    # other processes, and debugging
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "tkill": (200, 130),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "perf_event_open": (298, 241),
    # memory, queues and semaphores with names that other processes know
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191),
    "semop": (65, 193), "semtimedop": (220, 192), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181),
    # ways around Landlock, and what it does not judge: mode, owner, times and attributes of files
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "truncate": (76, 45),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    # the kernel itself
    "bpf": (321, 280), "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "fanotify_init": (300, 262), "vhangup": (153, 58),
}  # fmt: skip
# How a socket reaches somebody: refused where sockets themselves are not.
_REACHING: Final[dict[str, tuple[int | None, int | None]]] = {
    "connect": (42, 203), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
}  # fmt: skip
_PROGRAMS: Final[dict[str, tuple[int | None, int | None]]] = {
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None),
}  # fmt: skip
_LOCAL: Final = 1  # the family of sockets within a machine
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
# Calls whose first argument is the process they are about.
_ABOUT_A_PROCESS: Final = {
    "kill": (62, 129), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
# Scheduling: real-time priority for another process of the user, or a deadline, would stop the machine.
_SCHEDULING: Final = {"sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274)}
_PRLIMIT: Final = (302, 261)
_MOVE_MEMORY: Final = {"migrate_pages": (256, 238), "move_pages": (279, 239)}
# Calls whose second argument is the process, the first being what kind of number it is; and the kind "a user's".
_PRIORITIES: Final = {"setpriority": ((141, 140), 2), "ioprio_set": ((251, 30), 3)}
# Calls whose second argument is a command, and the commands that are refused. An owner of a file is sent signals by the
# kernel, whoever that is; leases and notices make others wait for us or follow what they do; TIOCSTI and TIOCLINUX type
# on the user's terminal.
_COMMANDS: Final = {
    "fcntl": ((72, 25), (8, 10, 15, 1024, 1026)),  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
    "ioctl": ((16, 29), (0x8901, 0x8902, 0x5412, 0x541C)),  # FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX
}
# prctl(PR_SET_PDEATHSIG): the worker's own death signal is set before the filter, and may not be taken back.
_PRCTL: Final = (157, 167)
_SET_DEATH_SIGNAL: Final = 1
# Files in memory count neither as files on disk nor as memory of the process. CUDA's driver and compilers need them.
_MEMORY_FILES: Final = {"memfd_create": (319, 279), "memfd_secret": (447, 447)}
_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, and the kernel's word
_X32: Final = 0x40000000  # a second set of numbers for the same calls

_CLONE_THREAD: Final = 0x10000
_NEW_NAMESPACES: Final = 0x7E020000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# Offsets in struct seccomp_data; both architectures are little-endian.
_NUMBER, _ARCHITECTURE, _ARGUMENT, _SECOND = 0, 4, 16, 24
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_REFUSE: Final = 0x00050000 | errno.EPERM
_UNKNOWN: Final = 0x00050000 | errno.ENOSYS

_SET_NO_NEW_PRIVS: Final = 38
_SET_SECCOMP: Final = 22
_FILTER: Final = 2

Instruction = tuple[int, int, int, int]  # code, steps if true, steps if not, operand


def available() -> bool:
    """Whether this kernel takes filters and this architecture's numbers are known."""
    if not sys.platform.startswith("linux") or platform.machine() not in _ARCHITECTURES:
        return False
    # Asked with a null program, a kernel that has filters complains about the address, and one that has none about the
    # request.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.c_void_p(None), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return ctypes.get_errno() in (errno.EFAULT, errno.EACCES)


def forbid_new_privileges() -> None:
    """No program that we start gains rights (set-user-id); Landlock and seccomp both ask for it."""
    _prctl(_SET_NO_NEW_PRIVS, 1, None)


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when the thread that started it ends. False: the parent has ended already."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, None)
    return os.getppid() == parent


def install(*, programs: bool, accelerated: bool = False) -> None:
    """Filter this thread and all that it starts. `programs`: it may start other processes and programs. `accelerated`:
    it may make and name local sockets, as CUDA's driver does when it starts, but reach nobody by them."""
    instructions = program(programs=programs, process=os.getpid(), accelerated=accelerated)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    held = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
    _prctl(_SET_SECCOMP, _FILTER, ctypes.create_string_buffer(header, len(header)))


def program(
    *, programs: bool, process: int, machine: str | None = None, accelerated: bool = False
) -> list[Instruction]:
    """The filter for a machine (default: this one)."""
    column, architecture = _ARCHITECTURES[machine or platform.machine()]
    calls = _CALLS
    if accelerated:
        # CUDA's driver makes a local socket and names it when it starts, but connects to nothing and sends nothing.
        calls = {name: numbers for name, numbers in _CALLS.items() if name != "socket"} | _REACHING
    refused = [*calls.values(), *(() if programs else _PROGRAMS.values())]
    if not programs and not accelerated:
        refused += _MEMORY_FILES.values()
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if column == 0:
        # x32 calls bear the same architecture under other numbers, so that the list would not find them.
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for numbers in refused:
        if (number := numbers[column]) is not None:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    # Its flags cannot be seen: libraries fall back.
    code += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _UNKNOWN)]
    code += _clone(_CLONE[column], programs=programs)
    if accelerated:
        code += _local_sockets(_SOCKET[column])
    for pair in (_PRLIMIT, *_MOVE_MEMORY.values(), *_SCHEDULING.values()):
        code += _only_about(pair[column], process)
    for pair, commands in _COMMANDS.values():
        code += _without(pair[column], _SECOND, commands)
    # A worker that holds the lock of Python for good silences the thread that watches its parent: only the signal is
    # left.
    code += _without(_PRCTL[column], _ARGUMENT, (_SET_DEATH_SIGNAL,))
    for pair, of_user in _PRIORITIES.values():
        code += _own_priority(pair[column], process, of_user)
    # With programs, Landlock's scope of signals has to do.
    if not programs:
        for pair in _ABOUT_A_PROCESS.values():
            code += _only_about(pair[column], process)
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _clone(number: int, *, programs: bool) -> list[Instruction]:
    """Threads, and processes where programs may be started; never a new namespace."""
    needed: list[Instruction] = [] if programs else [(_ANY_BIT, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _REFUSE)]
    inside: list[Instruction] = [
        (_LOAD, 0, 0, _ARGUMENT),
        *needed,
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(inside), number), *inside]


def _local_sockets(number: int) -> list[Instruction]:
    inside: list[Instruction] = [
        (_LOAD, 0, 0, _ARGUMENT),
        (_EQUAL, 0, 1, _LOCAL),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return [(_EQUAL, 0, len(inside), number), *inside]


def _only_about(number: int, process: int) -> list[Instruction]:
    """Allowed when the first argument is zero (ourselves, or our own group) or our own number."""
    inside = _is_own(_ARGUMENT, process)
    return [(_EQUAL, 0, len(inside), number), *inside]


def _without(number: int, argument: int, refused: tuple[int, ...]) -> list[Instruction]:
    """Allowed unless this argument is one of `refused`."""
    inside: list[Instruction] = [(_LOAD, 0, 0, argument)]
    for value in refused:
        inside += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE)]
    inside.append((_RETURN, 0, 0, _ALLOW))
    return [(_EQUAL, 0, len(inside), number), *inside]


def _own_priority(number: int, process: int, of_user: int) -> list[Instruction]:
    """Allowed for ourselves; never for all processes of the user, which zero means there."""
    inside: list[Instruction] = [
        (_LOAD, 0, 0, _ARGUMENT),
        (_EQUAL, 0, 1, of_user),
        (_RETURN, 0, 0, _REFUSE),
        *_is_own(_SECOND, process),
    ]
    return [(_EQUAL, 0, len(inside), number), *inside]


def _is_own(argument: int, process: int) -> list[Instruction]:
    return [
        (_LOAD, 0, 0, argument),
        (_EQUAL, 1, 0, 0),
        (_EQUAL, 0, 1, process),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]


def _prctl(option: int, value: int, pointer: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
