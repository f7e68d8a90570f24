"""The set-up's own files: what can be told of them without setting anything up."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROVISION = str(ROOT / "vagrant" / "provision.sh")


def provision(*arguments, **options):
    return subprocess.run([PROVISION, *arguments], capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shell_scripts_have_no_findings():
    scripts = [PROVISION, str(ROOT / ".ci" / "run"), *map(str, sorted((ROOT / "tests" / "vm").glob("*.sh")))]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_unknown_options_are_refused():
    done = provision("--rye")
    assert done.returncode == 1 and "unknown option --rye" in done.stderr


def test_check_reports_and_changes_nothing(tmp_path):
    copy = tmp_path / "clone"
    (copy / "vagrant").mkdir(parents=True)
    for name in ("setup.cfg", "pyproject.toml", "vagrant/provision.sh"):
        shutil.copy(ROOT / name, copy / name)
    done = subprocess.run([str(copy / "vagrant" / "provision.sh"), "--check"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert f"to be made: {copy}/.venv" in done.stdout and "not ready" in done.stderr
    assert sorted(path.name for path in copy.rglob("*") if path.is_file()) == ["provision.sh", "pyproject.toml", "setup.cfg"]


def test_every_package_is_pinned_once():
    text = (ROOT / "setup.cfg").read_text()
    pins = re.findall(r"^    ([A-Za-z0-9_.-]+)==", text, re.MULTILINE)
    names = [re.sub("[_.-]+", "-", name).lower() for name in pins]
    assert len(names) > 60 and len(set(names)) == len(names)


@pytest.mark.skipif(not shutil.which("ruby"), reason="ruby is not installed")
def test_vagrantfile_is_ruby():
    done = subprocess.run(["ruby", "-c", str(ROOT / "vagrant" / "Vagrantfile")], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "Syntax OK", done.stderr


@pytest.mark.skipif(not shutil.which("vagrant"), reason="vagrant is not installed")
@pytest.mark.parametrize("sizes", [{}, {"SPECTRA_CPUS": "4", "SPECTRA_MEMORY_MB": "8192", "SPECTRA_PROVISION": "--ryu --tests"}])
def test_vagrantfile_validates(tmp_path, sizes):
    shutil.copy(ROOT / "vagrant" / "Vagrantfile", tmp_path)
    done = subprocess.run(["vagrant", "validate", "--ignore-provider"], capture_output=True, text=True, check=False, cwd=tmp_path,
                          env={**os.environ, **sizes, "VAGRANT_HOME": str(tmp_path / "home")}, timeout=120)
    assert done.returncode == 0 and "validated successfully" in done.stdout, done.stderr
