#!/usr/bin/env bash
# Sets up a machine for the testbed: Debian 12 or 13, Ubuntu 24.04. Quick the second time, and says what it changes.
#
#   sudo vagrant/provision.sh          packages of the distribution, and the environment .venv
#   sudo vagrant/provision.sh --ryu    also .venv-ryu, to run the controller on Ryu 4.34
#   sudo vagrant/provision.sh --tests  also Chromium, in which tests open the report
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Mininet from the distribution brings mnexec, which PyPI's does not.
packages=(ca-certificates ethtool iproute2 iputils-ping mininet openvswitch-switch python3 python3-venv tcpdump)

say() { printf 'provision: %s\n' "$*"; }
fail() { printf 'provision: %s\n' "$*" >&2; exit 1; }

with_ryu=0
with_tests=0
for argument in "$@"; do
    case $argument in
        --ryu) with_ryu=1 ;;
        --tests) with_tests=1 ;;
        *) fail "unknown option $argument; known: --ryu, --tests" ;;
    esac
done
[ "$(id -u)" -eq 0 ] || fail "root is needed to install packages: run it with sudo"

installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

install_packages() {
    local missing=() package had_ovs=1 policy=/usr/sbin/policy-rc.d made_policy=0
    for package in "${packages[@]}"; do
        installed "$package" || missing+=("$package")
    done
    [ "${#missing[@]}" -eq 0 ] && return
    say "installing ${missing[*]}"
    installed openvswitch-switch || had_ovs=0
    # The testbed starts an Open vSwitch of its own for every switch: a service that was not there is not started.
    if [ "$had_ovs" -eq 0 ] && [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        made_policy=1
    fi
    local status=0
    {
        apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    } >"$root/.provision.log" 2>&1 || status=$?
    [ "$made_policy" -eq 0 ] || rm -f "$policy"
    if [ "$status" -ne 0 ]; then
        tail -n 20 "$root/.provision.log" >&2
        fail "apt-get could not install ${missing[*]} (all of it in .provision.log)"
    fi
    rm -f "$root/.provision.log"
    if [ "$had_ovs" -eq 0 ] && command -v systemctl >/dev/null 2>&1; then
        systemctl disable -q openvswitch-switch ovs-record-hostname 2>/dev/null || true
    fi
}

# make_environment DIRECTORY STAMP COMMAND…: an environment that is made anew when what it is made from has changed.
make_environment() {
    local directory=$root/$1 stamp=$2
    shift 2
    if [ -f "$directory/.complete" ] && [ "$(cat "$directory/.complete")" = "$stamp" ]; then
        return
    fi
    say "making ${directory##*/}"
    rm -rf "$directory"
    # The distribution's own interpreter: the first python3 on PATH may be another, which does not see mininet.
    /usr/bin/python3 -m venv --system-site-packages "$directory"
    "$@" "$directory" || fail "could not fill ${directory##*/}"
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
    local directory=$1 log
    shift
    log=$(mktemp)
    if ! "$directory/bin/python" -m pip --disable-pip-version-check --quiet "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

if [ "$with_tests" -eq 1 ]; then
    # Ubuntu has it as a snap only, which cannot be driven from here: there the tests that need it are skipped.
    if grep -q '^ID=debian' /etc/os-release; then packages+=(chromium); else say "no Chromium on this distribution"; fi
fi
install_packages
version=$(/usr/bin/python3 --version)
stamp="$root $version $(cat "$root/setup.cfg" "$root/pyproject.toml" "${BASH_SOURCE[0]}" | sha256sum)"
make_environment .venv "$stamp" fill_venv
[ "$with_ryu" -eq 0 ] || make_environment .venv-ryu "$stamp" fill_venv_ryu
say "ready"
