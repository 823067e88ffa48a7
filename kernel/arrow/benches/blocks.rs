//! The kernel's readers and writers of LZ4 and snappy beside liblz4 and snap, for each shape of data and two batch sizes:
//!
//!     cargo bench --bench blocks                   # everything, about a minute
//!     cargo bench --bench blocks -- read/lz4       # what has this in its name
//!
//! The blocks to read were written by the library, which Java producers use too, or by the kernel. Speeds are of plain
//! bytes; above 1.00 the kernel is faster.

mod support;

use std::hint::black_box;

use kafka_log_format::codec::{Codec, Compressor, Decompressor};

use support::batches::{MAX_BATCH_BYTES, encoded, payloads};
use support::library::Library;
use support::measure::{Contender, Ratios, in_turn, is_selected};
use support::shapes::SHAPES;

/// Of each shape: more than a processor's second cache.
const BYTES: usize = 4 << 20;
const ROUNDS: usize = 15;
const LIBRARIES: [(Codec, &str); 2] = [(Codec::Lz4, "liblz4"), (Codec::Snappy, "snap")];

fn main() {
    for work in ["read", "write"] {
        for (codec, library) in LIBRARIES {
            let mut ratios = Ratios::default();
            for shape in &SHAPES {
                for batch_size in [16 << 10, 64 << 10] {
                    let place = format!("{work}/{}/{}/{}k", codec.name(), shape.name, batch_size >> 10);
                    if is_selected(&place) {
                        let (batches, _) = encoded(shape, codec, batch_size, BYTES);
                        match work {
                            "read" => read(codec, library, &batches, &place, &mut ratios),
                            _ => write(codec, library, &batches, &place, &mut ratios),
                        }
                    }
                }
            }
            ratios.print_worst(&format!("{work}/{}", codec.name()));
        }
    }
}

fn read(codec: Codec, library_name: &str, batches: &[u8], place: &str, ratios: &mut Ratios) {
    let (by_kernel, contents): (Vec<_>, Vec<_>) = payloads(batches).into_iter().unzip();
    let by_library: Vec<Vec<u8>> = contents.iter().map(|content| Library::new(codec).compress(content)).collect();
    for (writer, frames) in [(library_name, &by_library), ("kernel", &by_kernel)] {
        let bytes = contents.iter().map(Vec::len).sum();
        let (mut decompressor, mut library) = (Decompressor::default(), Library::new(codec));
        let times = in_turn(
            &mut [
                Contender::new("kernel", bytes, || {
                    for frame in frames {
                        black_box(decompressor.decompress(codec, 2, frame, MAX_BATCH_BYTES).expect("a whole frame"));
                    }
                }),
                Contender::new(library_name, bytes, || {
                    for (frame, content) in frames.iter().zip(&contents) {
                        assert_eq!(library.decompress(frame, content.len()), content.len());
                    }
                }),
            ],
            ROUNDS,
        );
        let ratio = times[1] / times[0];
        let place = format!("{place} written by {writer}");
        println!("{place:<52} {:6.0} MB/s, {library_name} {:6.0}: {ratio:5.2}", 1e3 / times[0], 1e3 / times[1]);
        ratios.add(ratio, place);
    }
}

fn write(codec: Codec, library_name: &str, batches: &[u8], place: &str, ratios: &mut Ratios) {
    let contents: Vec<Vec<u8>> = payloads(batches).into_iter().map(|(_, content)| content).collect();
    let bytes = contents.iter().map(Vec::len).sum();
    let (mut compressor, mut library) = (Compressor::default(), Library::new(codec));
    let (mut written, mut by_library) = (0, 0);
    let times = in_turn(
        &mut [
            Contender::new("kernel", bytes, || {
                compressor.begin(None);
                let mut out = Vec::new();
                written = 0;
                for content in &contents {
                    out.clear();
                    compressor.compress(codec, 2, content, &mut out);
                    written += out.len();
                }
            }),
            Contender::new(library_name, bytes, || {
                by_library = contents.iter().map(|content| library.compress(content).len()).sum();
            }),
        ],
        ROUNDS,
    );
    let (ratio, size) = (times[1] / times[0], written as f64 / by_library as f64);
    println!(
        "{place:<52} {:6.0} MB/s, {library_name} {:6.0}: {ratio:5.2}, size {size:.3}",
        1e3 / times[0],
        1e3 / times[1]
    );
    ratios.add(ratio, place.to_owned());
}
