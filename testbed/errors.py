"""The errors a user can cause, and the exit statuses of the command line."""

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
