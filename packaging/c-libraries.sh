#!/usr/bin/env bash
# Installs the C libraries with what compilers ask for: c-libraries.sh BUILT PREFIX VERSION [LIBRARY...]
#   BUILT/libNAME.so, libNAME.a -> PREFIX/lib        headers -> PREFIX/include
#   PREFIX/lib/pkgconfig/NAME.pc, PREFIX/lib/cmake/barewire: whatever is moved as a whole is still found
# LIBRARY: barewire bwfeed bwverbs; without any, all three. STRIP=strip: without names that nobody links by.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
built=$1 prefix=$2 version=$3
shift 3
[ $# != 0 ] || set -- barewire bwfeed bwverbs
lib=$prefix/lib
install -d "$lib/pkgconfig" "$lib/cmake/barewire" "$prefix/include"

describe() {
    case $1 in
        barewire) echo "Low-latency messages" ;;
        bwfeed) echo "Market data: CME MDP 3.0" ;;
        bwverbs) echo "RDMA connections over UDP" ;;
    esac
}

for name; do
    [ -e "$built/lib$name.so" ] && [ -e "$built/lib$name.a" ] || { echo "error: $built/lib$name.so or .a is not there: make lib" >&2; exit 1; }
    install -m 755 "$built/lib$name.so" "$lib/"
    install -m 644 "$built/lib$name.a" "$lib/"
    if [ -n "${STRIP:-}" ]; then
        "$STRIP" --strip-unneeded "$lib/lib$name.so"
        "$STRIP" --strip-debug --enable-deterministic-archives "$lib/lib$name.a"
    fi
    # What Rust's own library needs of the system, for those who link it statically.
    cat > "$lib/pkgconfig/$name.pc" <<PC
prefix=\${pcfiledir}/../..
libdir=\${pcfiledir}/..
includedir=\${prefix}/include

Name: $name
Description: $(describe "$name")
Version: $version
Libs: -L\${libdir} -l$name
Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
Cflags: -I\${includedir}
PC
done
install -m 644 "$here"/bindings/c/{barewire,bwfeed,bwverbs,machnet}.h "$here/bindings/cpp/barewire.hpp" "$prefix/include/"
install -m 644 "$here/packaging/barewire-config.cmake" "$lib/cmake/barewire/"
sed "s/@VERSION@/$version/" "$here/packaging/barewire-config-version.cmake.in" > "$lib/cmake/barewire/barewire-config-version.cmake"
