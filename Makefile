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
ROOM_MB := 4000

.PHONY: room
room:
	@mkdir -p $(TARGET); free=$$(df --output=avail --block-size=1M $(TARGET) | tail -n 1); \
	if [ "$$free" -lt $(ROOM_MB) ]; then \
	    echo "note: $$((free)) MB are free for $(TARGET), and a build from nothing takes up to $(ROOM_MB) MB" >&2; \
	    echo "hint: free some, or set CARGO_TARGET_DIR to a folder where there is more" >&2; \
	fi

.PHONY: build
build: tools room ## Build the release binary
	$(CARGO) build --release --package barewire-cli

# A void row (code 4: a busy machine, most often) is told and left out of the pictures: that is no failure of make.
VOID_IS_SAID = || { code=$$?; [ $$code = 4 ] || exit $$code; }

.PHONY: demo
demo: build ## The four programs beside what is known, in three minutes, with a report (as root: over real packets)
	@$(BAREWIRE) demo --report $(TARGET)/demo/report.html --run $(TARGET)/demo/runs $(VOID_IS_SAID)

.PHONY: bench
bench: build ## All published tables, with ours measured here beside them, in a quarter of an hour, with a report
	@mkdir -p $(TARGET)/bench
	@$(BAREWIRE) bench seeds --out $(TARGET)/bench/seeds.json --run $(TARGET)/bench/runs --html $(TARGET)/bench/seeds.html $(VOID_IS_SAID)

# Adds up cargo's own result lines. A test that needs what this machine lacks says `SKIPPED: ` and counts as passed there: it is
# taken out again. Ignored tests are not skipped: they are children, which other tests start.
define ADD_UP
/^test result: / { passed += $$4; failed += $$6; binaries++ } \
/^test result: FAILED/ { bad++ } \
/^SKIPPED: / { skipped++; print } \
END { \
    printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped; \
    exit !(binaries && passed && !failed && !bad) \
}
endef

# What of the log is shown while it grows, and what is shown again at the end when something failed.
SHOWN := ^(test .*FAILED|test result|     Running|   Doc-tests|error|SKIPPED)
AGAIN := /^failures:$$/,/^test result/p; /^error/,/^$$/p

# What tests speak with: program and Debian package. Without it the tests say SKIPPED. `make test PEERS=` installs nothing.
PEERS ?= sshd:openssh-server munged:munge slurmctld:slurmctld slurmd:slurmd srun:slurm-client ethtool:ethtool \
    chromium:chromium tshark:tshark

.PHONY: peers
peers:
	@missing=; for peer in $(PEERS); do \
	    PATH="$$PATH:/usr/sbin:/sbin" command -v "$${peer%%:*}" > /dev/null || missing="$$missing $${peer#*:}"; \
	done; \
	if [ -z "$$missing" ]; then \
	    :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing what tests speak with:$$missing" >&2; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; } \
	        > /dev/null 2>&1 || echo "note: not installed; their tests will be skipped:$$missing" >&2; \
	else \
	    echo "note: tests that need these will be skipped: apt-get install$$missing" >&2; \
	fi

.PHONY: test
test: tools room peers ## Everything that must hold before a commit
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	@# With the tests' own features: a build of any part alone would make the same crates again with others.
	$(CARGO) build --workspace --bins --examples --tests --quiet
	$(TARGET)/debug/xtask tidy
	@# All of them run, whatever fails; the sum at the end decides.
	@mkdir -p $(TARGET); status=0; \
	{ \
	    ok=0; \
	    $(CARGO) test --workspace --no-fail-fast -- --show-output || ok=1; \
	    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom \
	        $(CARGO) test --package barewire-ring --test loom --release || ok=1; \
	    $(TARGET)/debug/xtask fuzz-smoke || ok=1; \
	    exit $$ok; \
	} 2>&1 | tee $(TEST_LOG) | { grep --line-buffered -E '$(SHOWN)' || true; } || status=1; \
	if [ $$status != 0 ]; then sed -n '$(AGAIN)' $(TEST_LOG); fi; \
	echo "the whole output is in $(TEST_LOG)"; \
	awk '$(ADD_UP)' $(TEST_LOG) || status=1; \
	exit $$status

# Verified messages over every kind of port, clean and faulty, for HOURS altogether. The first error ends it.
SOAK := mem unix packet xdp fault+mem fault+unix fault+packet fault+xdp
SEED ?= 1
FAULTS := loss=0.01&duplicate=0.005&reorder=0.01&corrupt=0.001&delay_us=100&jitter_us=200&seed=$(SEED)

# The switch's tests under load, which take a share each: entries, programs and ports are changed at full rate under traffic.
SWITCH_SOAK := update_under_traffic swap ports

# The daemon while its machine changes: links down and up, interfaces deleted and made again, all kinds of port at the same time; then
# daemons and applications that stand still or are interrupted.
DAEMON_SOAK := daemon:environment cli:stopped

.PHONY: soak
soak: build ## Messages over every port, clean and faulty, a switch and a machine under change, for HOURS=2
	@seconds=$$(awk 'BEGIN { printf "%d", $(HOURS) * 3600 / $(words $(SOAK) $(SWITCH_SOAK) $(DAEMON_SOAK)) }'); \
	for over in $(SOAK); do \
	    case $$over in fault+*) options='$(FAULTS)';; *) options=;; esac; \
	    echo "soak: $$over, $$seconds s, seed $(SEED)" >&2; \
	    $(BAREWIRE) bench msg --over $$over --options "$$options" --verify --size 8000 --window 32 --connections 4 \
	        --runs 1 --seconds $$seconds --seed $(SEED); \
	done; \
	for test in $(SWITCH_SOAK); do \
	    echo "soak: switch, $$test, $$seconds s, seed $(SEED)" >&2; \
	    BAREWIRE_SOAK_SECONDS=$$seconds BAREWIRE_SEED=$(SEED) \
	        $(CARGO) test --package barewire-switch --release --quiet --test $$test -- --nocapture --test-threads 8; \
	done; \
	for test in $(DAEMON_SOAK); do \
	    echo "soak: $$test, $$seconds s, seed $(SEED)" >&2; \
	    BAREWIRE_SOAK_SECONDS=$$seconds BAREWIRE_SEED=$(SEED) \
	        $(CARGO) test --package barewire-$${test%%:*} --release --quiet --test $${test##*:} -- --nocapture --test-threads 16; \
	done

SHARE := "$(DESTDIR)$(PREFIX)/share"

.PHONY: install
install: build ## Install the binary, manual pages and completions (bash, zsh, fish) under PREFIX=/usr/local
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
