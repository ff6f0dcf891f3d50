// Kernels that end as no kernel should; clients/hsa/faults.c says what the runtime must make of them.
kernel void write_to_nothing(void) { *(volatile global int *)0x7654321000ul = 1; }

kernel void no_instruction(void) { __asm volatile(".long 0xffffffff"); }

kernel void nothing(void) {}
