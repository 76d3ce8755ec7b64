#include "fibers.h"

#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBERS_FOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS_FOR_ASAN 1
#endif
#endif
#if FIBERS_FOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !(defined(__x86_64__) || defined(__aarch64__)) || defined(EMULATOR_UCONTEXT)
#define FIBERS_BY_UCONTEXT 1
#include <ucontext.h>
#endif

namespace emulated {

constexpr uint64_t canary = 0x9e3779b97f4a7c15ull;
constexpr int canaries = 8;

#if FIBERS_BY_UCONTEXT

// A context is a ucontext_t at the bottom of the fiber's stack, behind the canaries.
static void swap(void **from, void *to) {
  swapcontext(static_cast<ucontext_t *>(*from), static_cast<ucontext_t *>(to));
}

static void *first_context(char *stack, size_t bytes, void (*entry)()) {
  ucontext_t *c = reinterpret_cast<ucontext_t *>(stack + canaries * sizeof canary);
  getcontext(c);
  const size_t used = canaries * sizeof canary + sizeof *c;
  c->uc_stack.ss_sp = stack + used;
  c->uc_stack.ss_size = bytes - used;
  c->uc_link = nullptr;
  makecontext(c, entry, 0);
  return c;
}

#else

// emulator_switch saves the registers that a call preserves on the stack, and the
// stack's pointer in *from; then it takes up those of to.
extern "C" void emulator_switch(void **from, void *to);

#if defined(__x86_64__)
asm(R"(
	.text
	.p2align 4
	.local emulator_switch
	.type emulator_switch, @function
emulator_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
	.size emulator_switch, .-emulator_switch
)");

// Six registers, then where to go on. A return rather than a jump: where fibers switch at
// one place of the code, as lanes at a shuffle, the processor foresees it. At entry the stack is as a call leaves it: 8
// off a multiple of 16.
static void *first_context(char *stack, size_t bytes, void (*entry)()) {
  void **top = reinterpret_cast<void **>(stack + bytes) - 8;
  memset(top, 0, 8 * sizeof *top);
  top[6] = reinterpret_cast<void *>(entry);
  return top;
}
#else
asm(R"(
	.text
	.p2align 4
	.local emulator_switch
	.type emulator_switch, %function
emulator_switch:
	sub sp, sp, #160
	stp x19, x20, [sp]
	stp x21, x22, [sp, #16]
	stp x23, x24, [sp, #32]
	stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]
	stp x29, x30, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mov x9, sp
	str x9, [x0]
	mov sp, x1
	ldp x19, x20, [sp]
	ldp x21, x22, [sp, #16]
	ldp x23, x24, [sp, #32]
	ldp x25, x26, [sp, #48]
	ldp x27, x28, [sp, #64]
	ldp x29, x30, [sp, #80]
	ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]
	ldp d14, d15, [sp, #144]
	add sp, sp, #160
	ret
	.size emulator_switch, .-emulator_switch
)");

// Twenty registers; x30 is where to go on.
static void *first_context(char *stack, size_t bytes, void (*entry)()) {
  void **top = reinterpret_cast<void **>(stack + bytes) - 20;
  memset(top, 0, 20 * sizeof *top);
  top[11] = reinterpret_cast<void *>(entry);
  return top;
}
#endif

static void swap(void **from, void *to) { emulator_switch(from, to); }

#endif

Fibers::~Fibers() {
  if (stacks != nullptr) munmap(stacks, fibers.size() * stride);
}

bool Fibers::reserve(int n) {
  if ((int)fibers.size() >= n) return true;
  void *memory =
      mmap(nullptr, n * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (stacks != nullptr) munmap(stacks, fibers.size() * stride);
  stacks = static_cast<char *>(memory);
  fibers.resize(n);
  for (int i = 0; i < n; i++) {
    fibers[i].stack = stacks + i * stride;
    for (int k = 0; k < canaries; k++) reinterpret_cast<uint64_t *>(fibers[i].stack)[k] = canary;
  }
  return true;
}

void Fibers::prepare(int i, void (*entry)()) {
#if FIBERS_FOR_ASAN
  __asan_unpoison_memory_region(fibers[i].stack, stack_bytes);
#endif
  // Stacks that begin at different lines of the cache don't drive each other out.
  const size_t moved = (size_t)(i % 60) * 64;
  fibers[i].context = first_context(fibers[i].stack, stack_bytes - moved, entry);
}

// leave goes to a fiber, or to the scheduler where to is −1, and comes back.
void Fibers::leave(void **from, int to) {
  current = to;
  void *fake = nullptr;
#if FIBERS_FOR_ASAN
  __sanitizer_start_switch_fiber(&fake, to < 0 ? scheduler_stack : fibers[to].stack,
                                 to < 0 ? scheduler_size : stack_bytes);
#endif
  swap(from, to < 0 ? scheduler : fibers[to].context);
  arrive(fake);
}

// arrive tells the sanitizer on which stack the thread runs now.
void Fibers::arrive(void *fake) {
#if FIBERS_FOR_ASAN
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(fake, &bottom, &size);
  if (!from_scheduler) return;
  scheduler_stack = bottom;
  scheduler_size = size;
  from_scheduler = false;
#else
  (void)fake;
#endif
}

void Fibers::resume(int i) {
#if FIBERS_BY_UCONTEXT
  ucontext_t here;
  scheduler = &here;
#endif
  from_scheduler = true;
  leave(&scheduler, i);
}

void Fibers::entered() { arrive(nullptr); }

void Fibers::switch_to(int i) { leave(&fibers[current].context, i); }

bool Fibers::overflowed(int i) const {
  const uint64_t *bottom = reinterpret_cast<const uint64_t *>(fibers[i].stack);
  for (int k = 0; k < canaries; k++) {
    if (bottom[k] != canary) return true;
  }
  return false;
}

} // namespace emulated
