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
