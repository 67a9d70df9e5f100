#!/usr/bin/env bash
# Builds the packages into DIST from what is in this repository: dist.sh TARGET DIST
# A package whose toolchain is missing is told as SKIPPED. Times in archives are those of the last commit.
# ONLY="wheel jar" makes these parts alone anew, and leaves the others as they are: deb rpm static aarch64 image crates wheel go jar npm nuget.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "$1") dist=$(realpath -m "$2")
cargo=${CARGO:-cargo}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
export VERSION=$version
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 315532800)}
# PROFILE=dev packs what tests have built already: large and slow, to try the packing itself.
profile=${PROFILE:-release}
# Where it was built is not in it; of several that fit the last counts, and what build scripts write lies in the target folder.
[ "$profile" = dev ] || export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/barewire --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo \
--remap-path-prefix=$target/dist-build=/build"
only=${ONLY:-}
[ -n "$only" ] || rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

have() {
    local language=$1 tool
    shift
    for tool; do
        command -v "$tool" > /dev/null || { echo "SKIPPED: $language: $tool is not installed" >&2; return 1; }
    done
}

# part NAME: whether it is to be made.
part() { [ -z "$only" ] || [[ " $only " == *" $1 "* ]]; }

packed() { tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$1" -cf - "$2" | gzip -9n; }

licences() {
    mkdir -p "$1"
    cp LICENSE-MIT LICENSE-APACHE "$1"
}

# bill FILE MANIFEST PACKAGE...: what is linked into them.
bill() {
    if command -v python3 > /dev/null; then
        python3 packaging/sbom.py "${@:2}" > "$1"
    fi
}

# Its own folder: other flags than `make build` has would make everything anew there.
here=$target/dist-build native_here=$target/dist-build folder=release
[ "$profile" = release ] || { here=$target native_here=$target/bindings folder=debug; }
build() { CARGO_TARGET_DIR="$here" "$cargo" build --profile "$profile" --quiet "$@"; }

# What some parts need and others do not: all of the optimiser's time.
program() {
    local part
    [ -n "$only" ] || return 0
    for part in $only; do case $part in wheel | go | jar | npm | crates) ;; *) return 0 ;; esac; done
    return 1
}
if program; then
    echo "dist: program and C libraries" >&2
    # The program for itself: libraries must not bring it features.
    build --locked --package barewire-cli
    build --locked --package barewire-ffi --package barewire-feed-ffi --package barewire-verbs-ffi --package barewire-machnet-shim
fi
built=$here/$folder

# Into a prefix: what the tarball and the Debian packages have in common.
install_into() {
    local prefix=$1 share=$1/share
    mkdir -p "$prefix/bin" "$share"/{man/man1,doc/barewire/examples} \
        "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
    install -m 755 "$built/barewire" "$prefix/bin/"
    strip --strip-unneeded "$prefix/bin/barewire"
    "$built/barewire" --quiet man --out "$share/man/man1"
    gzip -9n "$share"/man/man1/*
    "$built/barewire" completions bash > "$share/bash-completion/completions/barewire"
    "$built/barewire" completions zsh > "$share/zsh/site-functions/_barewire"
    "$built/barewire" completions fish > "$share/fish/vendor_completions.d/barewire.fish"
    STRIP=strip packaging/c-libraries.sh "$built" "$prefix" "$version"
    cp bindings/c/examples/{echo,books}.c bindings/cpp/examples/{echo,bench}.cpp "$share/doc/barewire/examples/"
    cp bindings/c/README.md "$share/doc/barewire/README-c.md"
    cp bindings/cpp/README.md "$share/doc/barewire/README-cpp.md"
    cp CHANGELOG.md "$share/doc/barewire/"
    licences "$share/doc/barewire"
    bill "$share/doc/barewire/sbom.cdx.json" Cargo.toml barewire-cli barewire-ffi barewire-feed-ffi barewire-verbs-ffi
}

base=barewire-$version-linux-$machine
if program; then
    install_into "$work/tar/$base"
    packed "$work/tar" "$base" > "$dist/$base.tar.gz"
fi

if part deb && have "Debian packages" dpkg-deb; then
    echo "dist: Debian packages" >&2
    architecture=$(dpkg --print-architecture)
    # deb PACKAGE DESCRIPTION DEPENDS: what lies in $work/PACKAGE.
    deb() {
        local root=$work/$1
        mkdir -p "$root/DEBIAN"
        cat > "$root/DEBIAN/control" <<CONTROL
Package: $1
Version: $version
Architecture: $architecture
Section: net
Priority: optional
Maintainer: The barewire authors <barewire@localhost>
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Depends: $3
Description: $2
CONTROL
        find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
        dpkg-deb --root-owner-group --build "$root" "$dist/$1_${version}_$architecture.deb" > /dev/null
    }
    libc="libc6 (>= 2.34), libgcc-s1"
    all=$work/all/usr
    mkdir -p "$work/all"
    install_into "$all"
    mkdir -p "$work"/{barewire,libbarewire,libbarewire-dev}/usr/{lib,share/doc} "$work"/barewire/usr/lib/{systemd/system,sysusers.d}
    mv "$all/bin" "$work/barewire/usr/"
    mv "$all"/share/{man,bash-completion,zsh,fish} "$work/barewire/usr/share/"
    sed 's#/usr/local/bin/#/usr/bin/#' 'packaging/barewire@.service' > "$work/barewire/usr/lib/systemd/system/barewire@.service"
    cp packaging/barewire.sysusers "$work/barewire/usr/lib/sysusers.d/barewire.conf"
    mkdir -p "$work/libbarewire-dev/usr/share/doc/libbarewire-dev"
    mv "$all"/share/doc/barewire/{examples,README-c.md,README-cpp.md} "$work/libbarewire-dev/usr/share/doc/libbarewire-dev/"
    mv "$all/share/doc/barewire" "$work/barewire/usr/share/doc/"
    mkdir -p "$work/barewire/usr/share/doc/barewire/examples"
    cp packaging/barewire.toml "$work/barewire/usr/share/doc/barewire/examples/"
    mv "$all/include" "$work/libbarewire-dev/usr/"
    mv "$all"/lib/{pkgconfig,cmake,*.a} "$work/libbarewire-dev/usr/lib/"
    mv "$all"/lib/*.so "$work/libbarewire/usr/lib/"
    licences "$work/libbarewire/usr/share/doc/libbarewire"
    licences "$work/libbarewire-dev/usr/share/doc/libbarewire-dev"
    deb barewire "low-latency network data plane: messages, P4 switch, market data, RDMA" "$libc"
    deb libbarewire "libraries of barewire for C and what is built on them" "$libc"
    deb libbarewire-dev "headers and static libraries of barewire for C and C++" "libbarewire (= $version)"
fi

# The same files as the Debian packages', in one package and its -devel.
if part rpm && have "RPM packages" rpmbuild; then
    echo "dist: RPM packages" >&2
    root=$work/rpm
    install_into "$root/usr"
    mkdir -p "$root/usr/lib/systemd/system" "$root/usr/lib/sysusers.d" "$root/usr/share/doc/barewire/examples"
    sed 's#/usr/local/bin/#/usr/bin/#' 'packaging/barewire@.service' > "$root/usr/lib/systemd/system/barewire@.service"
    cp packaging/barewire.sysusers "$root/usr/lib/sysusers.d/barewire.conf"
    cp packaging/barewire.toml "$root/usr/share/doc/barewire/examples/"
    mkdir -p "$root/usr/lib64"
    mv "$root"/usr/lib/{pkgconfig,cmake,*.so,*.a} "$root/usr/lib64/"
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    # Nothing of the machine: neither its name, nor its time, nor what its own scripts would do to the files.
    rpmbuild -bb --quiet --buildroot "$work/rpm-root" --define "_topdir $work/rpmbuild" --define "_rpmdir $work/rpms" --define "root $root" \
        --define "version_ $version" --define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" \
        --define "clamp_mtime_to_source_date_epoch 1" --define "_build_id_links none" --define "__os_install_post %{nil}" \
        packaging/barewire.spec
    find "$work/rpms" -name '*.rpm' -exec cp {} "$dist/" \;
fi

# What crates.io would be given: all crates but those that are for other languages and for tests.
if part crates && have crates python3; then
    echo "dist: crates" >&2
    # Each is built where `cargo publish --dry-run` is run; here they are packed.
    CARGO_TARGET_DIR="$here" "$cargo" package --workspace --quiet --locked --no-verify --allow-dirty \
        $(python3 packaging/publishable.py Cargo.toml)
    mkdir -p "$dist/crates"
    rm -f "$dist"/crates/*
    cp "$here/package"/barewire-*-"$version".crate "$dist/crates/"
fi

# Native parts of bindings, in the bindings' own workspace.
native() {
    CARGO_TARGET_DIR="$native_here" "$cargo" build --profile "$profile" --quiet --locked --manifest-path bindings/Cargo.toml --package "$1"
    strip --strip-unneeded -o "$3" "$native_here/$folder/$2"
}

if part wheel && have Python python3; then
    echo "dist: Python wheel" >&2
    # Its version is in the wheel.
    right_maturin() { [ "$("$1" --version 2> /dev/null)" = "maturin 1.16.0" ]; }
    maturin=maturin
    if ! right_maturin "$maturin"; then
        maturin=$target/dist-tools/bin/maturin
        right_maturin "$maturin" || { python3 -m venv "$target/dist-tools" && "$target/dist-tools/bin/pip" install --quiet maturin==1.16.0; }
    fi
    cp LICENSE-MIT LICENSE-APACHE bindings/python/
    (cd bindings/python && CARGO_TARGET_DIR="$native_here" "$maturin" build --quiet --locked --profile "$profile" --strip --out "$dist") || \
        { rm -f bindings/python/LICENSE-*; exit 1; }
    rm -f bindings/python/LICENSE-*
fi

if part go && have Go python3; then
    echo "dist: Go module" >&2
    python3 packaging/gozip.py bindings/go LICENSE-MIT LICENSE-APACHE "$dist/go"
fi

if part jar && have Java javac jar; then
    echo "dist: Java jar" >&2
    classes=$work/java
    mkdir -p "$classes/dev/barewire/native/linux-$machine"
    native barewire-java libbarewire_java.so "$classes/dev/barewire/native/linux-$machine/libbarewire_java.so"
    find bindings/java/src/main/java -name '*.java' | sort > "$work/java.sources"
    javac --release 17 -Xlint:all -Werror -d "$classes" "@$work/java.sources"
    licences "$classes/META-INF"
    bill "$classes/META-INF/sbom.cdx.json" bindings/Cargo.toml barewire-java
    cp bindings/java/README.md "$classes/META-INF/"
    # `bench bindings` compiles it where there is Aeron, which the package does not need.
    mkdir -p "$classes/META-INF/examples"
    cp bindings/java/src/beside/java/dev/barewire/examples/BenchAeron.java "$classes/META-INF/examples/"
    maven=$dist/maven/dev/barewire/barewire/$version
    mkdir -p "$maven"
    when=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    printf 'Automatic-Module-Name: dev.barewire\nImplementation-Version: %s\n' "$version" > "$work/manifest"
    (cd "$classes" && find . -type f | sed 's#^\./##' | LC_ALL=C sort > "$work/java.files")
    (cd "$classes" && jar --create --file "$maven/barewire-$version.jar" --manifest "$work/manifest" --date "$when" "@$work/java.files")
    sed "s/@VERSION@/$version/" bindings/java/pom.xml.in > "$maven/barewire-$version.pom"
fi

if part npm && have Node node npm; then
    echo "dist: npm package" >&2
    package=$work/node
    mkdir -p "$package/native"
    cp -r bindings/node/{index.js,index.d.ts,package.json,README.md,examples} "$package/"
    licences "$package"
    arch=$(node -p process.arch)
    mkdir -p "$package/native/linux-$arch"
    native barewire-node libbarewire_node.so "$package/native/linux-$arch/barewire.node"
    bill "$package/sbom.cdx.json" bindings/Cargo.toml barewire-node
    (cd "$package" && npm pack --silent --pack-destination "$dist" > /dev/null)
fi

if part nuget && have "C#" mcs; then
    echo "dist: NuGet folder" >&2
    nuget=$dist/nuget/barewire.$version
    mkdir -p "$nuget/lib/netstandard2.0" "$nuget/runtimes/linux-x64/native"
    # What -deterministic does not cover: the documentation, which has no times.
    mcs -deterministic -warn:4 -warnaserror -unsafe -optimize -target:library -r:System.Core.dll -doc:"$nuget/lib/netstandard2.0/Barewire.xml" \
        -out:"$nuget/lib/netstandard2.0/Barewire.dll" bindings/csharp/{Barewire,Spans}.cs
    # For .NET, whose compiler finds spans in it.
    mkdir -p "$nuget/src"
    cp bindings/csharp/{Barewire,Spans}.cs "$nuget/src/"
    cp "$work/tar/$base/lib/libbarewire.so" "$nuget/runtimes/linux-x64/native/"
    sed "s/@VERSION@/$version/" bindings/csharp/barewire.nuspec.in > "$nuget/barewire.nuspec"
    cp bindings/csharp/README.md "$nuget/"
    bill "$nuget/sbom.cdx.json" Cargo.toml barewire-ffi
    mkdir -p "$nuget/examples"
    cp bindings/csharp/examples/{Bench,Echo}.cs "$nuget/examples/"
    licences "$nuget"
fi

# One file without any library, for any distribution.
musl=$machine-unknown-linux-musl
static=$here/$musl/$folder/barewire
has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ] || { echo "SKIPPED: $2: rustup target add $1" >&2; return 1; }; }
if part static || part image; then
    if have "static binary" musl-gcc && has_target "$musl" "static binary"; then
        echo "dist: static binary" >&2
        export "CC_${musl//-/_}=musl-gcc"
        build --locked --package barewire-cli --target "$musl"
        name=barewire-$version-linux-$machine-musl
        mkdir -p "$work/static/$name"
        strip --strip-unneeded -o "$work/static/$name/barewire" "$static"
        licences "$work/static/$name"
        cp "$work/tar/$base/share/doc/barewire/sbom.cdx.json" "$work/static/$name/" 2> /dev/null || true
        packed "$work/static" "$name" > "$dist/$name.tar.gz"
    fi
fi

# An image with nothing but that file, as an OCI archive, and the compose file that uses it.
if part image && [ -e "$work/static" ] && have "container image" buildah; then
    echo "dist: container image" >&2
    store=(--root "$work/storage" --runroot "$work/storage-run" --storage-driver vfs)
    export BUILDAH_ISOLATION=chroot
    mkdir -p "$work/tree/run/barewire"
    chmod 1777 "$work/tree/run/barewire"
    cp "$work/static/barewire-$version-linux-$machine-musl/barewire" "$work/tree/barewire"
    find "$work/tree" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
    container=$(buildah "${store[@]}" from scratch)
    buildah "${store[@]}" copy --quiet "$container" "$work/tree" / > /dev/null
    # As in packaging/Containerfile.
    buildah "${store[@]}" config --entrypoint '["/barewire"]' --cmd --help --env XDG_RUNTIME_DIR=/run/barewire \
        --env BAREWIRE_SOCKET=/run/barewire/barewire.sock --volume /run/barewire --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.licenses=MIT OR Apache-2.0" "$container"
    buildah "${store[@]}" commit --quiet --timestamp "$SOURCE_DATE_EPOCH" --format oci "$container" "barewire:$version" > /dev/null
    buildah "${store[@]}" push --quiet "barewire:$version" "oci:$work/image:barewire:$version"
    # The order of its files is ours, as their times are.
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$work/image" \
        -cf "$dist/barewire-$version-image.oci.tar" oci-layout index.json blobs
    cp packaging/compose.yaml "$dist/"
    chmod -R u+w "$work/storage"
fi

# Program and libraries for another machine, by its own linker.
if part aarch64 && [ "$machine" != aarch64 ]; then
    other=aarch64-unknown-linux-gnu
    if have "aarch64" aarch64-linux-gnu-gcc && has_target "$other" "aarch64"; then
        echo "dist: aarch64" >&2
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
        build --locked --package barewire-cli --target "$other"
        build --locked --package barewire-ffi --target "$other"
        name=barewire-$version-linux-aarch64
        mkdir -p "$work/cross/$name/bin"
        aarch64-linux-gnu-strip --strip-unneeded -o "$work/cross/$name/bin/barewire" "$here/$other/$folder/barewire"
        STRIP=aarch64-linux-gnu-strip packaging/c-libraries.sh "$here/$other/$folder" "$work/cross/$name" "$version" barewire
        # What is the same on every machine.
        cp -r "$work/tar/$base/share" "$work/cross/$name/"
        packed "$work/cross" "$name" > "$dist/$name.tar.gz"
    fi
fi

(cd "$dist" && find . -type f ! -name SHA256SUMS | sed 's#^\./##' | LC_ALL=C sort | xargs -d '\n' sha256sum > SHA256SUMS)
cat "$dist/SHA256SUMS"
