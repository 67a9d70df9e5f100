#!/usr/bin/env bash
# Runs the tests of the switch's kernel engine under an older kernel, Debian's own, in QEMU: run.sh TARGET [TEST...]
# The verifier, the hooks and the maps of another kernel than this machine's decide. Needs what `make peers` installs, iproute2 and
# ethtool; KERNEL=FILE.deb takes another kernel package, KERNEL=bzImage a kernel with sch_ingress, cls_bpf, veth, devtmpfs and gzip built
# in (an upstream one: x86_64_defconfig with these and BPF). Emulated, so slow: from five minutes for some tests to an hour for all.
# With `../shared/data`, its programs are judged, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath "$1")
shift
binaries=(kernel kernel_live kernel_tc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in qemu-system-x86_64 cpio apt-get dpkg-deb ip tc ethtool; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" > /dev/null || {
        echo "error: $tool is not installed" >&2
        echo "hint: make peers, iproute2, ethtool" >&2
        exit 1
    }
done

# The kernel, and the modules that it does not carry inside.
if [ -z "${KERNEL:-}" ]; then
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -n 1)
    (cd "$work" && apt-get download -qq "$package" 2> /dev/null)
    KERNEL=$(echo "$work"/linux-image-*.deb)
fi
case $KERNEL in
    *.deb)
        dpkg-deb -x "$KERNEL" "$work/kernel"
        modules=$(echo "$work"/kernel/lib/modules/*/kernel)
        KERNEL=$(echo "$work"/kernel/boot/vmlinuz-*)
        ;;
    *) modules= ;;
esac
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,modules,tests,lib/x86_64-linux-gnu,lib64}
for module in ${modules:+net/sched/sch_ingress net/sched/cls_bpf drivers/net/veth}; do
    # Later Debian packages compress them.
    for file in "$modules/$module".ko*; do
        case $file in *.xz) xz -dc "$file" > "$root/modules/${module##*/}.ko" ;; *) cp "$file" "$root/modules/" ;; esac
    done
done

# The programs, with the libraries that they are linked to.
copy() {
    local library
    cp -L "$1" "$2"
    { ldd "$1" 2> /dev/null || true; } | grep -o '/[^ ]*' | while read -r library; do cp -L -n "$library" "$root/lib/x86_64-linux-gnu/"; done
}
(cd "$work" && apt-get download -qq busybox-static 2> /dev/null)
dpkg-deb -x "$work"/busybox-static_*.deb "$work/busybox"
cp "$work/busybox/bin/busybox" "$root/bin/busybox"
for name in sh mount insmod cat ls sleep ifconfig poweroff echo mkdir cut uname; do ln -s busybox "$root/bin/$name"; done
for tool in ip tc ethtool; do copy "$(PATH=$PATH:/usr/sbin:/sbin command -v "$tool")" "$root/bin/$tool"; done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
# Where cargo says they are, so that nothing old is run.
for name in "${binaries[@]}"; do
    file=$("${CARGO:-cargo}" test --workspace --test "$name" --no-run --message-format json 2> /dev/null \
        | grep '"name":"'"$name"'"' | grep 'services/switch/' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1) || file=
    [ -n "$file" ] || { echo "error: the tests of $name were not built" >&2; exit 1; }
    case $file in "$target"/*) ;; *) echo "note: $file is not in $target" >&2 ;; esac
    copy "$file" "$root/tests/$name"
done
# What they read, in the same places.
here=$PWD
for part in Cargo.toml programs tests crates/services/switch/tests; do
    mkdir -p "$root$here/$(dirname "$part")"
    cp -r "$part" "$root$here/$part"
done
has=root,xdp
if [ -d ../shared/data ]; then
    mkdir -p "$root$(realpath ..)/shared"
    cp -r ../shared/data "$root$(realpath ..)/shared/"
    has+=,shared
fi

cat > "$root/init" << INIT
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /run/netns
ifconfig lo up
for module in /modules/*.ko; do insmod \$module; done
export PATH=/bin HOME=/tmp BAREWIRE_REQUIRE=$has
cd $here/crates/services/switch
echo "Linux \$(uname -r)"
for name in ${binaries[*]}; do /tests/\$name --test-threads=1 $* 2>&1; done
echo "=END"
poweroff -f
INIT
chmod 755 "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$work/initrd.gz"
qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 4096 -display none -serial stdio -monitor none -no-reboot -nic none \
    -kernel "$KERNEL" -initrd "$work/initrd.gz" -append "console=ttyS0 panic=-1 quiet mitigations=off" \
    < /dev/null | stdbuf -oL tr -d '\r' | tee "$work/said"
# Each of them ended, and none failed.
grep -q '^=END' "$work/said" && [ "$(grep -c '^test result: ok' "$work/said")" = "${#binaries[@]}" ]
