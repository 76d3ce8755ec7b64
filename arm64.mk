# Tests of the arm64 kernels on emulated CPUs: one with matrix products of bytes, one
# with dot products alone, one with neither. Needs qemu-aarch64-static (Debian's
# qemu-user-static) and an arm64 C library (libc6-arm64-cross), since programs that look
# for GPUs are linked with it. Skipped without them, unless REQUIRE_ARM64 is set.

.PHONY: test-arm64 test-arm64-all

QEMU       ?= qemu-aarch64-static
ARM64_LIBC ?= /usr/aarch64-linux-gnu
ARM64      := $(CURDIR)/build/arm64
# An emulator doesn't say where a file that was cut short was touched.
ARM64_SKIP := /OfAFileCutShort
ARM64_TEXT := ^Example|TestLogitsAreAsClose

# The tests of a package on a CPU: package, CPU, pattern, pattern of what to skip.
arm64_run = cd $(1) && $(QEMU) -L $(ARM64_LIBC) -cpu $(2) $(ARM64)/$(notdir $(1)).test -test.short -test.run '$(3)' -test.skip '$(ARM64_SKIP)$(4)'

# A level that another CPU is tested with is skipped.
arm64_levels = |/^($(1))$$|//^($(1))$$

test-arm64:
	@if command -v $(QEMU) >/dev/null && [ -e $(ARM64_LIBC)/lib/ld-linux-aarch64.so.1 ]; then \
		$(MAKE) --no-print-directory test-arm64-all; \
	else \
		echo "test-arm64 needs $(QEMU) and $(ARM64_LIBC): apt-get install qemu-user-static libc6-arm64-cross"; \
		[ -z "$(REQUIRE_ARM64)" ]; \
	fi

test-arm64-all:
	@mkdir -p $(ARM64)
	@GOARCH=arm64 $(GO) test -c -o $(ARM64)/ ./internal/panel ./kernels/cpu ./pipeline/generate
	@echo "== arm64 with smmla (qemu's max): kernels, ops, texts"
	@$(call arm64_run,internal/panel,max,.,$(call arm64_levels,neon-dot|neon))
	@$(call arm64_run,kernels/cpu,max,.)
	@$(call arm64_run,pipeline/generate,max,$(ARM64_TEXT))
	@echo "== arm64 with sdot (cortex-a76): what differs, and texts"
	@$(call arm64_run,internal/panel,cortex-a76,Int|AResult|Mistakes|Nothing|Levels,$(call arm64_levels,neon|portable))
	@$(call arm64_run,kernels/cpu,cortex-a76,MatMul)
	@$(call arm64_run,pipeline/generate,cortex-a76,$(ARM64_TEXT))
	@echo "== arm64 with neither (cortex-a57): kernels, products, texts"
	@$(call arm64_run,internal/panel,cortex-a57,.,$(call arm64_levels,portable))
	@$(call arm64_run,kernels/cpu,cortex-a57,MatMul)
	@$(call arm64_run,pipeline/generate,cortex-a57,$(ARM64_TEXT))
