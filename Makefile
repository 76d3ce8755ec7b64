# make demo runs the pipeline on a small model; make test checks everything.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
CONCURRENT  := ./device/... ./kernels/... ./stage/... ./pipeline/... ./layers/...
# Long tests in which the kernels' level makes no difference.
NOTKERNELS  := TestSoak|TestEfficiency|TestLearnedAgainstFixed|TestBatch|TestDemo|TestLiveDemo|TestSweep|TestTrace
TARGETS     := linux/arm64 darwin/arm64 windows/amd64

# What is built needs no cgo; only the race detector does.
export CGO_ENABLED := 0

.PHONY: demo build dist test lint unit race noasm cross fuzz soak bench bench-peer generate

demo:
	$(GO) run ./cmd/leat demo

build:
	$(GO) build -o build/leat ./cmd/leat

# Release archives for all platforms and their checksums. The same commit and the same
# Go give the same bytes.
dist:
	$(GO) run ./internal/dist -o build/dist

test: lint unit race noasm cross

lint:
	@echo "== gofmt, vet, staticcheck"
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './build/*')); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

unit:
	@echo "== tests"
	$(GO) test ./...

# The race detector needs a C compiler. REQUIRE_RACE makes its absence an error.
race:
	@echo "== tests of the concurrent packages under the race detector"
	@if command -v $${CC:-cc} >/dev/null 2>&1; then \
		CGO_ENABLED=1 $(GO) test -race -short $(CONCURRENT); \
	elif [ -n "$(REQUIRE_RACE)" ]; then \
		echo "no C compiler: the race detector can't run"; exit 1; \
	else \
		echo "skipped: no C compiler ($${CC:-cc}) for the race detector"; \
	fi

noasm:
	@echo "== tests with the portable kernels alone"
	$(GO) test -short -tags noasm -skip '$(NOTKERNELS)' ./...

cross:
	@for t in $(TARGETS); do \
		echo "== build for $$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) vet ./... || exit 1; \
		GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build -o /dev/null ./cmd/leat || exit 1; \
	done

# Looks for inputs that break the readers, ten minutes each.
fuzz:
	$(GO) test -run '^$$' -fuzz FuzzParse -fuzztime 10m -fuzzminimizetime 10x ./model/gguf
	$(GO) test -run '^$$' -fuzz FuzzNew -fuzztime 10m -fuzzminimizetime 20x ./model/tokenizer
	$(GO) test -run '^$$' -fuzz FuzzModel -fuzztime 10m -fuzzminimizetime 10x ./model
	$(GO) test -run '^$$' -fuzz FuzzSplit -fuzztime 10m ./model/tokenizer/vocabulary
	$(GO) test -run '^$$' -fuzz FuzzEncode -fuzztime 10m ./model/tokenizer/sentencepiece
	$(GO) test -run '^$$' -fuzz FuzzParse -fuzztime 10m ./pipeline/placement
	$(GO) test -run '^$$' -fuzz FuzzWriter -fuzztime 10m ./pipeline/generate/text
	$(GO) test -run '^$$' -fuzz FuzzScheduler -fuzztime 10m ./pipeline/generate/schedule
	$(GO) test -run '^$$' -fuzz FuzzChoose -fuzztime 10m ./pipeline/generate/sampling
	$(GO) test -run '^$$' -fuzz FuzzSampling -fuzztime 10m ./internal/panel

# A minute of requests that come, go, yield and share, under the race detector.
soak:
	LEAT_SOAK=1m CGO_ENABLED=1 $(GO) test -race -count 1 -v -run TestSoak ./pipeline/generate

bench:
	$(GO) test -run '^$$' -bench . ./...

# Leat beside llama.cpp on models of 1.1 billion parameters, in one run, with what the
# machine does at most: make bench-peer BENCH='-types all -o bench.md', BENCH=-h lists the
# flags. The peer is built on the first run, in ten minutes. Nothing else should run.
PEER ?= ../shared/peer/bench-llamacpp.sh

bench-peer: build
	@if [ ! -f $(PEER) ]; then echo "$(PEER) isn't there: it measures llama.cpp; say where it is with PEER=FILE"; exit 1; fi
	$(GO) run ./internal/peerbench -peer $(PEER) -mkgguf $(MKGGUF) $(BENCH)

# Writes the assembly again from its generator.
generate:
	$(GO) generate ./internal/panel ./internal/ceiling

include gpu.mk arm64.mk
