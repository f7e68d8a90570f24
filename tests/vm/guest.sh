#!/usr/bin/env bash
# What tests/vm/prove.sh has a guest do once it has booted: emulated, it is slow, and so is the time scale.
set -uo pipefail
cd /vagrant || exit 1

say() { printf '\nguest: %s s: %s\n' "$SECONDS" "$*"; }

say "what it is: $(uname -r), $(systemctl is-system-running)"
systemctl is-enabled openvswitch-switch
python testbed/doctor.py
say "the default demand on the kernel datapath"
sudo python testbed/run.py --datapath kernel --rate 2Mbit --period 40s --delta 100ms --quiet --out /root/run
status=$?
say "that ended with status $status"
say "end-to-end tests of both datapaths"
sudo python -m pytest -q -rA tests/e2e/test_run.py -k "datapath or link_delay"
tested=$?
say "they ended with status $tested"
if { [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } && [ "$tested" -eq 0 ]; then echo "guest: all is well"; fi
