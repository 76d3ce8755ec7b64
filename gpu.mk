# What has to do with GPUs: the kernels' PTX, the emulated driver, and tests on either.

.PHONY: test-gpu kernels kernels-check kernels-table emulator gpu-bundle gpu-check

# Device lists that the tests of stages and pipelines run on again.
GPU_LISTS := cuda:0,cuda:1,cpu:0 cpu:0,cuda:0
# Of package generate, what has to do with devices and isn't too slow for an emulator.
GPU_TESTS := GPU|TestACallOf|NoNumbers|TestText|TestFewPages|TestCancellation$$|TestCloseEnds|TestPanic|TestReplicas|TestAReplica|TestAStageThat|TestDrain|TestSamplerThatEnds|TestLatency|TestPlanIs|TestSoak

# All that has to do with GPUs, on emulated ones and under the race detector; what
# counts allocations runs without that.
test-gpu: export LEAT_REQUIRE_EMULATOR := 1
test-gpu: emulator
	@echo "== emulated driver, device/cuda, kernels, command"
	$(GO) test ./internal/emulator ./device/cuda ./internal/gpucheck
	LEAT_EMULATED_RACES=1 $(GO) test ./kernels/gpu/...
	$(GO) test -run GPU ./cmd/leat ./model/arch
	@echo "== the same under the race detector"
	CGO_ENABLED=1 $(GO) test -race -short ./internal/emulator ./device/cuda ./kernels/gpu
	@for list in $(GPU_LISTS); do \
		echo "== stages and pipelines on $$list"; \
		export LEAT_TEST_DEVICES=$$list; \
		$(GO) test -run Allocate ./stage ./pipeline ./layers || exit 1; \
		CGO_ENABLED=1 $(GO) test -race -short -skip Allocate ./stage ./pipeline ./pipeline/trace ./layers || exit 1; \
		CGO_ENABLED=1 $(GO) test -race -short -run '$(GPU_TESTS)' ./pipeline/generate || exit 1; \
	done

# Compiles the GPU kernels to PTX again. Fetches NVRTC into build/wheels by itself (pip, 24 MB).
kernels:
	$(GO) run -C internal/gpukernels/_gen .

# Compares the PTX with its source, and has ptxas assemble it for every GPU.
# Skipped where the wheels can't be had, unless REQUIRE_PTXAS is set.
kernels-check:
	@echo "== GPU kernels: PTX against source, ptxas"
	@REQUIRE_PTXAS=$(REQUIRE_PTXAS) $(GO) run -C internal/gpukernels/_gen . -check

# Writes ptxas's table to docs/ptxas.md.
kernels-table:
	$(GO) run -C internal/gpukernels/_gen . -check -table ../../../docs/ptxas.md

# The emulated driver: a libcuda.so.1 for Linux that runs the kernels on the CPU.
EMULATOR  := build/emulator/libcuda.so.1
DRIVER    := internal/emulator/driver
OBJECTS   := $(patsubst $(DRIVER)/%.cc,build/emulator/%.o,$(wildcard $(DRIVER)/*.cc))
# What make itself thinks CXX is says nothing about what is installed.
ifeq ($(origin CXX),default)
CXX       := c++
endif
# Built where it runs: with the CPU's own fused multiply-add. -ffp-contract=off keeps
# every other product and sum apart. EMULATOR_CXXFLAGS adds to it (a sanitizer).
CXXNATIVE := $(if $(filter x86_64,$(shell uname -m)),-march=native)
CXXDRIVER := -std=c++17 -O2 -g $(CXXNATIVE) -ffp-contract=off -fPIC -fvisibility=hidden \
	-ftls-model=initial-exec -Wall -Wextra -Iinternal/gpukernels/source -include $(DRIVER)/emulated.h

emulator: $(EMULATOR)

$(EMULATOR): $(OBJECTS)
	@echo "$(firstword $(CXX)) -o $@"
	@$(CXX) -shared -Wl,-soname,libcuda.so.1 -Wl,-z,defs $(EMULATOR_CXXFLAGS) $(OBJECTS) -lpthread -o $@.new
	@mv $@.new $@

# -MMD writes which headers, the kernels' among them, an object depends on. A kernel
# must do with its fiber's 64 KiB of stack.
build/emulator/%.o: $(DRIVER)/%.cc
	@command -v $(firstword $(CXX)) >/dev/null 2>&1 || { \
		echo "make emulator: no C++ compiler ($(CXX)); install g++ or clang++, or set CXX"; exit 1; }
	@mkdir -p $(@D)
	@echo "$(firstword $(CXX)) $<"
	@$(CXX) $(CXXDRIVER) -Werror=frame-larger-than=16384 -MMD -MP $(EMULATOR_CXXFLAGS) -c $< -o $@

-include $(OBJECTS:.o=.d)

GPU_BUNDLE := build/gpu-bundle
# Where the program is that makes models with random weights.
MKGGUF     ?= ../shared/tools/mkgguf
SMALL      := -trimpath -ldflags '-s -w'

# All that a machine with a GPU, and no Go, needs for the check. GOOS and GOARCH say
# what machine, if it isn't one like this.
gpu-bundle:
	@if [ ! -f $(MKGGUF)/main.go ]; then \
		echo "$(MKGGUF) isn't there: mkgguf makes the check's models; say where it is with MKGGUF=FOLDER"; exit 1; fi
	rm -rf $(GPU_BUNDLE) $(GPU_BUNDLE).tar.gz
	mkdir -p $(GPU_BUNDLE)
	$(GO) build $(SMALL) -o $(GPU_BUNDLE)/leat ./cmd/leat
	$(GO) build $(SMALL) -o $(GPU_BUNDLE)/gpucheck ./internal/gpucheck
	$(GO) test -c $(SMALL) -o $(GPU_BUNDLE)/kernels.test ./kernels/gpu
	cd $(MKGGUF) && $(GO) build $(SMALL) -o $(CURDIR)/$(GPU_BUNDLE)/mkgguf .
	cp internal/gpucheck/gpu-check.sh LICENSE $(GPU_BUNDLE)
	tar -C build -czf $(GPU_BUNDLE).tar.gz gpu-bundle
	@size=$$(cat $(GPU_BUNDLE)/* | wc -c); packed=$$(wc -c <$(GPU_BUNDLE).tar.gz); \
	echo "$(GPU_BUNDLE): $$((size / 1000000)) MB, $(GPU_BUNDLE).tar.gz: $$((packed / 1000000)) MB"; \
	if [ $$size -gt 60000000 ]; then echo "that is more than 60 MB"; exit 1; fi

# Checks and measures this machine's GPU, see internal/gpucheck: make gpu-check CHECK='-o report.md'
gpu-check: gpu-bundle
	$(GPU_BUNDLE)/gpu-check.sh $(CHECK)
