"""`goqueue` as a program that starts at once: its modules are loaded already, and each start is a fork.

A shell in a test runs it by its name as it would run the real one: a process of its own, with its own standard
streams, folder, environment and exit code. Only loading the modules, which takes half a second each time, is done
once. A process forks all others; the program that the shell finds hands over what it was started with, passes
signals on, and ends as the fork ends.
"""

import gc
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from select import select

MESSAGE_BYTES_MAX = 1 << 20
STANDARD_STREAMS = (0, 1, 2)
PASSED_ON = {signal.SIGINT, signal.SIGTERM}


@contextmanager
def warm_program(folder: Path) -> Iterator[Path]:
    """The folder to put in front of PATH."""
    programs = folder / "bin"
    programs.mkdir()
    address = str(folder / "warm")
    command = [sys.executable, "-I", "-S", __file__, address]
    (programs / "goqueue").write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    (programs / "goqueue").chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        forker = subprocess.Popen(
            [sys.executable, "-m", "tests.warmprogram", str(listener.fileno())],
            cwd=Path(__file__).parents[1],
            pass_fds=[listener.fileno()],
        )
        try:
            yield programs
        finally:
            forker.kill()
            forker.wait()


# What the shell starts: it knows nothing of goqueue


def start(address: str, arguments: list[str]) -> int:
    """The exit code of the fork, as a shell counts it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until it is known whom they are for
    with socket.socket(socket.AF_UNIX) as forker:
        forker.connect(address)
        wanted = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
        socket.send_fds(forker, [json.dumps(wanted).encode()], STANDARD_STREAMS)
        fork = int.from_bytes(forker.recv(4))
        for each in PASSED_ON:
            signal.signal(each, lambda number, _: os.kill(fork, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        return int.from_bytes(forker.recv(1))


# What forks


def fork_for_ever(listener: socket.socket) -> None:
    """Returns in each fork, and there alone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        caller, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _fork_for(caller)
            return
        caller.close()


def _fork_for(caller: socket.socket) -> None:
    message, streams, _, _ = socket.recv_fds(caller, MESSAGE_BYTES_MAX, len(STANDARD_STREAMS))
    fork = os.fork()
    if fork:
        caller.sendall(fork.to_bytes(4))
        if caller.fileno() in select([caller.fileno(), os.pidfd_open(fork)], [], [])[0]:
            os.kill(fork, signal.SIGKILL)  # as its caller, who says nothing more, was
        code = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        with suppress(BrokenPipeError):
            caller.sendall((code if code >= 0 else 128 - code).to_bytes())
        os._exit(0)
    caller.close()
    _become(json.loads(message), streams)


def _become(wanted: dict[str, object], streams: list[int]) -> None:
    for stream, number in zip(streams, STANDARD_STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    match wanted:
        case {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}:
            sys.argv[1:] = arguments
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)


def serve(listener: socket.socket) -> None:
    from goqueue.cli import FILES, main  # noqa: PLC0415 - the program that a shell starts must not load it

    for name in FILES.values():
        import_module(f"goqueue.cli.{name}")
    gc.freeze()  # else each fork, as it ends, walks through all that it never used
    fork_for_ever(listener)
    listener.close()
    main(prog_name="goqueue")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].isdigit():
        serve(socket.socket(fileno=int(sys.argv[1])))
    else:
        sys.exit(start(sys.argv[1], sys.argv[2:]))
