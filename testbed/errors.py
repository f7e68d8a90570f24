"""The errors a user can cause, and how the command line tells them: one line and an exit status."""

import argparse
import contextlib
import difflib
import os
import signal
import sys

DELIVERED = 0
UNDELIVERED = 1
BAD_INPUT = 2
UNTRUSTWORTHY = 3
INTERRUPTED = 130


class UserError(Exception):
    """Bad input: the message is one line that says what is wrong, where, and what to do. Exit status 2."""


class TestbedError(Exception):
    """The testbed itself could not do what it was asked: one line that says what failed and where. Exit status 1."""

    __test__ = False  # not a test, whatever its name looks like to pytest


def nearest(name, known):
    """`; did you mean 'x'?` for the most similar known name, else the list of all."""
    close = difflib.get_close_matches(str(name), list(known), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


_LIMITS = {"greater_than": "greater than", "greater_than_equal": "at least", "less_than": "less than",
           "less_than_equal": "at most"}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "a text"}


def explain(error):
    """What pydantic found wrong (an item of its `errors()`), in the words of the other errors."""
    kind, given = error["type"], error["input"]
    if kind in _LIMITS:
        return f"{given!r} must be {_LIMITS[kind]} {next(iter(error['ctx'].values()))}"
    if kind.split("_")[0] in _KINDS:
        return f"{given!r} is not {_KINDS[kind.split('_')[0]]}"
    if kind == "literal_error":
        return f"{given!r} is not one of {error['ctx']['expected']}"
    return error["msg"].removeprefix("Value error, ")


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, as every other error is said."""

    def __init__(self, prog, description, **options):
        super().__init__(prog=prog, description=description, allow_abbrev=False, **options)

    def error(self, message):
        name = message.rpartition("unrecognized arguments: ")[2].split(" ")[0] if "unrecognized" in message else None
        if name:
            message = f"unknown option {name}{nearest(name, self._option_string_actions)}"
        raise UserError(f"{message} (--help lists all options)")


def exit_status(program, function):
    """Run a program's function; what it raises is told in one line on standard error.

    An interrupt (ctrl-C, SIGTERM, SIGHUP) is raised in it as KeyboardInterrupt, once; another one ends the program at once.

    Parameters
    ----------
    program : str
        Its name, which begins the line.
    function : callable without arguments
        Returns an exit status.

    Returns
    -------
    int
        That status, or the one that goes with the error.
    """
    with _interruptible(program):
        try:
            return function()
        except UserError as error:
            message, status = error, BAD_INPUT
        except TestbedError as error:
            message, status = error, UNDELIVERED
        except KeyboardInterrupt:
            message, status = "interrupted; everything it had started is gone", INTERRUPTED
        except BrokenPipeError:  # what reads the output has ended, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python does not complain when it ends
            return UNDELIVERED
        print(f"{program}:", " ".join(str(message).split()), file=sys.stderr)  # one line, whatever a name contains
        return status


@contextlib.contextmanager
def _interruptible(program):
    """The first interrupt is a KeyboardInterrupt; the second ends this process, and with it, by the kernel, all it started."""
    def first(_number, _frame):
        for number in before:
            signal.signal(number, second)
        raise KeyboardInterrupt

    def second(_number, _frame):
        os.write(2, f"{program}: interrupted twice; ended at once\n".encode())
        os._exit(INTERRUPTED)

    # What the caller has ignored (nohup, a shell's background job) stays ignored.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
