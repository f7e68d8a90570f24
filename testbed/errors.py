"""The errors a user can cause, and how the command line tells them: one line and an exit status."""

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


def exit_status(program, function):
    """Run a program's function; what it raises is told in one line on standard error.

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
    try:
        return function()
    except UserError as error:
        message, status = error, BAD_INPUT
    except TestbedError as error:
        message, status = error, UNDELIVERED
    except KeyboardInterrupt:
        message, status = "interrupted; everything it had started is gone", INTERRUPTED
    print(f"{program}:", " ".join(str(message).split()), file=sys.stderr)  # one line, whatever a name contains
    return status
