//! Room beside allocations whose addresses the kernel chooses. Alone in its process: what others map counts, too.

use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::Driver;
use rocjitsu_kfd::abi::alloc_flags;
use rocjitsu_kfd::client::{Buffer, Client};

const ROOM: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// What lies between neighbours of 40 allocations of a page, from the least to the most.
fn gaps(driver: Driver) -> Vec<u64> {
    let client = Client::of(driver).unwrap();
    let mut all: Vec<Buffer> = (0..40)
        .map(|_| client.allocate(0, 0, PAGE, alloc_flags::VRAM).unwrap())
        .collect();
    all.sort_by_key(|buffer| buffer.va);
    let mut gaps: Vec<u64> = all
        .windows(2)
        .map(|pair| pair[1].va - pair[0].va - PAGE)
        .collect();
    gaps.sort_unstable();
    gaps
}

#[test]
fn allocations_have_room_beside_them() {
    let driver = || Driver::new(Machine::new(vec![preset_for_target("gfx942").unwrap()])).unwrap();
    let without = gaps(driver());
    assert_eq!(without[20], 0, "one beside the other: {without:x?}");
    let with = gaps(driver().with_red_zones(ROOM - 1).unwrap());
    // The kernel fills small holes between libraries first, where there is less.
    assert!(with[0] >= PAGE && with[10] >= ROOM, "{with:x?}");
    // The addresses are free again.
    let without = gaps(driver());
    assert_eq!(without[20], 0, "{without:x?}");
}
