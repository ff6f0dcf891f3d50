# Source of the kernels of mod.rs, for llvm-mc -triple=amdgcn-amd-amdhsa. gfx90a where nothing else is said.

# exchange
// one workgroup; v0 = item; s[0:1] = out. 512 items.
  v_lshlrev_b32 v1, 2, v0
  v_add_u32 v2, 64, v0
  v_and_b32 v2, 0x1ff, v2
  v_lshlrev_b32 v2, 2, v2
  v_mov_b32 v3, v0
  s_movk_i32 s4, 24
outer:
  s_movk_i32 s5, 200
inner:
  v_mul_lo_u32 v3, v3, v1
  v_add_u32 v3, 0x3039, v3
  v_xor_b32 v3, v3, v2
  v_alignbit_b32 v3, v3, v3, 7
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  ds_write_b32 v1, v3
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v2
  s_waitcnt lgkmcnt(0)
  v_xor_b32 v3, v3, v4
  s_barrier
  s_sub_u32 s4, s4, 1
  s_cmp_lg_u32 s4, 0
  s_cbranch_scc1 outer
  global_store_dword v1, v3, s[0:1]
  s_endpgm

# ordered
// float sums and tickets of LDS, commuting sums of LDS and memory, between stretches of other work
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v9, 0
  v_mov_b32 v10, 1
  v_mov_b32 v3, v0
  v_mov_b32 v7, 0
  s_movk_i32 s4, 6
outer:
  s_movk_i32 s5, 200
inner:
  v_mul_lo_u32 v3, v3, v1
  v_add_u32 v3, 0x3039, v3
  v_alignbit_b32 v3, v3, v3, 7
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  v_and_b32 v4, 0xffff, v3
  v_cvt_f32_u32 v4, v4
  v_sqrt_f32 v4, v4
  ds_add_u32 v9, v3 offset:8
  ds_xor_b32 v9, v3 offset:12
  global_atomic_add v9, v3, s[0:1] offset:2052
  ds_add_f32 v9, v4
  ds_add_rtn_u32 v6, v9, v10 offset:4
  s_waitcnt lgkmcnt(0)
  v_mad_u32_u24 v7, v7, 3, v6
  s_barrier
  ds_read_b32 v8, v9
  s_waitcnt lgkmcnt(0)
  v_xor_b32 v7, v7, v8
  s_barrier
  s_sub_u32 s4, s4, 1
  s_cmp_lg_u32 s4, 0
  s_cbranch_scc1 outer
  ds_read_b64 v[4:5], v9 offset:8
  s_waitcnt lgkmcnt(0)
  v_xor_b32 v7, v7, v4
  v_add_u32 v7, v7, v5
  global_store_dword v1, v7, s[0:1]
  s_endpgm

# commuting
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v9, 0
  v_mov_b32 v3, v0
  s_movk_i32 s4, 12
outer:
  s_movk_i32 s5, 200
inner:
  v_mul_lo_u32 v3, v3, v1
  v_add_u32 v3, 0x3039, v3
  v_alignbit_b32 v3, v3, v3, 7
  ds_add_u32 v9, v3 offset:8
  ds_max_u32 v9, v3 offset:12
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  global_atomic_add v9, v3, s[0:1] offset:2052
  s_barrier
  ds_read_b64 v[4:5], v9 offset:8
  s_waitcnt lgkmcnt(0)
  v_xor_b32 v3, v3, v4
  v_add_u32 v3, v3, v5
  s_barrier
  s_sub_u32 s4, s4, 1
  s_cmp_lg_u32 s4, 0
  s_cbranch_scc1 outer
  global_store_dword v1, v3, s[0:1]
  s_endpgm

# fault
// waves from 3 on read from address 0 after a while, later waves sooner
  v_lshrrev_b32 v1, 6, v0
  v_readfirstlane_b32 s6, v1
  s_sub_u32 s5, 12, s6
  s_mul_i32 s5, s5, 300
inner:
  v_mul_lo_u32 v3, v3, v0
  v_alignbit_b32 v3, v3, v3, 7
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  s_barrier
  s_sub_u32 s5, 12, s6
  s_mul_i32 s5, s5, 300
inner2:
  v_mul_lo_u32 v3, v3, v0
  v_alignbit_b32 v3, v3, v3, 7
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner2
  s_cmp_lt_u32 s6, 3
  s_cbranch_scc1 good
  v_mov_b32 v4, 0
  v_mov_b32 v5, 0
  global_load_dword v6, v[4:5], off
good:
  s_barrier
  s_endpgm

# spin
// wave 0 waits for a flag in LDS that wave 7 sets after a while
  v_lshlrev_b32 v1, 2, v0
  v_lshrrev_b32 v2, 6, v0
  v_readfirstlane_b32 s6, v2
  v_mov_b32 v9, 0
  v_mov_b32 v10, 5
  s_cmp_eq_u32 s6, 0
  s_cbranch_scc1 wait
  s_movk_i32 s5, 4000
inner:
  v_mul_lo_u32 v3, v3, v0
  v_alignbit_b32 v3, v3, v3, 7
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  s_cmp_lg_u32 s6, 7
  s_cbranch_scc1 done
  ds_write_b32 v9, v10
  s_branch done
wait:
  ds_read_b32 v4, v9
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s7, v4
  s_cmp_eq_u32 s7, 5
  s_cbranch_scc0 wait
done:
  s_barrier
  ds_read_b32 v4, v9
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v4, s[0:1]
  s_endpgm

# chain
// each wave but the last waits for the flag in LDS that the next one sets
  v_lshlrev_b32 v1, 2, v0
  v_lshrrev_b32 v2, 6, v0
  v_readfirstlane_b32 s6, v2
  v_lshlrev_b32 v9, 2, v2
  v_mov_b32 v10, 5
  s_cmp_eq_u32 s6, 7
  s_cbranch_scc1 go
wait:
  ds_read_b32 v4, v9 offset:4
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s7, v4
  s_cmp_eq_u32 s7, 5
  s_cbranch_scc0 wait
go:
  ds_write_b32 v9, v10
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v10, s[0:1]
  s_endpgm

# forever
  s_barrier
loop:
  v_mul_lo_u32 v3, v3, v0
  s_branch loop

# split12
// gfx1201, waves of 32: signal, work, wait
  v_lshlrev_b32 v1, 2, v0
  v_add_nc_u32 v2, 32, v0
  v_and_b32 v2, 0xff, v2
  v_lshlrev_b32 v2, 2, v2
  v_mov_b32 v3, v0
  v_mov_b32 v5, v0
  s_mov_b32 s4, 24
outer:
  ds_store_b32 v1, v3
  s_wait_dscnt 0x0
  s_barrier_signal -1
  s_mov_b32 s5, 200
inner:
  v_mul_lo_u32 v5, v5, v1
  v_add_nc_u32 v5, 0x3039, v5
  v_xor_b32 v5, v5, v2
  s_sub_co_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  s_barrier_wait -1
  ds_load_b32 v4, v2
  s_wait_dscnt 0x0
  v_xor_b32 v3, v5, v4
  s_barrier_signal -1
  s_barrier_wait -1
  s_sub_co_u32 s4, s4, 1
  s_cmp_lg_u32 s4, 0
  s_cbranch_scc1 outer
  global_store_b32 v1, v3, s[0:1]
  s_endpgm

# named1250
// gfx1250, waves of 32: pairs of waves meet at named barriers 1 to 4, then all at the workgroup's
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v2, 32, v0
  v_lshlrev_b32 v2, 2, v2
  v_mov_b32 v3, v0
  v_lshrrev_b32 v6, 6, v0
  v_readfirstlane_b32 s6, v6
  s_add_co_u32 s6, s6, 1
  s_mov_b32 s7, 0x20000
  s_or_b32 m0, s6, s7
  s_barrier_init m0
  s_barrier_signal -1
  s_barrier_wait -1
  s_barrier_join m0
  s_mov_b32 s4, 12
outer:
  s_mov_b32 s5, 200
inner:
  v_mul_lo_u32 v3, v3, v1
  v_add_nc_u32 v3, 0x3039, v3
  s_sub_co_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  ds_store_b32 v1, v3
  s_wait_dscnt 0x0
  s_mov_b32 m0, s6
  s_barrier_signal m0
  s_barrier_wait 1
  ds_load_b32 v4, v2
  s_wait_dscnt 0x0
  v_xor_b32 v3, v3, v4
  s_barrier_signal -1
  s_barrier_wait -1
  s_sub_co_u32 s4, s4, 1
  s_cmp_lg_u32 s4, 0
  s_cbranch_scc1 outer
  global_store_b32 v1, v3, s[0:1]
  s_endpgm

# floats
// denormal and rounded results of f32, f64 and f16, of each lane
  v_lshlrev_b32 v1, 5, v0
  v_add_u32 v2, 1, v0
  v_cvt_f32_u32 v3, v2
  v_rcp_f32 v4, v3
  v_mul_f32 v5, 0x00800001, v4
  v_add_f32 v6, v5, v5
  v_fma_f32 v7, v4, v4, v5
  v_cvt_f64_f32 v[8:9], v4
  v_mul_f64 v[8:9], v[8:9], v[8:9]
  v_cvt_f16_f32 v10, v4
  v_mul_f16 v10, v10, v10
  v_and_b32 v1, 0xfe0, v1
  global_store_dwordx4 v1, v[4:7], s[0:1]
  global_store_dwordx3 v1, v[8:10], s[0:1] offset:16
  s_endpgm

# pivot
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v2, 0
  v_mov_b32 v3, 1
  ds_write_b32 v2, v3
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v2
  s_waitcnt lgkmcnt(0)
  v_add_u32 v3, 1, v4
  v_cmp_eq_u32 vcc, 0x1c0, v0
  s_and_saveexec_b64 s[2:3], vcc
  ds_write_b32 v2, v3
  s_mov_b64 exec, s[2:3]
  global_store_dword v1, v4, s[0:1]
  s_endpgm

# pivots
// wave 7 has the least work before its load, and stores where the others have yet to load
  v_lshlrev_b32 v1, 2, v0
  v_lshrrev_b32 v3, 6, v0
  v_readfirstlane_b32 s6, v3
  v_mov_b32 v2, 0
  v_mov_b32 v3, v0
  v_mov_b32 v7, 0
  s_movk_i32 s4, 24
outer:
  s_movk_i32 s5, 200
inner:
  v_mul_lo_u32 v3, v3, v1
  v_add_u32 v3, 0x3039, v3
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  s_barrier
  s_lshl_b32 s5, s6, 5
  s_sub_u32 s5, 0x100, s5
inner2:
  v_mul_lo_u32 v3, v3, v1
  v_add_u32 v3, 0x3039, v3
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner2
  ds_read_b32 v4, v2
  s_waitcnt lgkmcnt(0)
  v_mad_u32_u24 v7, v7, 3, v4
  s_cmp_lg_u32 s6, 7
  s_cbranch_scc1 done
  v_add_u32 v4, 1, v4
  ds_write_b32 v2, v4
done:
  s_barrier
  s_sub_u32 s4, s4, 1
  s_cmp_lg_u32 s4, 0
  s_cbranch_scc1 outer
  global_store_dword v1, v7, s[0:1]
  s_endpgm

# phases
// the same with turns that are long and short by turns, so that threads come and go
  v_lshlrev_b32 v1, 2, v0
  v_lshrrev_b32 v3, 6, v0
  v_readfirstlane_b32 s6, v3
  v_mov_b32 v2, 0
  v_mov_b32 v3, v0
  v_mov_b32 v7, 0
  s_movk_i32 s4, 1000
  s_barrier
outer:
  s_and_b32 s5, s4, 64
  s_lshl_b32 s5, s5, 1
  s_or_b32 s5, s5, 1
inner:
  v_mul_lo_u32 v3, v3, v1
  v_add_u32 v3, 0x3039, v3
  s_sub_u32 s5, s5, 1
  s_cmp_lg_u32 s5, 0
  s_cbranch_scc1 inner
  ds_read_b32 v4, v2
  s_waitcnt lgkmcnt(0)
  v_mad_u32_u24 v7, v7, 3, v4
  s_cmp_lg_u32 s6, 7
  s_cbranch_scc1 done
  v_add_u32 v4, 1, v4
  ds_write_b32 v2, v4
done:
  s_barrier
  s_sub_u32 s4, s4, 1
  s_cmp_lg_u32 s4, 0
  s_cbranch_scc1 outer
  global_store_dword v1, v7, s[0:1]
  s_endpgm
