// Kernels in gfx12's expert scheduling mode, in which the program waits for vector arithmetic and for the registers of memory
// instructions by itself. `data_hazard` has nothing to report of them, and reports most that lack one of these waits. Called
// with 4 workgroups of 256 work-items; `in` has 1280 words.

#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define kernel extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(256, 256)))

typedef unsigned u32;

static __device__ u32 item() { return __builtin_amdgcn_workitem_id_x(); }
static __device__ u32 index() { return __builtin_amdgcn_workgroup_id_x() * 256 + item(); }

static __device__ void meet() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// A result is an address, and what is stored; sources of loads are overwritten.
kernel gather(u32 *out, const u32 *in, u32 *) {
    u32 at = index() * 5 + 3;
    for (int i = 0; i < 6; i++) {
        u32 value = in[at & 1023];
        out[(at & 255) + (index() & ~255u)] = value * at;
        at = at * 7 + value;
    }
}

// A sum of the workgroup in LDS.
kernel reduce(u32 *out, const u32 *in, u32 *) {
    __shared__ u32 lds[256];
    lds[item()] = in[index()] & 0xff;
    meet();
    for (u32 step = 128; step > 0; step /= 2) {
        if (item() < step)
            lds[item()] += lds[item() + step];
        meet();
    }
    out[index()] = lds[0] + item();
}

// Plain, transcendental and double precision arithmetic overtake each other.
kernel pipes(u32 *out, const u32 *in, u32 *) {
    float sum = 0;
    double other = 1;
    for (int i = 0; i < 4; i++) {
        float value = (float)(in[index() ^ i] & 0xffff) * 1e-4f;
        sum += __builtin_amdgcn_exp2f(value) + __builtin_amdgcn_rcpf(value + 1);
        other = other * (double)value + (double)sum;
        out[index()] = __builtin_bit_cast(u32, sum);
        ((double *)out)[1024 + (index() & 511)] = other;
    }
}
