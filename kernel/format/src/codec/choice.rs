//! Choose which compressor to use for each block: this crate's, which is optimized for similar records, or the library's.

use super::repeats::{Finder, Format, Input, Shape, compress, compress_two};

/// Size of the sample of a block that both compress in order to compare them.
const SAMPLE: usize = 16 << 10;
/// Size of a first sample that only this crate compresses, which excludes most blocks that do not suit it.
const SMALL_SAMPLE: usize = 4 << 10;
/// How many blocks use a choice before another sample is taken.
const BLOCKS_A_SAMPLE: usize = 64;
/// The library compresses shorter blocks,
const SHORTEST: usize = 1 << 10;
/// and blocks that become this many times smaller, in which there is little to gain.
const HIGH_RATIO: usize = 8;

/// Compresses blocks, by this crate if their records are similar enough.
#[derive(Default)]
pub struct Choice {
    finders: [Finder; 2],
    /// The second of two compressed blocks.
    second: Vec<u8>,
    /// Whether this crate's compressor suited the last sample.
    ours_suits: bool,
    /// How many blocks there were since the last sample, its own included, and the size of the sample, 0 without one.
    blocks: usize,
    sample_bytes: usize,
}

impl Choice {
    /// Forgets previous blocks.
    pub fn begin(&mut self) {
        self.finders.iter_mut().for_each(Finder::clear);
        (self.ours_suits, self.blocks, self.sample_bytes) = (false, 0, 0);
    }

    /// Appends the input in compressed blocks of `block_bytes` bytes. `library` compresses those that do not suit this
    /// crate; it may append nothing if a block is not compressible. Each compressed block follows four bytes, which
    /// `frame` fills in; its arguments are the block, the index of the four bytes, and the output. `next` is what the
    /// caller reads next: it is prefetched.
    pub fn compress<F: Format>(
        &mut self,
        input: &[u8],
        next: &[u8],
        block_bytes: usize,
        out: &mut Vec<u8>,
        mut library: impl FnMut(&[u8], &mut Vec<u8>),
        frame: impl Fn(&[u8], usize, &mut Vec<u8>),
    ) {
        let mut blocks = input.chunks(block_bytes).enumerate().map(|(number, block)| {
            let ahead = next.get(number * block_bytes..).filter(|ahead| ahead.len() >= block.len());
            Input { block, ahead: ahead.unwrap_or(block) }
        });
        while let Some(input) = blocks.next() {
            let block = input.block;
            let by_ours = self.ours_suits::<F>(block, out, &mut library);
            let begins = out.len();
            out.extend([0; 4]);
            match by_ours.then(|| blocks.next()) {
                None => library(block, out),
                Some(None) => drop(compress::<F>(&mut self.finders[0], input, out)),
                Some(Some(second)) => {
                    self.blocks += 1;
                    self.second.clear();
                    self.second.extend([0; 4]);
                    compress_two::<F>(&mut self.finders, [input, second], [out, &mut self.second]);
                    frame(second.block, 0, &mut self.second);
                    frame(block, begins, out);
                    out.extend_from_slice(&self.second);
                    continue;
                }
            }
            frame(block, begins, out);
        }
    }

    fn ours_suits<F: Format>(
        &mut self,
        block: &[u8],
        out: &mut Vec<u8>,
        library: impl FnOnce(&[u8], &mut Vec<u8>),
    ) -> bool {
        if block.len() < SHORTEST {
            return false;
        }
        self.blocks += 1;
        let sample = &block[..block.len().min(SAMPLE)];
        // In a longer block, more repetitions are missed than in a shorter sample, so a short sample says little.
        if self.blocks > BLOCKS_A_SAMPLE || self.sample_bytes < sample.len() / 2 {
            self.ours_suits = self.is_alike::<F>(&sample[..sample.len().min(SMALL_SAMPLE)], out).is_some()
                && self.is_alike::<F>(sample, out).is_some_and(|our_bytes| {
                    let library_bytes = bytes_appended(out, |out| library(sample, out));
                    500 * our_bytes <= 501 * library_bytes && our_bytes > sample.len() / HIGH_RATIO
                });
            (self.blocks, self.sample_bytes) = (1, sample.len());
        }
        self.ours_suits
    }

    /// The compressed size of a sample, if most of its repetitions are where they were expected: then this crate is the
    /// faster one.
    fn is_alike<F: Format>(&mut self, sample: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let mut shape = Shape::default();
        let our_bytes = bytes_appended(out, |out| shape = compress::<F>(&mut self.finders[0], sample.into(), out));
        (3 * shape.searched < shape.sequences).then_some(our_bytes)
    }
}

/// How many bytes `append` appends. They are removed again.
fn bytes_appended(out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) -> usize {
    let begins = out.len();
    append(out);
    let appended = out.len() - begins;
    out.truncate(begins);
    appended
}

#[cfg(test)]
mod tests {
    use super::super::lz4_write::Lz4;
    use super::super::repeats::tests::{Noise, records};
    use super::*;

    /// The compressed size of each block, where the library compresses two bytes to one.
    fn compressed(choice: &mut Choice, blocks: &[&[u8]]) -> Vec<usize> {
        let mut bytes = |block: &[u8]| {
            let mut out = Vec::new();
            let library = |block: &[u8], out: &mut Vec<u8>| out.extend(&block[..block.len() / 2]);
            choice.compress::<Lz4>(block, &[], block.len(), &mut out, library, |_, _, _| ());
            out.len() - 4
        };
        blocks.iter().map(|block| bytes(block)).collect()
    }

    #[test]
    fn a_sample_decides_until_the_next_one() {
        let mut noise = Noise(3);
        let (noise, records) = (&noise.bytes(20_000)[..], &records(&mut noise, 20_000)[..]);
        let mut choice = Choice::default();
        let short = &records[..SHORTEST - 1];
        let found = compressed(&mut choice, &[short, noise, records, records]);
        assert_eq!(found, [short.len() / 2, 10_000, 10_000, 10_000]);
        assert_eq!(compressed(&mut choice, &[noise; BLOCKS_A_SAMPLE - 3]), [10_000; BLOCKS_A_SAMPLE - 3]);
        let found = compressed(&mut choice, &[records, short, noise]);
        assert!(found[0] < 10_000 && found[1] == short.len() / 2 && found[2] > 20_000, "{found:?}");
    }

    #[test]
    fn a_short_sample_decides_for_short_blocks() {
        let mut noise = Noise(4);
        let (noise, records) = (&noise.bytes(5000)[..], &records(&mut noise, 20_000)[..]);
        let mut choice = Choice::default();
        assert_eq!(compressed(&mut choice, &[noise, &records[..9000]]), [2500, 4500]);
        let found = compressed(&mut choice, &[records, noise]);
        assert!(found[0] < 10_000 && found[1] > 5000, "{found:?}");
        choice.begin();
        assert_eq!(compressed(&mut choice, &[noise]), [2500]);
        choice.begin();
        assert!(compressed(&mut choice, &[&records[..5000]])[0] < 2500);
    }
}
