// Kernels with one fault each, and the same kernels without it. `race_*`, `hazard_*` and `memory_*` have a fault that
// the plugin of that name must report; `good_*` have none. Called with 4 workgroups of 256 work-items.
// Arguments: out (4096 bytes and more), in (5120 bytes), flag (256 zero bytes).
#define kernel extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256))) void
#define lds __attribute__((shared))
#define item __builtin_amdgcn_workitem_id_x()
#define group __builtin_amdgcn_workgroup_id_x()
typedef unsigned u32;
typedef unsigned char u8;

static __attribute__((device)) inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// A missing barrier between a store to LDS and a load by another wave.
kernel race_lds_barrier(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[256];
    words[item] = in[item];
    out[group * 256 + item] = words[item ^ 64];
}
kernel good_lds_barrier(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[256];
    words[item] = in[item];
    barrier();
    out[group * 256 + item] = words[item ^ 64];
}

// Two buffers in turn: a barrier is missing before the second round stores where slow waves may still load.
kernel race_lds_double_buffer(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[2][256];
    u32 sum = 0;
    for (u32 i = 0; i < 4; ++i) {
        words[0][item] = in[item] + i;
        barrier();
        sum += words[0][item ^ 64];
    }
    out[group * 256 + item] = sum;
}
kernel good_lds_double_buffer(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[2][256];
    u32 sum = 0;
    for (u32 i = 0; i < 4; ++i) {
        words[i & 1][item] = in[item] + i;
        barrier();
        sum += words[i & 1][item ^ 64];
    }
    out[group * 256 + item] = sum;
}

// A histogram by atomics, read before everybody has counted.
kernel race_lds_histogram(u32 *out, const u32 *in, u32 *) {
    lds static u32 bins[256];
    bins[item] = 0;
    barrier();
    __hip_atomic_fetch_add(&bins[in[item] & 255], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    out[group * 256 + item] = bins[item];
}
kernel good_lds_histogram(u32 *out, const u32 *in, u32 *) {
    lds static u32 bins[256];
    bins[item] = 0;
    barrier();
    __hip_atomic_fetch_add(&bins[in[item] & 255], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    out[group * 256 + item] = bins[item];
}

// Single bytes of a word: neighbours are no race, the same byte is.
kernel race_lds_bytes(u32 *out, const u32 *in, u32 *) {
    lds static u8 bytes[256];
    bytes[item & 63] = in[item];
    barrier();
    out[group * 256 + item] = bytes[item];
}
kernel good_lds_bytes(u32 *out, const u32 *in, u32 *) {
    lds static u8 bytes[256];
    bytes[(item & 63) * 4 + item / 64] = in[item];
    barrier();
    out[group * 256 + item] = bytes[item];
}

// Workgroups whose ranges of memory overlap by one element.
kernel race_global_overlap(u32 *out, const u32 *in, u32 *) {
    out[group * 255 + item] = in[item];
}
kernel good_global_ranges(u32 *out, const u32 *in, u32 *) {
    out[group * 256 + item] = in[item];
}

// A neighbour's result, without any order between the two.
kernel race_global_neighbour(u32 *out, const u32 *in, u32 *) {
    out[group * 256 + item] = in[item];
    u32 other = out[(group ^ 1) * 256 + item];
    out[1024 + group * 256 + item] = other;
}

// Workgroup 0 produces, workgroup 1 waits for its flag and consumes.
template <int RELEASE, int ACQUIRE, int SCOPE>
static __attribute__((device)) inline void hand_over(u32 *out, const u32 *in, u32 *flag) {
    if (group == 0) {
        out[item] = in[item];
        barrier();
        if (item == 0)
            __hip_atomic_store(flag, 1, RELEASE, SCOPE);
    } else if (group == 1) {
        if (item == 0)
            while (__hip_atomic_load(flag, ACQUIRE, SCOPE) == 0)
                __builtin_amdgcn_s_sleep(1);
        barrier();
        out[256 + item] = out[item];
    }
}
kernel good_global_flag(u32 *out, const u32 *in, u32 *flag) {
    hand_over<__ATOMIC_RELEASE, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT>(out, in, flag);
}
kernel race_global_relaxed(u32 *out, const u32 *in, u32 *flag) {
    hand_over<__ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT>(out, in, flag);
}
// The scope is too small: the flag and the data are only for the producer's workgroup.
kernel race_global_scope(u32 *out, const u32 *in, u32 *flag) {
    hand_over<__ATOMIC_RELEASE, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP>(out, in, flag);
}
kernel race_global_no_acquire(u32 *out, const u32 *in, u32 *flag) {
    hand_over<__ATOMIC_RELEASE, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT>(out, in, flag);
}
#if defined(__gfx942__) || defined(__gfx950__)
// Only where stores need a write-back to be seen elsewhere.
kernel race_global_no_release(u32 *out, const u32 *in, u32 *flag) {
    hand_over<__ATOMIC_RELAXED, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT>(out, in, flag);
}
#endif

// Only where instructions say how far an atomic is seen.
#if defined(__GFX12__)
// Workgroups add to one word, each as if nobody else did.
kernel race_global_atomic_scope(u32 *out, const u32 *in, u32 *) {
    __hip_atomic_fetch_add(out, in[item], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}
kernel good_global_atomic_scope(u32 *out, const u32 *in, u32 *) {
    __hip_atomic_fetch_add(out, in[item], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(out + 1 + group, in[item], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}
// A flag that an atomic of the producer's workgroup sets.
template <int SCOPE> static __attribute__((device)) inline void hand_over_by_atomic(u32 *out, const u32 *in, u32 *flag) {
    if (group == 0) {
        out[item] = in[item];
        barrier();
        if (item == 0)
            __hip_atomic_fetch_add(flag, 1, __ATOMIC_RELEASE, SCOPE);
    } else if (group == 1) {
        if (item == 0)
            while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0)
                __builtin_amdgcn_s_sleep(1);
        barrier();
        out[256 + item] = out[item];
    }
}
kernel race_global_flag_atomic(u32 *out, const u32 *in, u32 *flag) {
    hand_over_by_atomic<__HIP_MEMORY_SCOPE_WORKGROUP>(out, in, flag);
}
kernel good_global_flag_atomic(u32 *out, const u32 *in, u32 *flag) {
    hand_over_by_atomic<__HIP_MEMORY_SCOPE_AGENT>(out, in, flag);
}
// Waves of a workgroup take turns by atomics for the workgroup.
kernel good_global_turns(u32 *out, const u32 *in, u32 *flag) {
    u32 wave = item / __builtin_amdgcn_wavefrontsize(), *turn = flag + 16 * group;
    if (item % __builtin_amdgcn_wavefrontsize() == 0) {
        u32 free = wave;
        while (!__hip_atomic_compare_exchange_strong(turn, &free, wave + 256, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED,
                                                     __HIP_MEMORY_SCOPE_WORKGROUP)) {
            free = wave;
            __builtin_amdgcn_s_sleep(1);
        }
        out[group] += in[item];
        __hip_atomic_fetch_sub(turn, 255, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
    }
}
#endif

// The last workgroup adds up what the others have stored, as block reductions do.
kernel good_global_ticket(u32 *out, const u32 *in, u32 *flag) {
    lds static u32 ticket;
    out[group * 256 + item] = in[item];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    barrier();
    if (item == 0)
        ticket = __hip_atomic_fetch_add(flag, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
    barrier();
    if (ticket != 3)
        return;
    u32 sum = 0;
    for (u32 i = 0; i < 4; ++i)
        sum += out[i * 256 + item];
    out[1024 + item] = sum;
}

// Loads that the compiler does not know of, so that it inserts no wait.
kernel hazard_vector_load(u32 *out, const u32 *in, u32 *) {
    u32 value;
    const u32 *from = in + item;
#if defined(__GFX12__)
    asm volatile("global_load_b32 %0, %1, off" : "=v"(value) : "v"(from));
#else
    asm volatile("global_load_dword %0, %1, off" : "=v"(value) : "v"(from));
#endif
    out[group * 256 + item] = value + 1;
}
kernel hazard_scalar_load(u32 *out, const u32 *in, u32 *) {
    u32 value;
#if defined(__GFX12__)
    asm volatile("s_load_b32 %0, %1, 0x0" : "=s"(value) : "s"(in));
#else
    asm volatile("s_load_dword %0, %1, 0x0" : "=s"(value) : "s"(in));
#endif
    out[group * 256 + item] = value + item;
}
kernel hazard_lds_load(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[256];
    words[item] = in[item];
    barrier();
    u32 value, at = (u32)(__UINTPTR_TYPE__)(__attribute__((address_space(3))) u32 *)&words[item];
#if defined(__GFX12__)
    asm volatile("ds_load_b32 %0, %1" : "=v"(value) : "v"(at) : "memory");
#else
    asm volatile("ds_read_b32 %0, %1" : "=v"(value) : "v"(at) : "memory");
#endif
    out[group * 256 + item] = value * 3;
}
// A wait that leaves one load too many under way.
kernel hazard_short_wait(u32 *out, const u32 *in, u32 *) {
    u32 first, second;
    const u32 *from = in + item;
#if defined(__GFX12__)
    asm volatile("global_load_b32 %0, %2, off\n\tglobal_load_b32 %1, %2, off offset:4\n\ts_wait_loadcnt 0x1"
                 : "=&v"(first), "=&v"(second) : "v"(from));
#else
    asm volatile("global_load_dword %0, %2, off\n\tglobal_load_dword %1, %2, off offset:4\n\ts_waitcnt vmcnt(1)"
                 : "=&v"(first), "=&v"(second) : "v"(from));
#endif
    out[group * 256 + item] = first;
    out[1024 + group * 256 + item] = second;
}
kernel good_wait(u32 *out, const u32 *in, u32 *) {
    u32 first, second;
    const u32 *from = in + item;
#if defined(__GFX12__)
    asm volatile("global_load_b32 %0, %2, off\n\tglobal_load_b32 %1, %2, off offset:4\n\ts_wait_loadcnt 0x0"
                 : "=&v"(first), "=&v"(second) : "v"(from));
#else
    asm volatile("global_load_dword %0, %2, off\n\tglobal_load_dword %1, %2, off offset:4\n\ts_waitcnt vmcnt(0)"
                 : "=&v"(first), "=&v"(second) : "v"(from));
#endif
    out[group * 256 + item] = first;
    out[1024 + group * 256 + item] = second;
}

// Copies from memory to LDS, past the registers, with and without the wait that tells that they are there.
#if defined(__gfx1250__)
#define COPY(wait) "global_load_async_to_lds_b32 %1, %0, off\n" wait
#define WAIT_FOR_COPY "s_wait_asynccnt 0x0"
#elif defined(__gfx942__) || defined(__gfx950__)
#define COPY(wait) "s_mov_b32 m0, %2\ns_nop 0\nglobal_load_lds_dword %0, off\n" wait
#define WAIT_FOR_COPY "s_waitcnt vmcnt(0)"
#endif
#ifdef COPY
typedef __attribute__((address_space(3))) u32 lds_u32;
#define COPIED(wait)                                                                                                   \
    lds static u32 words[256];                                                                                         \
    u32 at = (u32)(__UINTPTR_TYPE__)(lds_u32 *)&words[item];                                                           \
    u32 first = __builtin_amdgcn_readfirstlane(at);                                                                    \
    asm volatile(COPY(wait) : : "v"(in + item), "v"(at), "s"(first) : "memory");                                       \
    out[group * 256 + item] = *(volatile lds_u32 *)(lds_u32 *)&words[item]
// It is also a race: of the copy with the wave's own load.
kernel hazard_race_lds_copy(u32 *out, const u32 *in, u32 *) {
    COPIED("");
}
kernel good_lds_copy(u32 *out, const u32 *in, u32 *) {
    COPIED(WAIT_FOR_COPY);
}
// All waves meet at a barrier, but none has waited.
kernel hazard_race_lds_copy_barrier(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[256];
    u32 at = (u32)(__UINTPTR_TYPE__)(lds_u32 *)&words[item];
    u32 first = __builtin_amdgcn_readfirstlane(at);
    asm volatile(COPY("") : : "v"(in + item), "v"(at), "s"(first) : "memory");
    barrier();
    out[group * 256 + item] = *(volatile lds_u32 *)(lds_u32 *)&words[255 - item];
}
#endif

// The same copies by buffer instructions, the only ones of gfx90a.
#if defined(__GFX9__)
typedef __attribute__((address_space(3))) u32 lds_word;
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
#define BUFFER_COPY(wait)                                                                                              \
    lds static u32 words[256];                                                                                         \
    u32 at = (u32)(__UINTPTR_TYPE__)(lds_word *)&words[item];                                                          \
    u32 first = __builtin_amdgcn_readfirstlane(at);                                                                    \
    unsigned long long base = (unsigned long long)in;                                                                  \
    u32x4 buffer = {(u32)base, (u32)(base >> 32), 5120, 0x20000};                                                      \
    asm volatile("s_mov_b32 m0, %2\ns_nop 0\nbuffer_load_dword %0, %1, 0 offen lds\n" wait                             \
                 :                                                                                                     \
                 : "v"(4 * item), "s"(buffer), "s"(first)                                                              \
                 : "memory")
#define COPIED_WORD(index) out[group * 256 + item] = *(volatile lds_word *)(lds_word *)&words[index]
kernel hazard_race_lds_buffer(u32 *out, const u32 *in, u32 *) {
    BUFFER_COPY("");
    COPIED_WORD(item);
}
kernel good_lds_buffer(u32 *out, const u32 *in, u32 *) {
    BUFFER_COPY("s_waitcnt vmcnt(0)");
    COPIED_WORD(item);
}
kernel hazard_race_lds_buffer_barrier(u32 *out, const u32 *in, u32 *) {
    BUFFER_COPY("");
    barrier();
    COPIED_WORD(255 - item);
}
#endif

// One element behind the end of `in`, in the rest of its last page.
kernel memory_out_of_bounds(u32 *out, const u32 *in, u32 *) {
    out[group * 256 + item] = in[group * 256 + item + 257];
}
kernel memory_lds_out_of_bounds(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[256];
    words[item] = in[item];
    barrier();
    volatile u32 *behind = words;
    out[group * 256 + item] = behind[item + 1];
}
kernel memory_uninitialised_lds(u32 *out, const u32 *in, u32 *) {
    lds static u32 words[256];
    if (item < 128)
        words[item] = in[item];
    barrier();
    out[group * 256 + item] = words[item];
}

// Far behind a buffer, where the next one lies: found only with a red zone as large.
kernel memory_redzone(u32 *out, const u32 *in, u32 *) {
    out[group * 256 + item] = in[18432 + (item & 63)];
}

// Just before a buffer, and behind the one before it as far as a red zone reaches.
kernel memory_redzone_before(u32 *out, const u32 *in, u32 *) {
    out[group * 256 + item] = in[-1 - (int)(item & 63)];
}

// An atomic at an address that is no multiple of its size.
kernel memory_misaligned_atomic(u32 *out, const u32 *, u32 *) {
    u8 *bytes = (u8 *)(out + item) + 2;
    __hip_atomic_fetch_add((u32 *)bytes, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// A register that nothing has written.
kernel memory_uninitialised_register(u32 *out, const u32 *, u32 *) {
    u32 x;
    asm volatile("v_mov_b32 %0, v20" : "=v"(x) : : "v20");
    out[group * 256 + item] = x;
}

// The same of scalar registers, of a register that work-item ids would be in if the kernel asked for them, and of the half
// that an instruction leaves.
kernel memory_uninitialised_scalar(u32 *out, const u32 *, u32 *) {
    u32 x;
    asm volatile("v_mov_b32 %0, s40" : "=v"(x) : : "s40");
    out[group * 256 + item] = x;
}
kernel memory_uninitialised_given(u32 *out, const u32 *, u32 *) {
    u32 x;
    asm volatile("v_mov_b32 %0, v2" : "=v"(x) : : "v2");
    out[group * 256 + item] = x;
}
#if defined(__GFX9__)
#define HALF(low, word) "v_mov_b32_sdwa v20, %1 dst_sel:" word " dst_unused:UNUSED_PRESERVE src0_sel:DWORD\ns_nop 1\n"
#elif defined(__gfx1201__)
#define FROM in + item
#define HALF(low, word) LOAD_##low
#define LOAD_l "global_load_d16_b16 v20, %1, off\ns_wait_loadcnt 0x0\n"
#define LOAD_h "global_load_d16_hi_b16 v20, %1, off\ns_wait_loadcnt 0x0\n"
#else
#define HALF(low, word) "v_mov_b16_e32 v20." #low ", %1.l\n"
#endif
#ifndef FROM
#define FROM item
#endif
#if !defined(__gfx1250__)
kernel memory_uninitialised_half(u32 *out, const u32 *in, u32 *) {
    float x;
    asm volatile(HALF(l, "WORD_0") "v_add_f32 %0, v20, v20" : "=v"(x) : "v"(FROM) : "v20");
    out[group * 256 + item] = __builtin_bit_cast(u32, x);
}
kernel good_halves(u32 *out, const u32 *in, u32 *) {
    float x;
    asm volatile(HALF(l, "WORD_0") HALF(h, "WORD_1") "v_add_f32 %0, v20, v20" : "=v"(x) : "v"(FROM) : "v20");
    out[group * 256 + item] = __builtin_bit_cast(u32, x);
}
#endif

// The second half of the output, which the host has not filled either.
kernel memory_uninitialised_memory(u32 *out, const u32 *, u32 *) {
    out[group * 256 + item] = out[1024 + item];
}

// Instructions that follow each other too closely for hardware that does not wait by itself.
#if __gfx90a__ || __gfx942__ || __gfx950__
#define TOO_CLOSE(between) "s_nop 0\nv_readfirstlane_b32 s40, %1\n" between "v_readlane_b32 s41, %1, s40\ns_nop 7\nv_mov_b32 %0, s41"
#define MEND "s_nop 3\n"
#elif __gfx1100__
#define TOO_CLOSE(between) "v_exp_f32 v20, %1\n" between "v_add_f32 %0, v20, v20"
#define MEND "s_waitcnt_depctr 0xfff\n"
#elif __gfx1250__
#define TOO_CLOSE(between) "v_exp_f32 v20, %1\n" between "v_add_f32 %0, v20, v20"
#define MEND "v_nop\n"
#else
#define TOO_CLOSE(between) "v_add_nc_u32 v20, s40, %1\ns_mov_b32 s40, 7\n" between "v_add_nc_u32 %0, s40, v20"
#define MEND "s_wait_alu 0xfffe\n"
#endif
kernel hazard_close(u32 *out, const u32 *, u32 *) {
    u32 x;
    asm volatile(TOO_CLOSE("") : "=v"(x) : "v"(item & 15) : "v20", "s40", "s41");
    out[group * 256 + item] = x;
}
kernel good_nop(u32 *out, const u32 *, u32 *) {
    u32 x;
    asm volatile(TOO_CLOSE(MEND) : "=v"(x) : "v"(item & 15) : "v20", "s40", "s41");
    out[group * 256 + item] = x;
}
