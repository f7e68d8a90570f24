"""The README's tutorial, typed in as it stands: every command works, and prints what the README says."""

import math
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUSY = re.compile(r"measured|predicted|beside|verdict|^spectra |^less ")  # figures of a machine that may be busy
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*%?")


def steps():
    """(commands, lines of output that the README shows) of the tutorial, one after the other."""
    text = (ROOT / "README.md").read_text().partition("\n## Tutorial\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```(sh)?\n(.*?)```", text, re.S)
    found = []
    for kind, body in blocks:
        if kind:
            found.append((body, []))
        else:
            found[-1][1].extend(body.splitlines())
    return found


def agrees(shown, printed):
    """Whether a line is the one shown: word by word, and number by number as near as a busy machine keeps to."""
    printed = re.sub("not trustworthy.*", "trustworthy", printed)
    if "".join(NUMBER.split(shown)).split() != "".join(NUMBER.split(printed)).split():
        return False
    tolerance = 0.2 if BUSY.search(shown) else 0.005
    numbers = [[float(number.rstrip("%").replace(",", "")) for number in NUMBER.findall(line)] for line in (shown, printed)]
    percent = [number.endswith("%") for number in NUMBER.findall(shown)]
    return len(numbers[0]) == len(numbers[1]) and all(
        math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=8 if of_hundred else 0)
        for ours, theirs, of_hundred in zip(*numbers, percent))


def check(shown, printed):
    """All lines shown are printed, in this order; with nothing between them but where there is an ellipsis."""
    place, anything = 0, False
    for line in shown:
        if line == "…":
            anything = True
            continue
        found = [number for number in range(place, len(printed)) if agrees(line, printed[number])]
        assert found and (anything or found[0] == place), f"{line!r} is not in {printed[place:]}"
        place, anything = found[0] + 1, False
    assert anything or place == len(printed), printed[place:]


def test_tutorial_does_what_it_says(tmp_path):
    for name in (".venv", "testbed"):
        os.symlink(ROOT / name, tmp_path / name)
    assert len(steps()) == 6
    for commands, shown in steps():
        done = subprocess.run(["bash", "-c", commands.replace("sudo ", "")], cwd=tmp_path, capture_output=True, text=True,
                              timeout=120)
        assert done.returncode in (0, 3), done.stderr
        check(shown, done.stdout.splitlines())
    assert (tmp_path / "runs" / "first" / "report.html").exists() and (tmp_path / "runs" / "comparison.html").exists()


@pytest.mark.parametrize("printed", [
    ["demand  gpt", "lower bound  5.2 s", "verdict  trustworthy"], ["demand  moe", "lower bound  4.2 s", "verdict  trustworthy"],
    ["demand  gpt", "lower bound  4.2 s"], ["demand  gpt", "lower bound  4.2 s", "verdict  trustworthy", "more"],
    ["demand  gpt", "more", "lower bound  4.2 s", "verdict  trustworthy"]])
def test_another_output_would_be_noticed(printed):
    shown = ["demand  gpt", "lower bound  4.2 s", "…", "verdict  trustworthy"]
    check(shown, ["demand  gpt", "lower bound  4.201 s", "measured  1 s", "verdict  not trustworthy: o1 late"])
    with pytest.raises(AssertionError):
        check(shown, printed)
