//! Each codec decompresses what it compressed.

use kafka_log_format::codec::{Codec, Compressor, Decompressor, SLACK};

const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
/// More than one block of lz4, and more than two of snappy.
const MOST_BYTES: usize = 80 << 10;

pub fn run(data: &[u8]) {
    let Some((&[codec, level, times, magic], seed)) = data.split_first_chunk() else { return };
    let codec = CODECS[usize::from(codec) % CODECS.len()];
    // Levels that all codecs with levels have.
    let level = (codec != Codec::Snappy && level < 10).then_some(i32::from(level).max(1));
    let magic = if codec == Codec::Zstd { 2 } else { (magic % 3) as i8 };
    let content = content(seed, times.into());
    let mut compressor = Compressor::default();
    let mut decompressor = Decompressor::default();
    compressor.begin(level);
    // Both halves, then all: contexts are reused, and earlier input must not affect the output.
    let (one, two) = content.split_at(content.len() / 2);
    for (input, next) in [(one, two), (two, &[][..]), (&content[..], one)] {
        let mut out = b"before".to_vec();
        compressor.compress_and_prefetch(codec, magic, input, next, &mut out);
        assert!(out.starts_with(b"before"));
        let found = decompressor.decompress(codec, magic, &out[6..], input.len().max(1));
        let found = found.unwrap_or_else(|fault| panic!("{codec:?}, level {level:?}: {fault:?}"));
        assert!(found[..found.len() - SLACK] == *input, "{codec:?}, level {level:?}: other bytes were read");
    }
}

/// The seed several times, with different bytes before each.
fn content(seed: &[u8], times: usize) -> Vec<u8> {
    let mut content = seed.to_vec();
    for number in 0..times {
        if content.len() + seed.len() > MOST_BYTES {
            break;
        }
        content.extend((number * 7).to_string().bytes());
        content.extend(seed);
    }
    content
}
