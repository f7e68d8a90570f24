#!/usr/bin/env bash
# What tests/vm/prove.sh has a guest do once it has booted: emulated, it is slow, and so is the time scale.
set -uo pipefail
cd /vagrant || exit 1
export TERM=dumb

say() { printf '\nguest: %s s: %s\n' "$SECONDS" "$*"; }

say "what it is: $(uname -r), $(systemctl is-system-running)"
systemctl is-enabled openvswitch-switch
python testbed/doctor.py
say "calibrating both datapaths"
sudo python testbed/calibrate.py
say "the default demand on the kernel datapath"
sudo python testbed/run.py --datapath kernel --rate 2Mbit --period 40s --delta 100ms --quiet --out /root/run
status=$?
say "that ended with status $status"
say "end-to-end tests of the kernel datapath, and of the link delay"
sudo python -m pytest -q -rA --color=no --tb=short tests/e2e/test_run.py -k "datapath and kernel or link_delay"
tested=$?
say "they ended with status $tested"
if { [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } && [ "$tested" -eq 0 ]; then echo "guest: all is well"; fi
