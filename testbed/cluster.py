"""Many schedules at a time, on the cores of this machine or on a Dask cluster."""

import contextlib
import logging
import os
import re
import signal
import tempfile

from testbed.cases import code_version, evaluate
from testbed.errors import TestbedError, UserError

ANSWER_S = 10  # how long a cluster may take to answer


@contextlib.contextmanager
def evaluator(address=None):
    """A function that evaluates tasks in parallel, in any order.

    Parameters
    ----------
    address : str, optional
        Of a Dask scheduler, as tcp://HOST:PORT; by default a cluster of this machine's cores, made for the purpose.

    Yields
    ------
    callable
        `each(tasks)` takes the arguments of `cases.evaluate`, and yields its results as they come.

    Raises
    ------
    UserError
        The cluster does not answer, has no workers, or runs other code.
    TestbedError
        The cluster went away meanwhile.
    """
    import distributed  # slow to import, and needed only here

    if address is not None and not re.fullmatch(r"(tcp|tls|ws|wss)://.+:\d+", address):
        raise UserError(f"--dask {address}: this is no address; write it like tcp://HOST:PORT")
    logging.disable(logging.CRITICAL)  # Dask tells of every task that ends with its worker
    with contextlib.ExitStack() as stack:
        target = address or stack.enter_context(_local(distributed))
        try:
            client = stack.enter_context(distributed.Client(target, timeout=ANSWER_S, set_as_default=False))
            client.wait_for_workers(1, timeout=ANSWER_S)
            if not address:
                client.run(logging.disable, logging.CRITICAL)
            versions = client.run(code_version)
        except (OSError, ValueError, TimeoutError) as error:
            raise UserError(f"--dask {address}: no Dask cluster with workers answers there within {ANSWER_S} s "
                            f"({' '.join(str(error).split())[:120]})") from None
        except ModuleNotFoundError as error:
            raise UserError(f"--dask {address}: its workers cannot import {error.name}; install this project there"
                            ) from None
        for worker, version in versions.items():
            if version != code_version():
                raise UserError(f"--dask {address}: worker {worker} has another version of this project or of NumPy "
                                "and SciPy; install the same one there")

        def each(tasks):
            futures = [client.submit(evaluate, *task, pure=False) for task in tasks]
            try:
                for done in distributed.as_completed(futures, loop=client.loop):
                    yield done.result()
                    done.release()
            except (distributed.KilledWorker, distributed.CancelledError, distributed.comm.CommClosedError) as error:
                raise TestbedError(f"the Dask cluster lost a task ({type(error).__name__}); what was finished is kept, "
                                   "and the same command goes on from there") from None

        yield each


@contextlib.contextmanager
def _local(distributed):
    """A cluster of one worker a core, on loopback."""
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="spectra-testbed-"))
        # Workers inherit that ctrl-C is ignored: only this process answers to it, and ends them.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            cluster = stack.enter_context(distributed.LocalCluster(
                n_workers=len(os.sched_getaffinity(0)), threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
                local_directory=scratch, memory_limit=0))
        finally:
            signal.signal(signal.SIGINT, before)
        yield cluster
