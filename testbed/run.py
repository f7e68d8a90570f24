"""Plan a demand with a scheduler, play it on emulated optical circuit switches, and measure the makespan.

    sudo .venv/bin/python testbed/run.py
"""

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it imports, there is nothing to clean up or to tell

import argparse
import contextlib
import glob
import os
import re
import shutil
import sys
import time

from controller.scheduling.registry import SCHEDULERS
from testbed import calibration, live, machine, report
from testbed.errors import DELIVERED, UNDELIVERED, UNTRUSTWORTHY, Parser, TestbedError, UserError, exit_status
from testbed.folder import read
from testbed.lock import alone
from testbed.measure import measure, planned
from testbed.plan import check_playable, check_size, make_plan
from testbed.settings import load
from testbed.stages import Stages

DOCTOR = f"sudo {machine.PYTHON} testbed/doctor.py tells what this machine lacks"


def parser():
    """The command line, as the README describes it."""
    result = Parser(
        "testbed/run.py", __doc__.splitlines()[0], argument_default=argparse.SUPPRESS,
        epilog="Exit status: 0 delivered and trustworthy; 1 not everything delivered; 2 bad input; 3 delivered, but "
               "the run cannot be trusted; 130 interrupted.")
    add = result.add_argument
    add("--config", metavar="FILE", help="YAML file with these same names; the command line wins")
    add("--demand", metavar="NAME|FILE", help="gpt (default), moe or benchmark, with parameters as in gpt:tensor=8,noise=0.01; or "
        "a .csv, .tsv, .npy or .npz of n×n bytes")
    add("--normalised", action="store_true", help="the file holds fractions of the period, not bytes")
    add("--ignore-diagonal", action="store_true", help="leave out what a file has on its diagonal")
    add("--hosts", metavar="N", help="number of hosts (default 8, or what the file has)")
    add("--switches", metavar="S", help="number of parallel switches (default 2)")
    add("--delta", metavar="TIME", help="reconfiguration delay (default 20ms)")
    add("--period", metavar="TIME", help="link time of a line of 1 (default: for a makespan of about 6 s)")
    add("--rate", metavar="RATE", help="rate of each link (default: what this machine carries with headroom)")
    add("--physical-rate", metavar="RATE", help="think in the real fabric: rate of its links, with --physical-delta; "
        "the run is dilated in time by one factor")
    add("--physical-delta", metavar="TIME", help="reconfiguration delay of the real fabric")
    add("--scheduler", metavar="NAME", help=f"scheduling algorithm: {', '.join(SCHEDULERS)}")
    add("--plan-time", metavar="TIME", help="how long spectra-plus may search (default 100ms)")
    add("--plan-steps", metavar="N", help="… or how many steps: then the same command gives the same schedule")
    add("--min-slot", metavar="TIME", help="spectra-plus makes no shorter slot (default 5ms, or δ/2 where that is less)")
    add("--seed", metavar="K", help="seed of the generated demand (default 0)")
    add("--framework", metavar="NAME", help="OpenFlow framework: os-ken (default) or ryu")
    add("--datapath", metavar="NAME", help="datapath of Open vSwitch: kernel or user (default: what calibration finds more faithful)")
    add("--link-delay", metavar="TIME", help="propagation delay of each link, by netem (up to 1ms; default none)")
    add("--list", action="store_true", help="list workloads, schedulers and topologies, and end")
    add("--out", metavar="DIR", help="run folder (default runs/<time>-<scheduler>-<demand>)")
    add("--dry-run", action="store_true", help="plan and write the run folder only; needs no root")
    add("--json", action="store_true", help="print result.json alone on standard output")
    add("--plots", action="store_true", help="write the charts of report.html as PNG and SVG too")
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--cli", action="store_true", help="open Mininet's shell on the network before the play, and after it")
    add("--pcap", metavar="HOST", nargs="+", help="capture the packets of these hosts (h1, h2, …) into the run folder")
    add("--fault", metavar="FAULT", action="append", help="inject a fault, as in 'switch 2 dies at 1.2s' (may be given several "
        "times; the README lists all)")
    add("--no-wait", action="store_true", help="refuse instead of waiting where another run is going on")
    return result


def main(arguments=None):
    """Run the command line; returns the exit status."""
    return exit_status("run.py", lambda: _command(arguments))


def _command(arguments):
    options = vars(parser().parse_args(arguments))
    if options.pop("list", False):
        report.print_choices(sys.stdout)
        return DELIVERED
    settings = load(options, options.pop("config", None))
    stages = Stages(_sayer(settings))
    # What is wrong with the demand is told before anything is started or waited for.
    stages.enter("plan")
    kept = calibration.load(settings.datapath)
    plan = make_plan(settings, kept or calibration.GUESS)
    plan.faults  # noqa: B018 - what is wrong with them is bad input too
    if settings.dry_run:
        with _run_folder(settings, plan) as folder:
            report.write_plan(folder, plan, planned(plan))
            _print(plan, planned(plan), folder)
        return DELIVERED
    check_size(plan)
    check_machine(settings)
    if kept:
        check_playable(plan, kept)
    with _run_folder(settings, plan) as folder:
        stages.enter(None)
        with alone(settings.no_wait, stages.say):
            if not kept:
                plan = _plan_anew(settings, stages)
            report.write_plan(folder, plan, planned(plan))
            return _run(plan, folder, stages)


def _plan_anew(settings, stages):
    """Calibrate the machine, and plan again by what it can carry."""
    stages.enter("calibrate")
    measured = calibration.measure_machine(isolated_run, stages.say, settings.datapath, only_missing=True)
    stages.enter("plan")
    plan = make_plan(settings, measured)
    stages.enter(None)
    check_playable(plan, measured)
    return plan


def _sayer(settings):
    """What tells the user of the progress."""
    return (lambda text: None) if settings.quiet else lambda text: print(text, file=sys.stderr, flush=True)


def check_machine(settings):
    """Refuse to start where something that a run needs is missing.

    Raises
    ------
    UserError
        No root, or a missing program; it says what to do.
    """
    if os.geteuid() != 0:
        raise UserError("root is needed to make network namespaces: run it with sudo, or plan only with --dry-run")
    missing = [tool for tool in (*machine.TOOLS, *(["tcpdump"] if settings.pcap else [])) if not shutil.which(tool)]
    if missing:
        raise UserError(f"missing: {', '.join(missing)}; run sudo vagrant/provision.sh ({DOCTOR})")
    try:
        import mininet  # noqa: F401
    except ImportError:
        raise UserError("Python does not find mininet: run sudo vagrant/provision.sh, then use .venv/bin/python "
                        f"({DOCTOR})") from None
    if settings.datapath == "kernel" and not machine.has_module("openvswitch"):
        raise UserError("--datapath kernel: this kernel has no module openvswitch; use --datapath user, or a VM "
                        f"(cd vagrant && vagrant up; {DOCTOR})")
    if settings.link_delay and not machine.has_module("sch_netem"):
        raise UserError("--link-delay: this kernel has no netem (module sch_netem); leave it out, or use a VM "
                        f"(cd vagrant && vagrant up; {DOCTOR})")
    from testbed.control import RYU_PYTHON
    if settings.framework == "ryu" and not os.path.exists(RYU_PYTHON):
        raise UserError("--framework ryu: its environment is missing; run sudo vagrant/provision.sh --ryu")


def _run(plan, folder, stages):
    """Conduct the run in namespaces of its own, write and print the result; returns the exit status."""
    say = stages.say
    say(f"{plan.demand} on {plan.hosts} hosts and {plan.settings.switches} switches: "
        f"about {plan.schedule.makespan_s + 2:.0f} s")
    watch = live.watch if sys.stderr.isatty() and not plan.settings.quiet else None
    with _conducted(plan, os.path.join(folder, "log.txt"), say, repairs=True, watch=watch) as seen:
        result, events = measure(plan, seen)
        # First told, so that a full disk does not lose it.
        _print(plan, result, folder)
        sys.stdout.flush()
        report.write_result(folder, result, events)
        stages.enter("down")
    stages.enter("report")
    report.write_page(read(folder), plan.settings.plots)
    stages.enter(None)
    if result["undelivered_bytes"]:
        return UNDELIVERED
    return DELIVERED if result["trustworthy"] else UNTRUSTWORTHY


def isolated_run(plan):
    """Conduct a plan silently and without repairs; returns what was seen."""
    with _conducted(plan, os.devnull, lambda text: None, repairs=False) as seen:
        return seen


@contextlib.contextmanager
def _conducted(plan, log_path, say, repairs, watch=None):
    """Conduct a plan in namespaces of its own; gives what was seen, and ends all that runs inside on leaving."""
    from testbed.experiment import conduct
    from testbed.namespaces import isolated

    run = isolated(lambda: conduct(plan, log_path, say, repairs, watch))
    try:
        yield _result_of(run, log_path)
    finally:
        run.kill()


def _result_of(run, log_path):
    """What the conducted run returned; whatever it raised stands in the log, and is told in one line."""
    try:
        return run.result()
    except OSError as error:
        raise UserError(f"{error.strerror or error}: this machine does not allow it (in a container, "
                        f"it needs --privileged; {DOCTOR})") from None
    except Exception as error:
        with open(log_path, "a", encoding="utf-8") as log:
            log.write("\n".join([str(error), *getattr(error, "__notes__", [])]) + "\n")
        if isinstance(error, TestbedError):
            raise
        raise TestbedError(f"{type(error).__name__}: {error} (details in {log_path})") from None


@contextlib.contextmanager
def _run_folder(settings, plan):
    """A new folder for the run; it belongs to the user who called sudo."""
    folder = settings.out or os.path.join(
        "runs", f"{time.strftime('%Y%m%d-%H%M%S')}-{settings.scheduler}-{re.sub('[^A-Za-z0-9.]+', '-', plan.demand)}")
    try:
        if settings.out is None and os.path.exists(folder):
            folder += f"-{os.getpid()}"
        existed = os.path.exists(folder)
        made = [path for path in (os.path.dirname(folder), folder) if path and not os.path.exists(path)]
        os.makedirs(folder, exist_ok=True)
        if os.listdir(folder):
            raise UserError(f"--out {folder}: the folder is not empty; name a new one")
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror}") from None
    try:
        yield folder
    except UserError:  # bad input that only the start could tell: then nothing stays
        for path in glob.glob(os.path.join(glob.escape(folder), "*")) if existed else ():
            os.remove(path)
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except OSError as error:
        raise TestbedError(f"writing {error.filename or folder}: {error.strerror}") from None
    finally:
        if not existed:
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # interrupted before anything was written
        _give_to_user([*made, *glob.glob(os.path.join(glob.escape(folder), "*"))])


def _give_to_user(paths):
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        for path in paths:
            with contextlib.suppress(OSError):
                os.lchown(path, int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", -1)))


def _print(plan, result, folder):
    if plan.settings.json_only:
        print(report.to_json(result))
    else:
        report.print_result(result, plan.schedule, folder, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
