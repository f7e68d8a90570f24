#!/usr/bin/env bash
# Proves the set-up from nothing: makes a new Debian 12, runs vagrant/provision.sh in it, and there the default experiment and the
# unit tests; then boots it as a guest of qemu, with systemd and the kernel datapath, and runs experiment and tests again.
#
#   sudo tests/vm/prove.sh                    all of it (a quarter of an hour; needs mmdebstrap, qemu-system-x86, e2fsprogs)
#   sudo tests/vm/prove.sh --only-provision   only the set-up, the first and the second time
#   sudo tests/vm/prove.sh --only-chroot      that, and the experiment and the unit tests in it
#   … --suite trixie                          the same for another release (noble: Ubuntu 24.04)
set -euo pipefail

# In a mount namespace of its own, nothing stays mounted however it ends.
if [ -z "${SPECTRA_PROOF:-}" ]; then
    SPECTRA_PROOF=$(mktemp -d -p "${TMPDIR:-/var/tmp}" spectra-proof.XXXXXX)
    export SPECTRA_PROOF
    trap 'rm -rf --one-file-system "$SPECTRA_PROOF"' EXIT
    unshare --mount --propagation private "$0" "$@"
    exit
fi

clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
root=$SPECTRA_PROOF/root
suite=bookworm until=guest
while [ "$#" -gt 0 ]; do
    case $1 in
        --only-provision) until=provision ;;
        --only-chroot) until=chroot ;;
        --suite) suite=$2 && shift ;;
        *) echo "prove: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done

say() { printf 'prove: %s s: %s\n' "$SECONDS" "$*"; }

inside() { chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "${pip[@]}" "$@"; }

packages=ca-certificates
[ "$until" != guest ] || packages+=,linux-image-amd64,systemd-sysv,udev,kmod,sudo
say "making a minimal $suite"
mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$root"
mount --bind "$root" "$root" # a run makes its / private, which has to be a mount for that
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/run/lock" "$root/vagrant"
# What this machine needs to reach the outside, the new one needs too.
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/of-the-host.crt"
mapfile -t pip < <(env | grep -E '^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_INDEX_URL)=' || true)
pip+=(PIP_CERT=/etc/ssl/certs/of-the-host.crt)
git -c safe.directory="$clone" -C "$clone" archive HEAD | tar -x -C "$root/vagrant"

say "provisioning it"
inside /vagrant/vagrant/provision.sh --vm
say "provisioning it again, and checking"
newer_files() { inside find / -xdev -newer /opt/spectra-testbed/.venv/.complete -type f -not -path '/proc/*' | sort; }
before=$(newer_files)
start_ms=$(date +%s%3N)
inside /vagrant/vagrant/provision.sh --vm
again_ms=$(($(date +%s%3N) - start_ms))
after=$(newer_files)
[ "$before" = "$after" ] || { echo "prove: the second time changed something: $after" >&2; exit 1; }
inside /vagrant/vagrant/provision.sh --vm --check
say "the second time took $again_ms ms and changed nothing"
[ "$until" != provision ] || exit 0

say "the default experiment in it"
inside sh -c 'cd /vagrant && python testbed/doctor.py && python testbed/run.py --quiet'
say "the unit tests in it"
inside sh -c 'cd /vagrant && python -m pytest -q tests/unit'
[ "$until" != chroot ] || exit 0

say "making a guest of it"
cat >"$root/etc/systemd/system/spectra-proof.service" <<'UNIT'
[Unit]
Description=What tests/vm/prove.sh asks of a guest
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/vagrant/tests/vm/guest.sh
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStopPost=/usr/bin/systemctl poweroff --force

[Install]
WantedBy=default.target
UNIT
inside systemctl enable --quiet spectra-proof.service
echo spectra >"$root/etc/hostname"
echo '127.0.1.1 spectra' >>"$root/etc/hosts"
kernel=$(find "$root/boot" -name 'vmlinuz-*' | head -n 1)
initrd=${kernel/vmlinuz/initrd.img}
cp "$kernel" "$SPECTRA_PROOF/vmlinuz"
cp "$initrd" "$SPECTRA_PROOF/initrd"
umount -R "$root"
mke2fs -q -t ext4 -d "$root" "$SPECTRA_PROOF/disk" 6G
say "booting it"
timeout --foreground 3000 qemu-system-x86_64 \
    -machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 4096 -nodefaults -no-reboot -display none -serial stdio \
    -kernel "$SPECTRA_PROOF/vmlinuz" -initrd "$SPECTRA_PROOF/initrd" -append "root=/dev/vda rw console=ttyS0 quiet systemd.mask=serial-getty@ttyS0.service" \
    -drive "file=$SPECTRA_PROOF/disk,format=raw,if=virtio" </dev/null | tee "$SPECTRA_PROOF/console"
say "it is down"
grep -q 'guest: all is well' "$SPECTRA_PROOF/console"
