//! Every way a producer may have compressed a batch, and the bytes nobody may have.

mod common;

use std::io::Write;

use common::{batch, options, record, rows, snappy_block, xerial};
use flate2::Compression;
use flate2::write::GzEncoder;
use kafka_log_format::codec::{Codec, Decompressor, SLACK};
use kafka_log_format::damage::Kind;
use xxhash_rust::xxh32::xxh32;

const LIMIT: usize = 1 << 20;

fn decompress(codec: Codec, magic: i8, input: &[u8], limit: usize) -> Result<Vec<u8>, Kind> {
    let mut decompressor = Decompressor::default();
    let result = decompressor.decompress(codec, magic, input, limit);
    result.map(|out| out[..out.len() - SLACK].to_vec()).map_err(|fault| fault.kind)
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32)
        .flat_map(|index| [(index / 7) as u8, (index.wrapping_mul(2654435761) >> 24) as u8 & 15])
        .take(bytes)
        .collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8], with_size: bool) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    context.set_parameter(zstd_safe::CParameter::ContentSizeFlag(with_size)).unwrap();
    let mut frame = vec![0; zstd_safe::compress_bound(content.len())];
    let written = context.compress2(&mut frame[..], content).unwrap();
    frame.truncate(written);
    frame
}

/// An lz4 frame of the given blocks, each compressed or stored.
fn lz4(flags: u8, descriptor: u8, blocks: &[(&[u8], bool)]) -> Vec<u8> {
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, flags, descriptor];
    if flags & 8 != 0 {
        frame.extend((blocks.iter().map(|block| block.0.len()).sum::<usize>() as u64).to_le_bytes());
    }
    frame.push((xxh32(&frame[4..], 0) >> 8) as u8);
    for (content, stored) in blocks {
        let data = if *stored { content.to_vec() } else { lz4_block(content) };
        frame.extend((data.len() as u32 | (u32::from(*stored) << 31)).to_le_bytes());
        frame.extend(&data);
        if flags & 16 != 0 {
            frame.extend(xxh32(&data, 0).to_le_bytes());
        }
    }
    frame.extend([0; 4]);
    if flags & 4 != 0 {
        frame.extend([1, 2, 3, 4]); // wrong, and nobody looks
    }
    frame
}

fn lz4_block(content: &[u8]) -> Vec<u8> {
    let mut block = vec![0; content.len() + content.len() / 200 + 64];
    // SAFETY: both ranges are valid for the lengths given.
    let written = unsafe {
        lz4_sys::LZ4_compress_default(
            content.as_ptr().cast(),
            block.as_mut_ptr().cast(),
            content.len() as i32,
            block.len() as i32,
        )
    };
    block.truncate(written as usize);
    block
}

#[test]
fn gzip_members_follow_each_other() {
    let (one, two) = (content(3000), content(200_000));
    let both = [one.clone(), two.clone()].concat();
    assert_eq!(decompress(Codec::Gzip, 2, &[gzip(&one), gzip(&two)].concat(), LIMIT), Ok(both));
    assert_eq!(decompress(Codec::Gzip, 2, &[gzip(&one), vec![0; 30]].concat(), LIMIT), Ok(one.clone()));
    for trailing in [&b"x"[..], &[0, 0, 1], &[0x1f, 0x8b, 8]] {
        assert_eq!(decompress(Codec::Gzip, 2, &[&gzip(&one), trailing].concat(), LIMIT), Err(Kind::Compression));
    }
}

#[test]
fn zstd_frames_with_and_without_content_size() {
    let data = content(300_000);
    for with_size in [false, true] {
        let frame = zstd(&data, with_size);
        assert_eq!(decompress(Codec::Zstd, 2, &frame, LIMIT).as_ref(), Ok(&data));
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let several = [&frame[..], &skippable, &frame].concat();
        assert_eq!(decompress(Codec::Zstd, 2, &several, LIMIT), Ok([&data[..], &data].concat()));
    }
    assert_eq!(decompress(Codec::Zstd, 1, &zstd(&data, true), LIMIT), Err(Kind::Codec));
}

#[test]
fn snappy_blocks_of_any_size_and_bare_ones() {
    let data = content(70_000);
    for size in [100, 1024, 32 << 10, 1 << 20] {
        let blocks: Vec<&[u8]> = data.chunks(size).collect();
        assert_eq!(decompress(Codec::Snappy, 0, &xerial(&blocks), LIMIT).as_ref(), Ok(&data));
    }
    assert_eq!(decompress(Codec::Snappy, 2, &snappy_block(&data), LIMIT).as_ref(), Ok(&data));
    assert_eq!(decompress(Codec::Snappy, 2, &snappy_block(b"short"), LIMIT), Ok(b"short".to_vec()));
    // 0x82 0x01: a bare block of 130 bytes begins as the magic does.
    assert_eq!(decompress(Codec::Snappy, 2, &snappy_block(&data[..130]), LIMIT), Ok(data[..130].to_vec()));
    let two = [xerial(&[b"one"]), xerial(&[b"two"])].concat();
    assert_eq!(decompress(Codec::Snappy, 2, &two, LIMIT), Ok(b"onetwo".to_vec()));
    // An end within a length is the end of the stream, within a block it is damage.
    assert_eq!(decompress(Codec::Snappy, 2, &[&two[..], &[0; 3]].concat(), LIMIT), Ok(b"onetwo".to_vec()));
    assert_eq!(decompress(Codec::Snappy, 2, &two[..two.len() - 1], LIMIT), Err(Kind::Compression));
    let mut old = two.clone();
    old[11] = 0;
    assert_eq!(decompress(Codec::Snappy, 2, &old, LIMIT), Err(Kind::Compression));
}

#[test]
fn lz4_frames_with_every_flag() {
    let data = content(150_000);
    let blocks: Vec<(&[u8], bool)> = data.chunks(64 << 10).zip([false, true, false]).collect();
    for flags in [0x60, 0x70, 0x68, 0x64, 0x7c] {
        for descriptor in [0x40, 0x50, 0x60, 0x70] {
            let frame = lz4(flags, descriptor, &blocks);
            assert_eq!(decompress(Codec::Lz4, 2, &frame, LIMIT).as_ref(), Ok(&data), "{flags:x} {descriptor:x}");
            assert_eq!(
                decompress(Codec::Lz4, 1, &[&frame[..], &frame].concat(), LIMIT),
                Ok([&data[..], &data].concat())
            );
            assert_eq!(decompress(Codec::Lz4, 1, &frame[..frame.len() - 1], LIMIT), Err(Kind::Compression));
        }
    }
    assert_eq!(decompress(Codec::Lz4, 2, &lz4(0x60, 0x40, &[]), LIMIT), Ok(vec![]));
    for (flags, descriptor) in
        [(0x20, 0x40), (0xa0, 0x40), (0x61, 0x40), (0x62, 0x40), (0x60, 0x30), (0x60, 0x41), (0x60, 0xc0)]
    {
        let frame = lz4(flags, descriptor, &blocks);
        assert_eq!(decompress(Codec::Lz4, 2, &frame, LIMIT), Err(Kind::Compression), "{flags:x} {descriptor:x}");
    }
    // A block is no larger than the frame says.
    assert_eq!(decompress(Codec::Lz4, 2, &lz4(0x60, 0x40, &[(&data, false)]), LIMIT), Err(Kind::Compression));
    assert_eq!(decompress(Codec::Lz4, 2, &lz4(0x60, 0x40, &[(&data, true)]), LIMIT), Err(Kind::Compression));
}

#[test]
fn lz4_checksums_are_checked_where_kafka_checks_them() {
    let frame = lz4(0x70, 0x40, &[(b"some content", true)]);
    assert_eq!(frame[6], 0xad);
    let mut broken_header = frame.clone();
    broken_header[6] = 0xec; // as writers of magic 0 have it
    assert_eq!(decompress(Codec::Lz4, 0, &broken_header, LIMIT), Ok(b"some content".to_vec()));
    assert_eq!(decompress(Codec::Lz4, 1, &broken_header, LIMIT), Err(Kind::Compression));
    let mut broken_block = frame.clone();
    broken_block[12] ^= 1;
    assert_eq!(decompress(Codec::Lz4, 0, &broken_block, LIMIT), Err(Kind::Compression));
}

#[test]
fn lz4_blocks_may_refer_to_the_one_before() {
    // One literal byte and a match of 19 bytes that reaches 12 bytes back, into the stored block before.
    let linked = [0x1f, b'x', 13, 0, 0, 0x50, b'a', b'b', b'c', b'd', b'e'];
    let mut frame = lz4(0x40, 0x40, &[(b"0123456789ab", true)]);
    frame.truncate(frame.len() - 4);
    frame.extend((linked.len() as u32).to_le_bytes());
    frame.extend(linked);
    frame.extend([0; 4]);
    assert_eq!(decompress(Codec::Lz4, 2, &frame, LIMIT), Ok(b"0123456789abx0123456789abx012345abcde".to_vec()));
}

#[test]
fn a_ceiling_holds_for_every_codec() {
    let zeros = vec![0; LIMIT];
    let compressed = [
        (Codec::Gzip, gzip(&zeros)),
        (Codec::Zstd, zstd(&zeros, true)),
        (Codec::Zstd, zstd(&zeros, false)),
        (Codec::Snappy, xerial(&zeros.chunks(32 << 10).collect::<Vec<_>>())),
        (Codec::Snappy, snappy_block(&zeros)),
        (Codec::Lz4, lz4(0x60, 0x70, &[(&zeros, false)])),
        (Codec::Lz4, lz4(0x60, 0x70, &[(&zeros, true)])),
    ];
    for (codec, input) in compressed {
        assert_eq!(decompress(codec, 2, &input, LIMIT).map(|out| out.len()), Ok(LIMIT), "{codec:?}");
        for limit in [LIMIT - 1, LIMIT / 2, 100, 1, 0] {
            assert_eq!(decompress(codec, 2, &input, limit), Err(Kind::TooLarge), "{codec:?} {limit}");
        }
    }
}

#[test]
fn damaged_streams_are_faults() {
    let data = content(1500);
    let streams = [
        (Codec::Gzip, gzip(&data)),
        (Codec::Zstd, zstd(&data, false)),
        (Codec::Snappy, xerial(&[&data[..700], &data[700..]])),
        (Codec::Lz4, lz4(0x70, 0x40, &[(&data, false)])),
    ];
    for (codec, stream) in streams {
        for length in 0..stream.len() {
            if let Ok(out) = decompress(codec, 2, &stream[..length], LIMIT) {
                assert!(codec == Codec::Snappy && data.starts_with(&out), "{codec:?} cut at {length}");
            }
        }
        for at in 0..stream.len() {
            let mut flipped = stream.clone();
            flipped[at] ^= 0x55;
            let _ = decompress(codec, 2, &flipped, LIMIT); // whatever it says, it returns
        }
    }
    for codec in [Codec::Gzip, Codec::Zstd, Codec::Snappy, Codec::Lz4] {
        assert_eq!(decompress(codec, 2, &[], LIMIT), Err(Kind::Compression));
    }
    assert_eq!(decompress(Codec::Unknown(5), 2, &data, LIMIT), Err(Kind::Codec));
}

#[test]
fn a_claimed_length_is_not_believed() {
    // A bare snappy block that claims 2 GiB, and one whose claim is possible but wrong.
    assert_eq!(
        decompress(Codec::Snappy, 2, &[0xff, 0xff, 0xff, 0xff, 0x07, 0, b'x'], usize::MAX >> 1),
        Err(Kind::Compression)
    );
    assert_eq!(decompress(Codec::Snappy, 2, &[40, 0, b'x'], LIMIT), Err(Kind::Compression));
}

#[test]
fn batches_of_every_codec() {
    let records: Vec<u8> =
        (0..500).flat_map(|n| record(n, n, Some(&content(n as usize % 40)), Some(&content(n as usize)))).collect();
    let (expected, _) = rows(&batch(0, 500, &records), &options());
    assert_eq!(expected.len(), 500);
    let streams = [gzip(&records), xerial(&[&records]), lz4(0x60, 0x70, &[(&records, false)]), zstd(&records, false)];
    for (codec, stream) in (1..).zip(streams) {
        let (found, stopped) = rows(&batch(codec, 500, &stream), &options());
        assert_eq!(found, expected, "{codec} {stopped:?}");
    }
}
