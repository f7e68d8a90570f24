"""Calibration on the real thing."""

import json
import subprocess
import sys

from tests.e2e.conftest import ROOT, TIMEOUT_S

CALIBRATE = str(ROOT / "testbed" / "calibrate.py")


def test_kept_calibration_is_sane_and_shown():
    shown = subprocess.run([sys.executable, CALIBRATE, "--show"], capture_output=True, text=True, timeout=TIMEOUT_S,
                           cwd=ROOT, check=True).stdout
    assert "smallest honest δ" in shown
    path = shown.rsplit("kept in ", 1)[1].strip()
    with open(path, encoding="utf-8") as stream:
        kept = json.load(stream)
    assert [(trial["hosts"], trial["switches"]) for trial in kept["trials"]] == [(8, 2), (32, 4), (100, 4)]
    for trial in kept["trials"]:
        assert -0.001 < trial["down_p50_s"] < 0.05 and -0.001 < trial["up_p50_s"] < 0.05
        assert trial["packets_per_s"] >= 3000
