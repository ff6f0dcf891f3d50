// Kernels in which a result of v_exp_f32, which is within a bound, goes somewhere: `reach_KIND_*` must be reported by the
// plugin `fidelity` with that kind at the line marked HERE, `hold_N_*` leaves N bytes of memory that are not exact and is
// not reported. Called with 4 workgroups of 256 work-items; `in` is zero.

#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define kernel extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(256, 256)))

typedef unsigned u32;
typedef unsigned short u16;

static __device__ u32 item() { return __builtin_amdgcn_workitem_id_x(); }
static __device__ u32 index() { return __builtin_amdgcn_workgroup_id_x() * 256 + item(); }

static __device__ void meet() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// What is not exact: 2 to the power of the input.
static __device__ float bounded(const u32 *in) {
    return __builtin_amdgcn_exp2f((float)in[index()]);
}

kernel reach_address_load(u32 *out, const u32 *in, u32 *) {
    u32 at = (u32)bounded(in);
    out[index()] = in[at]; // HERE
}

kernel reach_address_lds(u32 *out, const u32 *in, u32 *) {
    __shared__ volatile u32 lds[512];
    lds[item()] = item();
    meet();
    u32 at = (u32)bounded(in);
    out[index()] = lds[at]; // HERE
}

kernel reach_exec_lanes(u32 *out, const u32 *in, u32 *) {
    float value = bounded(in);
    if (value > 0.5f) // HERE
        __atomic_store_n(&out[index()], 7, __ATOMIC_RELAXED);
}

kernel reach_branch_uniform(u32 *out, const u32 *in, u32 *) {
    u32 value = __builtin_amdgcn_readfirstlane((u32)bounded(in));
    u32 sum = 0;
    for (u32 i = 0; i < value; i++) { // HERE
        __builtin_amdgcn_s_sleep(1);
        sum += i;
    }
    __atomic_store_n(&out[index()], sum, __ATOMIC_RELAXED);
}

kernel reach_atomic_add(u32 *out, const u32 *in, u32 *) {
    u32 value = (u32)bounded(in);
    __hip_atomic_fetch_add(&out[item()], value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); // HERE
}

kernel hold_4096_words(u32 *out, const u32 *in, u32 *) {
    out[index()] = __builtin_bit_cast(u32, bounded(in));
}

kernel hold_2048_halves(u32 *out, const u32 *in, u32 *) {
    volatile u16 *halves = (volatile u16 *)out;
    halves[2 * index()] = (u16)__builtin_bit_cast(u32, bounded(in));
    halves[2 * index() + 1] = 3;
}

kernel hold_2048_through_lds(u32 *out, const u32 *in, u32 *) {
    __shared__ volatile u32 lds[256];
    u32 value = __builtin_bit_cast(u32, bounded(in));
    lds[item()] = value;
    meet();
    if (item() < 128)
        lds[item()] = 5;
    meet();
    out[index()] = lds[255 - item()];
}

kernel hold_0_overwritten(u32 *out, const u32 *in, u32 *) {
    volatile u32 *place = out;
    place[index()] = __builtin_bit_cast(u32, bounded(in));
    place[index()] = 1;
}

kernel hold_0_exact(u32 *out, const u32 *in, u32 *) { out[index()] = in[index()] + 1; }

// What follows must be known lane by lane: a value that is not exact in every other lane only.
static __device__ u32 odd(const u32 *in) {
    u32 value = 7;
    if (item() & 1)
        value = __builtin_bit_cast(u32, bounded(in));
    return value;
}

kernel hold_2048_lanes(u32 *out, const u32 *in, u32 *) { out[index()] = odd(in); }

// A comparison's mask of lanes chooses between numbers that are exact.
kernel hold_2048_mask(u32 *out, const u32 *in, u32 *) {
    float value = __builtin_bit_cast(float, odd(in));
    u32 a = in[index() + 1] + 3, b = in[index() + 2] + 4;
    asm volatile("" : "+v"(a), "+v"(b), "+v"(value));
    out[index()] = value > 0.5f ? a : b;
}

// All lanes have the number, half of them take another one.
kernel hold_2048_select(u32 *out, const u32 *in, u32 *) {
    u32 value = __builtin_bit_cast(u32, bounded(in));
    u32 other = in[index() + 1];
    out[index()] = (item() & 1) ? value : other;
}

// Masks that scalar instructions join.
kernel hold_2048_masks(u32 *out, const u32 *in, u32 *) {
    float value = __builtin_bit_cast(float, odd(in));
    u32 a = in[index() + 1], b = in[index() + 2] + 1, c = in[index()];
    asm volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(value));
    bool one = value > 0.5f, two = c == 0;
    out[index()] = one && two ? a : b;
}

// Neighbours exchange their values.
kernel hold_2048_dpp(u32 *out, const u32 *in, u32 *) {
    out[index()] = __builtin_amdgcn_update_dpp(0, odd(in), 0xb1, 0xf, 0xf, true);
}

kernel hold_2048_swizzle(u32 *out, const u32 *in, u32 *) {
    out[index()] = __builtin_amdgcn_ds_swizzle(odd(in), 1 << 10 | 0x1f);
}

kernel hold_2048_bpermute(u32 *out, const u32 *in, u32 *) {
    out[index()] = __builtin_amdgcn_ds_bpermute(4 * (item() ^ 1), odd(in));
}

kernel hold_2048_permute(u32 *out, const u32 *in, u32 *) {
    out[index()] = __builtin_amdgcn_ds_permute(4 * (item() ^ 1), odd(in));
}

// A lane that is exact is read, and one that is not.
kernel hold_0_readlane(u32 *out, const u32 *in, u32 *) {
    out[index()] = __builtin_amdgcn_readlane(odd(in), 4);
}

kernel hold_4096_readlane(u32 *out, const u32 *in, u32 *) {
    out[index()] = __builtin_amdgcn_readlane(odd(in), 5);
}
