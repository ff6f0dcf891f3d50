#!/bin/sh
# Compiles seeded.hip and taint.hip for the targets that the tests use, and expert.hip for those with its scheduling mode. Needs clang with the AMDGPU target, and lld.
cd "$(dirname "$0")" || exit 1
for target in gfx90a gfx942 gfx950 gfx1100 gfx1201 gfx1250; do
    for name in seeded taint; do
        "${CLANG:-clang-22}" -x hip --offload-device-only --offload-arch=$target -nogpuinc -nogpulib -O2 -g -fdebug-compilation-dir=data/plugins \
            -fuse-ld=lld-22 --no-gpu-bundle-output -o built/$name.$target.hsaco $name.hip || exit 1
    done
done
for target in gfx1201 gfx1250; do
    "${CLANG:-clang-22}" -x hip --offload-device-only --offload-arch=$target -nogpuinc -nogpulib -O2 -g -fdebug-compilation-dir=data/plugins \
        -mllvm -amdgpu-expert-scheduling-mode -fuse-ld=lld-22 --no-gpu-bundle-output -o built/expert.$target.hsaco expert.hip || exit 1
done
