//! Writes the values of each shape of data to a file of its own, for benchmarks/corpus.py:
//!
//!     cargo run --release -p kafka-log-arrow --example shapes -- FOLDER
//!
//! A file has 8 MiB of values, each after its length in four bytes, big-endian.

#[path = "../benches/support/shapes.rs"]
mod shapes;

use std::error::Error;
use std::fs::{create_dir_all, write};
use std::path::PathBuf;

const BYTES: usize = 8 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("expected a folder to write to")?);
    create_dir_all(&folder)?;
    for shape in &shapes::SHAPES {
        let mut content = Vec::new();
        for value in shape.values(BYTES) {
            content.extend((value.len() as u32).to_be_bytes());
            content.extend(value);
        }
        write(folder.join(shape.name), content)?;
    }
    Ok(())
}
