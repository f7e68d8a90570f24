#!/usr/bin/env bash
# Sets up a machine for the testbed: Debian 12 or 13, Ubuntu 24.04. Quick the second time, and says what it changes.
#
#   sudo vagrant/provision.sh          packages of the distribution, and the environment .venv
#   sudo vagrant/provision.sh --ryu    also .venv-ryu, to run the controller on Ryu 4.34
#   sudo vagrant/provision.sh --tests  also what tests need: Chromium, in which they open the report, mmdebstrap, shellcheck
#   sudo vagrant/provision.sh --vm     for a VM of its own: environments in /opt/spectra-testbed, as the clone may be on a folder
#                                      that is shared with another system, and /usr/local/bin/python runs them, also under sudo
#        vagrant/provision.sh --check  says what is missing, and changes nothing; with the options above
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Mininet from the distribution brings mnexec, which PyPI's does not.
packages=(ca-certificates ethtool iproute2 iputils-ping mininet openvswitch-switch python3 python3-venv tcpdump)
environments=$root
launcher=/usr/local/bin/python

say() { printf 'provision: %s\n' "$*"; }
fail() { printf 'provision: %s\n' "$*" >&2; exit 1; }

with_ryu=0 with_tests=0 in_vm=0 only_check=0
for argument in "$@"; do
    case $argument in
        --ryu) with_ryu=1 ;;
        --tests) with_tests=1 ;;
        --vm) in_vm=1 environments=/opt/spectra-testbed ;;
        --check) only_check=1 ;;
        *) fail "unknown option $argument; known: --ryu, --tests, --vm, --check" ;;
    esac
done
[ "$only_check" -eq 1 ] || [ "$(id -u)" -eq 0 ] || fail "root is needed to install packages: run it with sudo"
command -v apt-get >/dev/null || fail "this is neither Debian nor Ubuntu: there is no apt-get"

missing_packages() {
    local package
    for package in "${packages[@]}"; do
        dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || printf '%s\n' "$package"
    done
}

install_packages() {
    local had_ovs=1 policy=/usr/sbin/policy-rc.d made_policy=0 status=0 log
    [ "$#" -gt 0 ] || return 0
    say "installing $*"
    [[ " $* " != *" openvswitch-switch "* ]] || had_ovs=0
    # The testbed starts an Open vSwitch of its own for every switch: a service that was not there is not started.
    if [ "$had_ovs" -eq 0 ] && [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        made_policy=1
    fi
    log=$(mktemp)
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
        >"$log" 2>&1 || status=$?
    [ "$made_policy" -eq 0 ] || rm -f "$policy"
    if [ "$status" -ne 0 ]; then
        tail -n 20 "$log" >&2
        fail "apt-get could not install $* (all that it said is in $log)"
    fi
    rm -f "$log"
    if [ "$had_ovs" -eq 0 ] && command -v systemctl >/dev/null 2>&1; then
        systemctl disable -q openvswitch-switch ovs-record-hostname 2>/dev/null || true
    fi
}

# made DIRECTORY: whether an environment is there, and made from what it would be made from now.
made() { [ -f "$1/.complete" ] && [ "$(cat "$1/.complete")" = "$stamp" ]; }

# make_environment DIRECTORY COMMAND…: an environment that is made anew when what it is made from has changed.
make_environment() {
    local directory=$1
    shift
    if made "$directory"; then return; fi
    say "making $directory"
    rm -rf "$directory"
    mkdir -p "$(dirname "$directory")"
    # The distribution's own interpreter: the first python3 on PATH may be another, which does not see mininet.
    /usr/bin/python3 -m venv --system-site-packages "$directory"
    "$@" "$directory" || fail "could not fill $directory"
    printf '%s\n' "$stamp" >"$directory/.complete"
}

fill_venv() { quiet_pip "$1" install --editable "${root}[test]"; }

# Ryu 4.34 is built by tools of its time; the pins are in setup.cfg.
fill_venv_ryu() {
    quiet_pip "$1" install 'pip==23.0.1' 'setuptools==67.6.1' 'wheel==0.40.0' &&
        quiet_pip "$1" install --no-build-isolation "$(pin ryu)" "$(pin numpy)"
}

# pin NAME: the line NAME==VERSION of setup.cfg.
pin() { sed -n "s/^ *\($1==.*\)/\1/p" "$root/setup.cfg" | head -n 1; }

quiet_pip() {
    local directory=$1 log constraints status=0
    shift
    log=$(mktemp) constraints=$(mktemp)
    sed -n '/^constraints =/,/^$/s/^ \+//p' "$root/setup.cfg" >"$constraints"
    "$directory/bin/python" -m pip --disable-pip-version-check --quiet "$@" --constraint "$constraints" >"$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || tail -n 20 "$log" >&2
    rm -f "$log" "$constraints"
    return "$status"
}

launcher_text() { printf '#!/bin/sh\n# For the Spectra testbed, by its vagrant/provision.sh --vm.\nexec %s/.venv/bin/python "$@"\n' "$environments"; }
launched() { [ -x "$launcher" ] && [ "$(cat "$launcher")" = "$(launcher_text)" ]; }

write_launcher() {
    if launched; then return; fi
    if [ -e "$launcher" ] && ! grep -q 'provision.sh --vm' "$launcher"; then fail "$launcher is there already, and not from here: --vm is for a VM of its own"; fi
    say "writing $launcher"
    launcher_text >"$launcher"
    chmod 755 "$launcher"
}

if [ "$with_tests" -eq 1 ]; then
    packages+=(mmdebstrap shellcheck)
    # Ubuntu has it as a snap only, which cannot be driven from here: there the tests that need it are skipped.
    if grep -q '^ID=debian' /etc/os-release; then packages+=(chromium); else say "no Chromium on this distribution"; fi
fi
wanted=("$environments/.venv")
[ "$with_ryu" -eq 0 ] || wanted+=("$environments/.venv-ryu")
mapfile -t missing < <(missing_packages)
if [ "$only_check" -eq 0 ]; then install_packages "${missing[@]}"; fi
stamp="$root $(/usr/bin/python3 --version 2>/dev/null) $(cat "$root/setup.cfg" "$root/pyproject.toml" "${BASH_SOURCE[0]}" | sha256sum)"

if [ "$only_check" -eq 1 ]; then
    lacking=0
    if [ "${#missing[@]}" -gt 0 ]; then say "missing: ${missing[*]}"; lacking=1; fi
    for directory in "${wanted[@]}"; do
        if ! made "$directory"; then say "to be made: $directory"; lacking=1; fi
    done
    if [ "$in_vm" -eq 1 ] && ! launched; then say "to be written: $launcher"; lacking=1; fi
    if [ "$lacking" -eq 1 ]; then fail "not ready: run it without --check, with sudo"; fi
    say "ready"
    exit 0
fi
make_environment "$environments/.venv" fill_venv
[ "$with_ryu" -eq 0 ] || make_environment "$environments/.venv-ryu" fill_venv_ryu
[ "$in_vm" -eq 0 ] || write_launcher
say "ready"
