#!/usr/bin/env bash
# Installs each package of DIST into a clean place, runs the hello-world of its own README over two daemons of the packaged program, and
# removes it again: dist-test.sh DIST [WORD], where only packages with the word in their names are of interest.
# The two daemons are on one link in the temporary folder; nothing of the machine is touched.
set -euo pipefail
dist=$(realpath "$1")
repository=$(realpath "$(dirname "$0")/..")
only=${2:-}
work=$(mktemp -d)
pids=()
failed=0
# By their numbers, and in any case.
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2> /dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

# line FILE TEXT PID: waits until a line with the text is there.
line() {
    local n
    for ((n = 0; n < 3000; n++)); do
        grep -q -- "$2" "$1" 2> /dev/null && return
        kill -0 "$3" 2> /dev/null || break
        sleep 0.1
    done
    echo "error: no line with '$2':" >&2
    cat "$1" >&2
    return 1
}

tarball=$(echo "$dist"/barewire-*-linux-"$(uname -m)".tar.gz)
prefix=$work/prefix
mkdir "$prefix"
tar -xzf "$tarball" -C "$prefix" --strip-components 1
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)

for host in 1 2; do
    other=$((3 - host))
    "$prefix/bin/barewire" --quiet up --port "unix:$work/link$host,$work/link$other" --ipv4 "10.0.0.$host/24" --socket "$work/$host.sock" \
        --name "dist-test-$$-$host" > "$work/daemon$host.log" 2>&1 &
    pids+=($!)
done
for host in 1 2; do
    for ((n = 0; n < 3000; n++)); do
        [ -S "$work/$host.sock" ] && break
        kill -0 "${pids[$((host - 1))]}" 2> /dev/null || { cat "$work/daemon$host.log" >&2; exit 1; }
        sleep 0.1
    done
done

# hello README: its two commands, the first one as a service on the second host, the second one on the first.
hello() {
    local commands server
    mapfile -t commands < <(awk '/^<!-- run by make dist-test -->$/ { marked = 1 } marked && /^```$/ { exit } block { print } marked && /^```sh$/ { block = 1 }' "$1")
    [ "${#commands[@]}" = 2 ] || { echo "error: $1 has no hello-world of two lines" >&2; return 1; }
    # Not in the background: what the last service said must not be taken for what this one says.
    : > "$work/server.log"
    # In a session of its own: what a command starts (as go run does) ends with it.
    BAREWIRE_SOCKET=$work/2.sock setsid bash -c "exec ${commands[0]}" >> "$work/server.log" 2>&1 < /dev/null &
    server=$!
    local ok=0 said=
    if line "$work/server.log" "listening on UDP port 888" "$server"; then
        said=$(BAREWIRE_SOCKET=$work/1.sock bash -c "${commands[1]}" 2>&1) || ok=1
    else
        ok=1
    fi
    kill -- "-$server" 2> /dev/null || true
    wait "$server" 2> /dev/null || true
    if [ "$ok" != 0 ] || [ "$said" != hello ]; then
        echo "error: the answer to hello was: $said" >&2
        cat "$work/server.log" ./*.log >&2 2> /dev/null || true
        return 1
    fi
}

# block PAGE WORDS: the lines of the block of a page whose mark has the words.
block() {
    awk -v words="$2" 'index($0, words) { marked = 1 } marked && /^```$/ { exit } block { print } marked && /^```sh$/ { block = 1 }' "$1"
}

# by_the_book PAGE: installs as the page of the book says, in a folder of its own, and runs its two lines.
by_the_book() {
    local page=$repository/docs/src/bindings/$1.md
    mkdir -p book/target
    ln -s "$dist" book/target/dist
    cd book
    block "$page" "make dist-test installs" > install.sh
    [ -s install.sh ] || { echo "error: $page says nothing of an installation" >&2; return 1; }
    . ./install.sh > install.log 2>&1 || { cat install.log >&2; return 1; }
    { echo '<!-- run by make dist-test -->'; echo '```sh'; block "$page" "make dist-test runs these"; echo '```'; } > hello.md
    hello hello.md
    cd ..
    chmod -R u+w book
    rm -rf book
}

# gone PLACE: nothing is left there.
gone() {
    [ -z "$(find "$1" -mindepth 1 ! -type d 2> /dev/null)" ] || { echo "error: left in $1:" >&2; find "$1" ! -type d >&2; return 1; }
}

# The file that there is if the package was made; of those that need more than the usual.
made() {
    case $1 in
        "Debian packages") echo "barewire_*.deb" ;;
        "RPM packages") echo "barewire-*.rpm" ;;
        "static binary") echo "barewire-*-musl.tar.gz" ;;
        "container image") echo "barewire-*-image.oci.tar" ;;
        aarch64) echo "barewire-*-linux-aarch64.tar.gz" ;;
        crates) echo "crates/*.crate" ;;
        "Python wheel") echo "barewire-*.whl" ;;
        "Go module") echo "go" ;;
        "Java jar") echo "maven" ;;
        "npm package") echo "barewire-*.tgz" ;;
        "NuGet folder") echo "nuget" ;;
    esac
}

# check NAME FUNCTION TOOL...: in a clean folder of its own.
check() {
    local name=$1 function=$2 tool
    shift 2
    [[ "$name" == *"$only"* ]] || return 0
    for tool; do
        command -v "$tool" > /dev/null || { echo "SKIPPED: $name: $tool is not installed"; return; }
    done
    if [ -n "$(made "$name")" ] && ! compgen -G "$dist/$(made "$name")" > /dev/null; then
        echo "SKIPPED: $name: not made by make dist on this machine"
        return
    fi
    mkdir "$work/place"
    # Not as a condition: `set -e` would not hold inside.
    set +e
    (set -e; cd "$work/place"; "$function")
    local code=$?
    set -e
    if [ "$code" = 0 ]; then echo "ok: $name"; else echo "FAILED: $name"; failed=1; fi
    chmod -R u+w "$work/place"
    rm -rf "$work/place"
}

test_tarball() {
    mkdir prefix
    tar -xzf "$tarball" -C prefix --strip-components 1
    prefix/bin/barewire --version
    cc -std=c11 -Iprefix/include prefix/share/doc/barewire/examples/echo.c -o echo -Lprefix/lib -lbarewire "-Wl,-rpath,$PWD/prefix/lib"
    hello prefix/share/doc/barewire/README-c.md
    if command -v pkg-config > /dev/null; then
        rm echo
        # shellcheck disable=SC2046
        PKG_CONFIG_PATH=prefix/lib/pkgconfig sh -c 'cc -std=c11 prefix/share/doc/barewire/examples/echo.c -o echo $(pkg-config --cflags --libs barewire) "-Wl,-rpath,$PWD/prefix/lib"'
        hello prefix/share/doc/barewire/README-c.md
    else
        echo "SKIPPED IN PART: tarball and C: pkg-config is not installed" >&2
    fi
    if command -v cmake > /dev/null; then
        rm echo
        mkdir project
        printf 'cmake_minimum_required(VERSION 3.16)\nproject(hello C)\nfind_package(barewire CONFIG REQUIRED)\nadd_executable(echo %s)\ntarget_link_libraries(echo PRIVATE barewire::barewire)\n' \
            "$PWD/prefix/share/doc/barewire/examples/echo.c" > project/CMakeLists.txt
        cmake -S project -B project/build "-DCMAKE_PREFIX_PATH=$PWD/prefix" > cmake.log && cmake --build project/build >> cmake.log || { cat cmake.log >&2; return 1; }
        mv project/build/echo .
        hello prefix/share/doc/barewire/README-c.md
        rm -r project
    else
        echo "SKIPPED IN PART: tarball and C: cmake is not installed" >&2
    fi
    tar -tzf "$tarball" | sed 's#^[^/]*/##' | grep -v '/$' | sed '/^$/d; s#^#prefix/#' | xargs -d '\n' rm
    gone prefix
}

test_cpp() {
    (by_the_book cpp)
    mkdir prefix
    tar -xzf "$tarball" -C prefix --strip-components 1
    c++ -std=c++17 -Iprefix/include prefix/share/doc/barewire/examples/echo.cpp -o echo-cpp -Lprefix/lib -lbarewire -pthread "-Wl,-rpath,$PWD/prefix/lib"
    hello prefix/share/doc/barewire/README-cpp.md
}

# An empty root with a database of packages of its own.
test_deb() {
    local root=$PWD/root
    mkdir -p "$root/var/lib/dpkg"/{info,updates,triggers}
    touch "$root/var/lib/dpkg/status"
    # The C library is the machine's.
    local options=(--root="$root" --force-not-root --force-depends --log=/dev/null)
    dpkg "${options[@]}" --install "$dist"/barewire_*.deb "$dist"/libbarewire_*.deb "$dist"/libbarewire-dev_*.deb > dpkg.log 2>&1 || { cat dpkg.log >&2; return 1; }
    "$root/usr/bin/barewire" --version
    grep -q /usr/bin/barewire "$root/usr/lib/systemd/system/barewire@.service"
    local doc=$root/usr/share/doc/libbarewire-dev
    cc -std=c11 "-I$root/usr/include" "$doc/examples/echo.c" -o echo "-L$root/usr/lib" -lbarewire "-Wl,-rpath,$root/usr/lib"
    hello "$doc/README-c.md"
    dpkg "${options[@]}" --purge libbarewire-dev libbarewire barewire > dpkg.log 2>&1 || { cat dpkg.log >&2; return 1; }
    gone "$root/usr"
}

# A root of its own with a database of its own, without what other packages would bring.
test_rpm() {
    local root=$PWD/root
    local options=(--root "$root" --nodeps --noscripts --nosignature)
    mkdir root
    rpm "${options[@]}" --install "$dist"/barewire-[0-9]*.rpm "$dist"/barewire-devel-*.rpm
    "$root/usr/bin/barewire" --version
    rpm "${options[@]}" --verify barewire barewire-devel
    local doc=$root/usr/share/doc/barewire
    cc -std=c11 "-I$root/usr/include" "$doc/examples/echo.c" -o echo "-L$root/usr/lib64" -lbarewire "-Wl,-rpath,$root/usr/lib64"
    hello "$doc/README-c.md"
    rpm "${options[@]}" --erase barewire-devel barewire
    gone "$root/usr/bin"
    gone "$root/usr/include"
    gone "$root/usr/lib64"
    gone "$root/usr/share/doc/barewire"
}

# A static program with static daemons: an application asks over a link of its own.
test_static() {
    tar -xzf "$dist"/barewire-*-musl.tar.gz --strip-components 1
    ! ldd barewire > ldd.log 2>&1 || grep -q "statically linked" ldd.log || { cat ldd.log >&2; return 1; }
    ping_with "$PWD/barewire"
}

# ping_with PROGRAM...: its `msg` as service and client over the two daemons.
ping_with() {
    BAREWIRE_SOCKET=$work/2.sock "$@" msg listen 887 --echo > listen.log 2>&1 &
    local server=$! ok=0 said
    for ((n = 0; n < 100; n++)); do
        said=$(BAREWIRE_SOCKET=$work/1.sock "$@" msg ping 10.0.0.2:887 --count 3 2>&1) && { ok=1; break; }
        kill -0 "$server" 2> /dev/null || break
        sleep 0.1
    done
    kill "$server" 2> /dev/null || true
    wait "$server" 2> /dev/null || true
    [ "$ok" = 1 ] || { echo "error: no answer: $said" >&2; cat listen.log >&2; return 1; }
}

# The image's own files as root of a process: its program needs nothing beside it.
test_image() {
    local store=(--root "$PWD/storage" --runroot "$PWD/storage-run" --storage-driver vfs) container root
    buildah "${store[@]}" pull --quiet "oci-archive:$(echo "$dist"/barewire-*-image.oci.tar)" > image.id
    container=$(buildah "${store[@]}" from "$(cat image.id)")
    root=$(buildah "${store[@]}" mount "$container")
    chroot "$root" /barewire --version
    [ "$(find "$root" -type f | wc -l)" = 1 ] || { find "$root" -type f >&2; return 1; }
    [ "$(stat -c %a "$root/run/barewire")" = 1777 ]
    buildah "${store[@]}" inspect --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Env}}' "$container" | \
        grep -q '\[/barewire\].*BAREWIRE_SOCKET=/run/barewire/barewire.sock'
    buildah "${store[@]}" umount "$container" > /dev/null
    buildah "${store[@]}" rm "$container" > /dev/null
    buildah "${store[@]}" rmi "$(cat image.id)" > /dev/null
}

# Of another machine's: what runs under an emulator.
test_aarch64() {
    tar -xzf "$dist"/barewire-*-linux-aarch64.tar.gz --strip-components 1
    local run=("$qemu" -L /usr/aarch64-linux-gnu)
    "${run[@]}" bin/barewire --version
    "${run[@]}" bin/barewire up --port mem:x --ipv4 10.0.0.1/24 --check
    aarch64-linux-gnu-gcc -std=c11 -Iinclude share/doc/barewire/examples/echo.c -o echo -Llib -lbarewire
    # Without a daemon it says so: the library is found and runs.
    ! LD_LIBRARY_PATH=$PWD/lib BAREWIRE_SOCKET=$PWD/none "${run[@]}" -E "LD_LIBRARY_PATH=$PWD/lib" ./echo 888 > echo.log 2>&1
    grep -q -i "daemon" echo.log || { cat echo.log >&2; return 1; }
}

# All that may be published is packed, finds what it needs of ours among the packed, and compiles from there. The lowest of them, which
# needs no other crate of ours, is built by itself.
test_crates() {
    local name
    mkdir all
    { printf '[workspace]\nresolver = "3"\nmembers = ["barewire-*"]\n[patch.crates-io]\n'
      for name in $(python3 "$repository/packaging/publishable.py" "$repository/Cargo.toml" --names); do
          tar -xzf "$dist/crates/$name"-[0-9]*.crate -C all
          echo "$name = { path = \"$(cd all && echo "$name"-[0-9]*)\" }"
      done; } > all.toml
    mv all.toml all/Cargo.toml
    cp "$repository/Cargo.lock" all/
    cargo update --quiet --offline --workspace --manifest-path all/Cargo.toml
    CARGO_TARGET_DIR=$PWD/target cargo check --quiet --offline --workspace --lib --bins --manifest-path all/Cargo.toml
    rm -r all
    tar -xzf "$dist"/crates/barewire-base-*.crate --strip-components 1
    [ -e Cargo.toml ] && [ -e README.md ] && grep -q '^license = ' Cargo.toml && ! grep -q 'path = "\.\.' Cargo.toml
    CARGO_TARGET_DIR=$PWD/target cargo build --quiet --offline
}

test_wheel() {
    (by_the_book python)
    python3 -m venv --without-pip venv
    # Of the machine's pip, and nothing from an index.
    python3 -m pip --python venv/bin/python install --quiet --no-index --disable-pip-version-check "$dist"/barewire-*.whl
    local readme
    readme=$(sed -n '/^$/,$p' "$(find venv -path '*barewire-*.dist-info/METADATA')" > README.md && echo README.md)
    PATH=$PWD/venv/bin:$PATH hello "$readme"
    python3 -m pip --python venv/bin/python uninstall --quiet --yes --disable-pip-version-check barewire
    [ -z "$(find venv -iname '*barewire*')" ]
}

test_go() {
    export GOPROXY=file://$dist/go GOFLAGS=-mod=mod GONOSUMDB='*' GOSUMDB=off GOTOOLCHAIN=local CGO_ENABLED=1
    export GOMODCACHE=$PWD/modules GOCACHE=$PWD/cache
    export CGO_CFLAGS=-I$prefix/include CGO_LDFLAGS="-L$prefix/lib -Wl,-rpath,$prefix/lib"
    (unset GOPROXY GOSUMDB CGO_CFLAGS CGO_LDFLAGS; by_the_book go)
    mkdir hello
    cd hello
    go mod init example.invalid/hello 2> /dev/null
    go get "barewire.dev/go@v$(ls "$dist/go/barewire.dev/go/@v" | sed -n 's/^v\(.*\)\.zip$/\1/p')" 2> /dev/null
    hello "$(go list -m -f '{{.Dir}}' barewire.dev/go)/README.md"
    cd ..
    go clean -modcache
    gone modules
}

# A Maven repository in a folder, from which the jar is taken.
test_jar() {
    (by_the_book java)
    cp -r "$dist/maven" repository
    cp repository/dev/barewire/barewire/*/barewire-*.jar .
    jar --extract --file barewire-*.jar META-INF/README.md
    mkdir temporary
    JAVA_TOOL_OPTIONS="-Djava.io.tmpdir=$PWD/temporary -XX:-UsePerfData" hello_quietly META-INF/README.md
    # The native part that it unpacked is gone, too.
    gone temporary
}

# The JVM tells of options in the environment, which is no answer.
hello_quietly() {
    sed 's/^java /java_ /' "$1" > README.md
    mkdir -p bin
    printf '#!/bin/sh\nexec java "$@" 2>> java.log\n' > bin/java_
    chmod 755 bin/java_
    PATH=$PWD/bin:$PATH hello README.md
}

test_npm() {
    (by_the_book node)
    npm install --silent --offline --no-audit --no-fund --no-save "$dist"/barewire-*.tgz > /dev/null
    hello node_modules/barewire/README.md
    npm uninstall --silent --no-save barewire > /dev/null
    rm -f node_modules/.package-lock.json package-lock.json package.json
    gone .
}

test_nuget() {
    (by_the_book csharp)
    local package
    package=$(echo "$dist"/nuget/barewire.*)
    cp "$package/lib/netstandard2.0/Barewire.dll" .
    mcs -r:Barewire.dll -out:echo.exe "$package/examples/Echo.cs"
    LD_LIBRARY_PATH=$package/runtimes/linux-x64/native hello "$package/README.md"
}

check "tarball and C" test_tarball cc
check "C++ header" test_cpp c++
check "Debian packages" test_deb dpkg cc
check "RPM packages" test_rpm rpm cc
check "static binary" test_static ldd
check "container image" test_image buildah
# Debian has it in two packages, under two names.
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || echo qemu-aarch64)
check "aarch64" test_aarch64 "$qemu" aarch64-linux-gnu-gcc
check "crates" test_crates cargo python3
check "Python wheel" test_wheel python3
check "Go module" test_go go cc
check "Java jar" test_jar java jar
check "npm package" test_npm node npm
check "NuGet folder" test_nuget mono mcs
exit $failed
