//! Contents of many kinds for the tests of block readers.

/// Splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// Noise, runs, and near and far repetitions of all lengths, from a few bytes to more than a block.
pub fn contents() -> Vec<Vec<u8>> {
    let mut random = Random(1);
    let mut all: Vec<Vec<u8>> = (0..40).map(|bytes| vec![7; bytes]).collect();
    for round in 0..32 {
        let (most, longest) = ([100, 1000, 4000, 30_000][round % 4], [5, 20, 80, 600][round / 4 % 4]);
        let mut content = Vec::new();
        while content.len() < most {
            let bytes = 1 + random.below(longest);
            if random.below(3) == 0 || content.is_empty() {
                content.extend((0..bytes).map(|_| random.below(256) as u8));
            } else {
                let nearest = content.len().min([8, 64, 3000, 65_000][random.below(4)]);
                let offset = 1 + random.below(nearest);
                (0..bytes).for_each(|_| content.push(content[content.len() - offset]));
            }
        }
        all.push(content);
    }
    all
}

/// Copies of the block that are truncated, or have changed or missing bytes.
pub fn damaged(block: &[u8]) -> Vec<Vec<u8>> {
    let mut random = Random(block.len() as u64);
    let mut all = Vec::new();
    for round in 0..if block.is_empty() { 0 } else { 32 } {
        let mut one = block.to_vec();
        let at = random.below(one.len());
        match round % 4 {
            0 => one.truncate(at.max(1)),
            1 => drop(one.remove(at)),
            _ => one[at] ^= 1 << random.below(8),
        }
        all.push(one);
    }
    all
}
