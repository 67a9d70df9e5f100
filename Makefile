# barewire: `make help` lists what there is.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
PREFIX ?= /usr/local
HOURS ?= 2
# Overridden by CARGO_TARGET_DIR, as for cargo itself.
TARGET := $(or $(CARGO_TARGET_DIR),target)
BAREWIRE := $(TARGET)/release/barewire
TEST_LOG := $(TARGET)/tests.log

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Everything is Rust: a compiler and a linker are all that is needed. rustup is not installed behind anybody's back.
.PHONY: tools
tools:
	@if ! command -v $(firstword $(CARGO)) > /dev/null; then \
	    echo "error: no cargo here; Rust 1.90 or newer is needed" >&2; \
	    echo "hint: see https://www.rust-lang.org/tools/install" >&2; \
	    exit 1; \
	fi
	@if ! command -v cc > /dev/null; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	        echo "installing a linker: gcc libc6-dev" >&2; \
	        apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev >&2; \
	    else \
	        echo "error: no C linker (cc) here, which cargo needs" >&2; \
	        echo "hint: Debian, Ubuntu: apt-get install gcc libc6-dev; Fedora: dnf install gcc; Alpine: apk add gcc musl-dev" >&2; \
	        exit 1; \
	    fi; \
	fi

# Cargo's own words for a full disk are a failed linker. A build that was there before needs less: it is told, not refused.
ROOM_MB := 7000

.PHONY: room
room:
	@mkdir -p $(TARGET); free=$$(df --output=avail --block-size=1M $(TARGET) | tail -n 1); \
	if [ "$$free" -lt $(ROOM_MB) ]; then \
	    echo "note: $$((free)) MB are free for $(TARGET), and a build of everything takes up to $(ROOM_MB) MB" >&2; \
	    echo "hint: free some, or set CARGO_TARGET_DIR to a folder where there is more" >&2; \
	fi

# It goes to every host of an experiment: at most 25 MiB.
BINARY_BYTES_MAX := 26214400

.PHONY: build
build: tools room ## Build the release binary, stripped
	$(CARGO) build --release --package barewire-cli
	@bytes=$$(wc -c < $(BAREWIRE)); [ "$$bytes" -le $(BINARY_BYTES_MAX) ] || \
	    echo "note: $(BAREWIRE) has $$bytes bytes, and $(BINARY_BYTES_MAX) are what it should have at most" >&2

.PHONY: symbols
symbols: tools room ## The same in target/symbols/barewire, with names and lines for debuggers and profilers
	$(CARGO) build --profile symbols --package barewire-cli

# A void row (code 4: a busy machine, most often) is told and left out of the pictures: that is no failure of make.
VOID_IS_SAID = || { code=$$?; [ $$code = 4 ] || exit $$code; }

.PHONY: dpdk
dpdk: tools ## Build target/dpdk/release/barewire with `dpdk:` ports (needs libdpdk-dev, pkg-config)
	@pkg-config --atleast-version=22.11 libdpdk || { echo "error: libdpdk 22.11 or newer is not installed" >&2; echo "hint: apt-get install libdpdk-dev pkg-config" >&2; exit 1; }
	CARGO_TARGET_DIR=$(TARGET)/dpdk $(CARGO) build --release --package barewire-cli --features dpdk

.PHONY: programs
programs: build ## Write bmv2 JSON and P4Info of each sample beside its source in programs/
	@for p in programs/*.p4; do $(BAREWIRE) switch compile $$p -o $${p%.p4}.json --p4info $${p%.p4}.p4info.txtpb; done

.PHONY: demo
demo: build ## The four programs beside what is known, in about four minutes, with a report (as root: over real packets)
	@$(BAREWIRE) demo --report $(TARGET)/demo/report.html --run $(TARGET)/demo/runs $(VOID_IS_SAID)

.PHONY: bench
bench: build ## All published tables, with ours measured here beside them, in half an hour, with a report
	@mkdir -p $(TARGET)/bench
	@$(BAREWIRE) bench seeds --out $(TARGET)/bench/seeds.json --run $(TARGET)/bench/runs --html $(TARGET)/bench/seeds.html $(VOID_IS_SAID)

# Adds up cargo's own result lines. A test that needs what this machine lacks says `SKIPPED: ` with its name and counts as passed there:
# it is taken out again, once. Ignored tests are not skipped: they are children, which other tests start.
define ADD_UP
/^test result: / { passed += $$4; failed += $$6; binaries++ } \
/^test result: FAILED/ { bad++ } \
/^SKIPPED: / && !told[binaries, $$2]++ { skipped++; print } \
/^SKIPPED IN PART: / { print } \
/^REPEATED: / { repeated++ } \
END { \
    if (repeated) printf "%d measurements were repeated: a busy machine\n", repeated; \
    printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped; \
    exit !(binaries && passed && !failed && !bad) \
}
endef

# What of the log is shown while it grows, and what is shown again at the end when something failed.
SHOWN := ^(test .*FAILED|test result|     Running|   Doc-tests|error|SKIPPED)
AGAIN := /^failures:$$/,/^test result/p; /^error/,/^$$/p

# Peers that tests talk to: program (or file), Debian package, and the service that comes with it. Without them tests say SKIPPED.
# `make test` installs the small ones by itself, and `make test SMALL=` nothing; the others come with `make peers`.
SMALL ?= ip:iproute2 ethtool:ethtool
PEERS ?= sshd:openssh-server:ssh munged:munge:munge slurmctld:slurmctld:slurmctld slurmd:slurmd:slurmd srun:slurm-client \
    chromium:chromium tshark:tshark mnexec:mininet nvim:neovim qemu-system-x86_64:qemu-system-x86 cpio:cpio zstd:zstd \
    /usr/include/infiniband/verbs.h:libibverbs-dev /usr/include/rdma/rdma_cma.h:librdmacm-dev

# Entries of a list whose program is not there; the packages of entries; quiet installation of packages.
define PEERS_SH
lacking() { for peer; do [ -e "$${peer%%:*}" ] || PATH="$$PATH:/usr/sbin:/sbin" command -v "$${peer%%:*}" > /dev/null || echo "$$peer"; done; }; \
packages() { for peer; do echo "$$peer" | cut -d: -f2; done | tr '\n' ' '; }; \
installs() { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; }; \
install() { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$$@"; }
endef

.PHONY: small
small:
	@$(PEERS_SH); missing=$$(packages $$(lacking $(SMALL))); \
	if [ -z "$$missing" ]; then \
	    :; \
	elif installs; then \
	    echo "installing the peers that tests talk to: $$missing" >&2; \
	    install $$missing > /dev/null 2>&1 || echo "note: not installed; their tests will be skipped: $$missing" >&2; \
	else \
	    echo "note: tests that need these will be skipped: apt-get install $$missing" >&2; \
	fi

# A package's service must neither run nor start with the machine: Debian's own switch, policy-rc.d, refuses every start meanwhile, and
# services that come new are disabled. What was installed before stays as it is.
.PHONY: peers
peers: small ## Install the large peers that tests talk to (sshd, Slurm, Chromium, tshark, Mininet, Neovim, QEMU); their services stay off
	@$(PEERS_SH); missing=$$(lacking $(PEERS)); \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if ! installs; then \
	    echo "error: only root installs packages, with apt-get" >&2; \
	    echo "hint: apt-get install $$(packages $$missing)" >&2; \
	    exit 1; \
	fi; \
	echo "installing the peers that tests talk to: $$(packages $$missing)" >&2; \
	policy=/usr/sbin/policy-rc.d; kept=; \
	trap 'rm -f $$policy; [ -z "$$kept" ] || mv "$$kept" $$policy' EXIT; \
	if [ -e $$policy ]; then kept=$$policy.kept-by-barewire; [ -e "$$kept" ] || mv $$policy "$$kept"; fi; \
	printf '#!/bin/sh\nexit 101\n' > $$policy; chmod 755 $$policy; \
	mkdir -p $(TARGET); install $$(packages $$missing) > $(TARGET)/peers.log 2>&1 || tail -n 5 $(TARGET)/peers.log >&2; \
	for peer in $$missing; do \
	    service=$$(echo "$$peer" | cut -d: -f3); \
	    [ -n "$$service" ] || continue; \
	    update-rc.d "$$service" disable > /dev/null 2>&1 || true; \
	    for unit in "$$service.service" "$$service.socket"; do systemctl disable "$$unit" > /dev/null 2>&1 || true; done; \
	done; \
	missing=$$(lacking $(PEERS)); \
	if [ -n "$$missing" ]; then \
	    echo "error: not installed; their tests will be skipped: $$(packages $$missing)" >&2; \
	    exit 1; \
	fi

.PHONY: check
check: tools ## Format, lints and tests of what changed since the branch was made
	@$(CARGO) run --quiet --package xtask -- check

.PHONY: deny
deny: ## Licences, advisories and duplicate dependencies, where cargo-deny is installed
	@if $(CARGO) deny --version > /dev/null 2>&1; then \
	    $(CARGO) deny --log-level error check; \
	else \
	    echo "note: cargo-deny is not installed; licences and advisories are not checked (cargo install cargo-deny)" >&2; \
	fi

.PHONY: reference
reference: tools ## Rewrite the pages of the book that are generated from code
	BAREWIRE_UPDATE_DOCS=1 $(CARGO) test --quiet --package barewire-cli --test reference

.PHONY: book
book: ## Build the book into target/book (needs mdbook: cargo install mdbook)
	@command -v mdbook > /dev/null || { echo "error: mdbook is not installed" >&2; echo "hint: cargo install mdbook" >&2; exit 1; }
	mdbook build --dest-dir "$(abspath $(TARGET))/book" docs

.PHONY: test-dpdk
test-dpdk: tools ## Test `dpdk:` ports on virtual devices (needs libdpdk-dev, pkg-config)
	@pkg-config --atleast-version=22.11 libdpdk || { echo "error: libdpdk 22.11 or newer is not installed" >&2; echo "hint: apt-get install libdpdk-dev pkg-config" >&2; exit 1; }
	@# Of the whole workspace: what others than the port are built of is there already, where `make test` was.
	$(CARGO) clippy --workspace --features barewire-cli/dpdk --all-targets --target-dir $(LINTS) --quiet -- -D warnings
	$(CARGO) test --package barewire-dpdk --features dpdk
	$(CARGO) test --workspace --features barewire-cli/dpdk --test dpdk

# Many tests wait: lints take what these leave of the cores, and nothing else. In a folder of their own, so that neither waits for the other.
IDLE := $(shell chrt -i 0 true 2> /dev/null && echo chrt -i 0 || echo nice -n 19)
LINTS := $(TARGET)/lints
# By another name: a line with the usual one is run even by `make -n`.
SUBMAKE := $(MAKE)

.PHONY: lints
lints: export CARGO_TARGET_DIR := $(LINTS)
lints: ## Lints and documentation of everything (a part of `make test`)
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	@if pkg-config --atleast-version=22.11 libdpdk 2> /dev/null; then \
	    $(CARGO) clippy --package barewire-dpdk --features dpdk --all-targets --quiet -- -D warnings; \
	fi
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

# Test programs that mostly wait, by their names: they run beside the others.
test: export BESIDE := aio_reattach barewire_daemon control deaths environment key local mininet pauses rc restart routed slurm stopped walk
test: export BESIDE_DIR := $(abspath $(TARGET))/beside

.PHONY: test
test: tools room small deny ## Everything that must hold before a commit
	$(CARGO) fmt --all --check
	$(CARGO) fmt --all --check --manifest-path bindings/Cargo.toml
	@# With the tests' own features: a build of any part alone would make the same crates again with others.
	$(CARGO) build --workspace --bins --examples --tests --quiet
	$(TARGET)/debug/xtask tidy
	@# All of them run, whatever fails; the sum at the end decides.
	@mkdir -p $(TARGET); status=0; \
	tests/beside.sh begin; \
	$(IDLE) $(SUBMAKE) --no-print-directory lints > $(TARGET)/lints.log 2>&1 & lints=$$!; \
	trap 'tests/beside.sh stop; kill $$lints 2> /dev/null' EXIT; trap 'exit 130' INT TERM; \
	{ \
	    ok=0; \
	    $(CARGO) test --workspace --no-fail-fast --config 'target."cfg(unix)".runner = ["$(CURDIR)/tests/beside.sh"]' -- --show-output || ok=1; \
	    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom \
	        $(CARGO) test --package barewire-ring --test loom --release || ok=1; \
	    if pkg-config --atleast-version=22.11 libdpdk 2> /dev/null; then \
	        $(CARGO) test --package barewire-dpdk --features dpdk --no-fail-fast || ok=1; \
	    else \
	        echo "SKIPPED IN PART: dpdk: ports are not tested: libdpdk-dev is not installed"; \
	    fi; \
	    $(TARGET)/debug/xtask fuzz-smoke || ok=1; \
	    tests/beside.sh join || ok=1; \
	    exit $$ok; \
	} 2>&1 | tee $(TEST_LOG) | { grep --line-buffered -E '$(SHOWN)' || true; } || status=1; \
	if [ $$status != 0 ]; then sed -n '$(AGAIN)' $(TEST_LOG); fi; \
	echo "the whole output is in $(TEST_LOG)"; \
	awk '$(ADD_UP)' $(TEST_LOG) || status=1; \
	if wait $$lints; then echo "lints and documentation: ok"; else echo "error: lints or documentation:"; cat $(TARGET)/lints.log; status=1; fi; \
	trap - EXIT; \
	exit $$status

# Verified messages over every kind of port, clean and faulty, for HOURS altogether. The first error ends it.
# `secure+` is ours: with the cipher's rows beside the plain ones.
SOAK := mem unix packet xdp fault+mem fault+unix fault+packet fault+xdp secure+packet secure+xdp secure+fault+packet secure+fault+xdp
SEED ?= 1
FAULTS := loss=0.01&duplicate=0.005&reorder=0.01&corrupt=0.001&delay_us=100&jitter_us=200&seed=$(SEED)

# The switch's tests under load, which take a share each: entries, programs and ports are changed at full rate under traffic.
SWITCH_SOAK := update_under_traffic swap ports

# Daemons with messages and RDMA operations, and feed handlers, while their machine changes: links down and up, interfaces deleted and made
# again, all kinds of port at the same time; then daemons, applications, switch, RDMA server and feed that stand still or are interrupted.
# Each takes a share.
MACHINE_SOAK := daemon:environment feed-handler:environment cli:stopped cli:services

# Each language's package where its toolchain is; the others are told as SKIPPED.
.PHONY: dist
dist: tools room ## Build the packages into target/dist: tarballs, .deb, .rpm, image, crates, and one for each language
	@CARGO="$(CARGO)" packaging/dist.sh "$(TARGET)" "$(TARGET)/dist"

.PHONY: dist-test
dist-test: ## Install each package of target/dist into a clean place, run its hello-world, remove it again
	@packaging/dist-test.sh "$(TARGET)/dist"

# A second build of the same commit, from nothing.
.PHONY: dist-same
dist-same: dist ## Build the packages again, from nothing, and compare every byte
	@rm -rf "$(TARGET)/dist-again"
	@CARGO="$(CARGO)" packaging/dist.sh "$(TARGET)/dist-again" "$(TARGET)/dist-again/dist" > /dev/null
	@diff $(TARGET)/dist/SHA256SUMS $(TARGET)/dist-again/dist/SHA256SUMS && echo "the same bytes: $$(wc -l < $(TARGET)/dist/SHA256SUMS) files"

.PHONY: old-kernel
old-kernel: tools room ## The tests of the kernel engine (TESTS=names) under Debian's kernel in QEMU: another verifier, another tc
	@CARGO="$(CARGO)" tests/old-kernel/run.sh "$(TARGET)" $(TESTS)

.PHONY: soak
soak: build ## Messages over every port, clean and faulty; a switch, daemons and feeds whose machine changes, for HOURS=2
	@seconds=$$(awk 'BEGIN { printf "%d", $(HOURS) * 3600 / $(words $(SOAK) $(SWITCH_SOAK) $(MACHINE_SOAK)) }'); \
	for over in $(SOAK); do \
	    port=$${over#secure+}; secure=; share=$$seconds; \
	    case $$over in secure+*) secure=--secure; share=$$((seconds / 3));; esac; \
	    case $$port in fault+*) options='$(FAULTS)';; *) options=;; esac; \
	    echo "soak: $$over, $$seconds s, seed $(SEED)" >&2; \
	    $(BAREWIRE) bench msg --over $$port $$secure --options "$$options" --verify --size 8000 --window 32 --connections 4 \
	        --runs 1 --seconds $$share --seed $(SEED); \
	done; \
	for test in $(SWITCH_SOAK); do \
	    echo "soak: switch, $$test, $$seconds s, seed $(SEED)" >&2; \
	    BAREWIRE_SOAK_SECONDS=$$seconds BAREWIRE_SEED=$(SEED) \
	        $(CARGO) test --package barewire-switch --release --quiet --test $$test -- --nocapture --test-threads 8; \
	done; \
	for test in $(MACHINE_SOAK); do \
	    echo "soak: $$test, $$seconds s, seed $(SEED)" >&2; \
	    BAREWIRE_SOAK_SECONDS=$$seconds BAREWIRE_SEED=$(SEED) \
	        $(CARGO) test --package barewire-$${test%%:*} --release --quiet --test $${test##*:} -- --nocapture --test-threads 16; \
	done

VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml | head -n 1)
C_LIBRARIES := $(foreach name,barewire bwfeed bwverbs,$(TARGET)/release/lib$(name).so $(TARGET)/release/lib$(name).a)

.PHONY: lib
lib: tools room ## Build the C libraries, shared and static
	$(CARGO) build --release --package barewire-ffi --package barewire-feed-ffi --package barewire-verbs-ffi

# Under sudo what `make lib` built before is taken, as below.
.PHONY: install-lib
install-lib: ## Install the C libraries, headers, pkg-config files and CMake package under PREFIX=/usr/local
	@if [ -z "$${SUDO_USER:-}" ] && command -v $(firstword $(CARGO)) > /dev/null; then \
	    $(MAKE) --no-print-directory lib; \
	elif [ "$$(ls $(C_LIBRARIES) 2> /dev/null | wc -l)" != $(words $(C_LIBRARIES)) ]; then \
	    echo "note: the C libraries are not built, and not installed" >&2; \
	    echo "hint: make lib, as the user who has cargo; then make install-lib" >&2; \
	    exit $(if $(OPTIONAL),0,1); \
	fi; \
	STRIP=$$(command -v strip || true) packaging/c-libraries.sh $(TARGET)/release "$(DESTDIR)$(PREFIX)" $(VERSION); \
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then PATH="$$PATH:/sbin:/usr/sbin" ldconfig || true; fi

SHARE := "$(DESTDIR)$(PREFIX)/share"

# Under sudo nothing is built: root's PATH seldom has cargo, and what root builds its owner cannot build again.
.PHONY: built
built:
	@if [ -z "$${SUDO_USER:-}" ] && command -v $(firstword $(CARGO)) > /dev/null; then \
	    $(MAKE) --no-print-directory build; \
	elif [ ! -x $(BAREWIRE) ]; then \
	    echo "error: $(BAREWIRE) is not built" >&2; \
	    echo "hint: \`make build\` as yourself, then \`sudo make install\`" >&2; \
	    exit 1; \
	fi

.PHONY: install
install: built ## Install the binary, manual pages and completions (bash, zsh, fish) under PREFIX=/usr/local
	install -d "$(DESTDIR)$(PREFIX)/bin" $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
	    $(SHARE)/fish/vendor_completions.d
	install -m 755 $(BAREWIRE) "$(DESTDIR)$(PREFIX)/bin/barewire"
	@# Under these names it takes bmv2's arguments; not under bmv2's own, which may be installed.
	ln -sf barewire "$(DESTDIR)$(PREFIX)/bin/barewire-simple-switch"
	ln -sf barewire "$(DESTDIR)$(PREFIX)/bin/barewire-simple-switch-grpc"
	$(BAREWIRE) --quiet man --out $(SHARE)/man/man1
	$(BAREWIRE) completions bash > $(SHARE)/bash-completion/completions/barewire
	$(BAREWIRE) completions zsh > $(SHARE)/zsh/site-functions/_barewire
	$(BAREWIRE) completions fish > $(SHARE)/fish/vendor_completions.d/barewire.fish
	@$(MAKE) --no-print-directory install-lib OPTIONAL=1

.PHONY: uninstall
uninstall: ## Remove what `make install` installed
	rm -f "$(DESTDIR)$(PREFIX)"/bin/barewire{,-simple-switch,-simple-switch-grpc} $(SHARE)/man/man1/barewire{,-*}.1 \
	    $(SHARE)/bash-completion/completions/barewire $(SHARE)/zsh/site-functions/_barewire $(SHARE)/fish/vendor_completions.d/barewire.fish \
	    "$(DESTDIR)$(PREFIX)"/lib/lib{barewire,bwfeed,bwverbs}.{so,a} "$(DESTDIR)$(PREFIX)"/lib/pkgconfig/{barewire,bwfeed,bwverbs}.pc \
	    "$(DESTDIR)$(PREFIX)"/include/{barewire,bwfeed,bwverbs,machnet}.h "$(DESTDIR)$(PREFIX)"/include/barewire.hpp
	rm -rf "$(DESTDIR)$(PREFIX)"/lib/cmake/barewire
