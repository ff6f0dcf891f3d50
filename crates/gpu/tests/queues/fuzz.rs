//! The fuzz target `queues` with inputs that are made here, always the same ones: headers of packets with random words.

#[path = "../../../../fuzz/bodies/queues.rs"]
mod body;

#[test]
fn rings_of_random_packets_end_or_fault() {
    const PM4: [u32; 13] = [
        0x10, 0x15, 0x1e, 0x23, 0x37, 0x3c, 0x3f, 0x40, 0x46, 0x49, 0x50, 0x58, 0x76,
    ];
    let mut state = 0xd1b5_4a32_d192_ed03u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    for input in 0..300u32 {
        let choice = (input % 12) as u8;
        let mut data = vec![choice, 0, 4];
        for word in 0..256u32 {
            let header = word.is_multiple_of(8);
            let value = match (choice % 3, header) {
                // Kernels and barriers; addresses that are mapped, and others.
                (0, _) if word.is_multiple_of(16) => (2 + next() % 5) | next() << 16,
                (1, true) => 3 << 30 | (next() % 8) << 16 | PM4[next() as usize % PM4.len()] << 8,
                (2, true) => (next() % 20) | ((next() % 5) << 8),
                _ if next() % 2 == 0 => 0x10_0000 * (1 + next() % 4) + next() % 512 * 8,
                _ => next() % 64,
            };
            data.extend(value.to_le_bytes());
        }
        body::run(&data);
    }
}
