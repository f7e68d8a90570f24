"""The report of a large run: how large it is, how long it takes to build, and to open in Chromium.

    sudo .venv/bin/python tests/bench/report.py
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser import Browser  # noqa: E402

TIMES = 5


def main():
    """Run once, then build and open the report several times."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([sys.executable, str(ROOT / "testbed" / "run.py"), "--demand", "benchmark", "--hosts", "100", "--switches", "4",
                        "--out", str(folder / "run"), "--quiet"], stdout=subprocess.DEVNULL, check=False)
        built_s = []
        for _ in range(TIMES):
            start_s = time.monotonic()
            subprocess.run([sys.executable, str(ROOT / "testbed" / "report.py"), str(folder / "run")], stdout=subprocess.DEVNULL,
                           check=True)
            built_s.append(time.monotonic() - start_s)
        page = folder / "run" / "report.html"
        (folder / "profile").mkdir()
        with Browser(folder / "profile") as browser:
            opened_s = [browser.open(page, 1600) for _ in range(TIMES)]
        print(f"report of 100 × 4: {page.stat().st_size / 1e6:.2f} MB")
        for name, values in (("built", built_s), ("opened", opened_s)):
            print(f"{name}: {statistics.median(values):.2f} s median, {max(values):.2f} s at most, of {TIMES}")


if __name__ == "__main__":
    main()
