"""Namespaces: a run in namespaces of its own, and entering those of its hosts.

`isolated` forks twice, like `unshare --net --mount --pid --fork --kill-child`: what runs inside is process 1 of its own
PID namespace, so that the kernel ends every process of the run, and with the last of them the network namespaces, links
and mounts, however the run ends.
"""

import contextlib
import ctypes
import os
import pickle
import signal
import traceback

from testbed.errors import TestbedError

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID = 0x00020000, 0x40000000, 0x20000000
_MS_NOSUID_NODEV_NOEXEC = 0x2 | 0x4 | 0x8
_MS_REC_PRIVATE = 0x4000 | 0x40000
_PR_SET_PDEATHSIG = 1


def _check(result, what):
    if result != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def die_with_parent():
    """Have the kernel kill this process when its parent's thread ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def _mount(source, target, kind, flags, data=""):
    _check(_libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()), f"mount on {target}")


@contextlib.contextmanager
def network_namespace(pid):
    """Inside the block, this thread is in the network namespace of a process; sockets opened there stay there."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.setns(target, CLONE_NEWNET), f"entering the network namespace of process {pid}")
        finally:
            os.close(target)
        yield
    finally:
        _check(_libc.setns(own, CLONE_NEWNET), "returning to the own network namespace")
        os.close(own)


class Isolated:
    """A function that runs as process 1 of namespaces of its own; see `isolated`."""

    def __init__(self, pid, reader):
        self._pid, self._reader = pid, reader

    def result(self):
        """Wait for the function, and return what it returned; `kill` then ends what it left running.

        Raises
        ------
        Exception
            What the function raised; TestbedError where it ended without a word.
        """
        with os.fdopen(self._reader, "rb") as stream:
            data = stream.read()
        if not data:
            raise TestbedError("the emulation ended without a result (killed from outside, or out of memory)")
        kind, value = pickle.loads(data)  # our own child's, over a pipe
        if kind == "raised":
            raise value
        return value

    def kill(self):
        """End everything that runs inside, at once; the kernel takes up to 2 s to take hundreds of links apart."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)  # not yet waited for, so that the number is still its own
            os.waitpid(self._pid, 0)
            self._pid = None


def isolated(function):
    """Start a function in new network, mount, and PID namespaces, with a private /proc, /run/openvswitch and /run/netns.

    Parameters
    ----------
    function : callable without arguments
        Its result, or the exception it raises, must pickle.

    Returns
    -------
    Isolated

    Raises
    ------
    OSError
        The kernel refuses the namespaces.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Isolated(pid, reader)
    status = 1
    try:
        os.close(reader)
        _follow(parent)
        # Only this process hears the terminal's ctrl-C no more: the parent decides, and killing us ends all.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        try:
            _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID), "making namespaces for the run")
        except OSError as error:
            _reply(writer, error)
            os._exit(1)
        inner = os.fork()
        if inner == 0:
            _inside(function, writer)
        os.close(writer)
        _, wait_status = os.waitpid(inner, 0)
        status = os.waitstatus_to_exitcode(wait_status)
    finally:
        os._exit(status if status >= 0 else 1)


def _follow(parent):
    """Die with the parent, also where it is gone already."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def _inside(function, writer):
    """Process 1 of the new namespaces: mount what is private, run the function, report, end."""
    try:
        die_with_parent()
        try:
            _mount("none", "/", "", _MS_REC_PRIVATE)
            _mount("proc", "/proc", "proc", _MS_NOSUID_NODEV_NOEXEC)
            for directory in ("/run/openvswitch", "/run/netns"):
                os.makedirs(directory, exist_ok=True)
                _mount("tmpfs", directory, "tmpfs", _MS_NOSUID_NODEV_NOEXEC, "mode=0700")
            value = ("returned", function())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
            error.add_note(traceback.format_exc())
            _reply(writer, error)
            os._exit(1)
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(value, stream)
        os._exit(0)
    finally:
        os._exit(1)


def _reply(writer, error):
    try:
        data = pickle.dumps(("raised", error))
        pickle.loads(data)
    except Exception:  # noqa: BLE001 - an exception that does not pickle is told as text
        data = pickle.dumps(("raised", TestbedError(f"{type(error).__name__}: {error}")))
    with os.fdopen(writer, "wb") as stream:
        stream.write(data)
