//! native_log._kernel.list_logs: list partition directories and find the ends of their last segments in one call, without a
//! Python object for each file. Unusual directories are left to Python.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pyo3::prelude::*;

use kafka_log_format::order::Order;
use kafka_log_format::scan::scan;
use kafka_log_format::status::Status;

use crate::convert::DEFAULT_MAX_BATCH_BYTES;

/// File systems take timestamps from the last clock tick: see TICK_NS in native_log.storage.local.
const TICK: Duration = Duration::from_millis(20);
/// Positions in a segment have 32 bits.
const MOST_SEGMENT_BYTES: u64 = (1 << 31) - 1;
/// Offsets of a segment are less than this above its base offset.
const SEGMENT_OFFSETS: i64 = 1 << 31;
/// A last segment of at most this size is read whole: see _SMALL_BYTES in native_log.log.tail.
const SMALL_SEGMENT_BYTES: u64 = 64 << 10;
const DIGITS: usize = 20;

/// name, base offset, size in bytes, inode, modification time in ms, names of offset, time and transaction index
type Segment = (String, i64, u64, u64, i64, Option<String>, Option<String>, Option<String>);
/// next offset, position and largest timestamp of the last batch, largest timestamp of the segment
type Tail = (i64, i64, i64, i64);
/// segments by ascending base offset; offsets and names of producer snapshots, newest first; the end of the last segment if
/// it is small and undamaged
type Log = (Vec<Segment>, Vec<(i64, String)>, Option<Tail>);

/// Returns the log in each directory; None if a directory cannot be read or is unusual: a compaction left files behind, the
/// .log file of an index is missing, a broker would not have given a file its name, a file is not a regular one, or the
/// directory is changing.
#[pyfunction]
#[pyo3(signature = (paths, *, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES))]
pub fn list_logs(py: Python<'_>, paths: Vec<PathBuf>, max_batch_bytes: usize) -> Vec<Option<Log>> {
    py.detach(|| paths.iter().map(|path| list(path, max_batch_bytes).ok().flatten()).collect())
}

#[derive(Default)]
struct Files {
    log: Option<DirEntry>,
    index: bool,
    time_index: bool,
    transaction_index: bool,
}

fn list(directory: &Path, max_batch_bytes: usize) -> io::Result<Option<Log>> {
    let changed = fs::metadata(directory)?.modified()?;
    let mut files: BTreeMap<i64, Files> = BTreeMap::new();
    let mut snapshots = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let (offset, kind) = match parse(name) {
            Name::Segment(offset, kind) => (offset, kind),
            Name::Other => continue,
            Name::Unusual => return Ok(None),
        };
        if !entry.file_type()?.is_file() {
            return Ok(None);
        }
        if kind == "snapshot" {
            snapshots.push((offset, name.to_owned()));
            continue;
        }
        let segment = files.entry(offset).or_default();
        match kind {
            "log" => segment.log = Some(entry),
            "index" => segment.index = true,
            "timeindex" => segment.time_index = true,
            "txnindex" => segment.transaction_index = true,
            _ => return Ok(None),
        }
    }
    let is_old = SystemTime::now().duration_since(changed).is_ok_and(|age| age > TICK);
    if !is_old || fs::metadata(directory)?.modified()? != changed {
        return Ok(None); // a file that was renamed meanwhile can be missing
    }
    let mut segments = Vec::with_capacity(files.len());
    for (base, each) in files {
        let Some(log) = each.log else {
            if each.index {
                return Ok(None);
            }
            continue;
        };
        let state = log.metadata()?;
        if !state.is_file() || state.len() > MOST_SEGMENT_BYTES {
            return Ok(None);
        }
        let name = |exists: bool, kind: &str| exists.then(|| format!("{base:020}.{kind}"));
        let mtime_ns = i128::from(state.mtime()) * 1_000_000_000 + i128::from(state.mtime_nsec());
        segments.push((
            format!("{base:020}.log"),
            base,
            state.len(),
            state.ino(),
            mtime_ns.div_euclid(1_000_000) as i64,
            name(each.index, "index"),
            name(each.time_index, "timeindex"),
            name(each.transaction_index, "txnindex"),
        ));
    }
    snapshots.sort_unstable_by(|a, b| b.cmp(a));
    let tail = match segments.last() {
        Some(last) => small_tail(directory, last, max_batch_bytes)?,
        None => None,
    };
    Ok(Some((segments, snapshots, tail)))
}

enum Name<'a> {
    /// The offset and the kind of a file of a segment.
    Segment(i64, &'a str),
    /// A file that is not one of a segment.
    Other,
    /// A file of a segment whose state or name needs the rules in Python.
    Unusual,
}

fn parse(name: &str) -> Name<'_> {
    let Some((digits, suffix)) = name.split_once('.') else { return Name::Other };
    let kind = suffix.split_once('.').map_or(suffix, |(kind, _)| kind);
    let is_segment = matches!(kind, "log" | "index" | "timeindex" | "txnindex" | "snapshot");
    if !is_segment || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Name::Other;
    }
    match digits.parse() {
        Ok(offset) if digits.len() == DIGITS && kind == suffix => Name::Segment(offset, kind),
        _ => Name::Unusual,
    }
}

/// The end of a small segment; None if it is empty, large or damaged, or has batches of magic 0 or 1.
fn small_tail(directory: &Path, segment: &Segment, max_batch_bytes: usize) -> io::Result<Option<Tail>> {
    let (name, base, size, inode, ..) = segment;
    if !(1..=SMALL_SEGMENT_BYTES).contains(size) {
        return Ok(None);
    }
    let file = File::open(directory.join(name))?;
    let state = file.metadata()?;
    if (state.len(), state.ino(), state.is_file()) != (*size, *inode, true) {
        return Ok(None); // a broker writes to it
    }
    let mut bytes = vec![0; *size as usize];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Ok(None);
    }
    let order = Order::new(*base, base.saturating_add(SEGMENT_OFFSETS), &file);
    let (rows, stopped) = scan(&bytes, 0, true, max_batch_bytes, Some(order));
    let is_whole = stopped.status == Status::End && rows.iter().all(|row| row.magic == 2 && row.is_valid == Some(true));
    let (Some(last), Some(next_offset)) = (rows.last(), stopped.next_offset) else { return Ok(None) };
    let largest = rows.iter().map(|row| row.max_timestamp).max().unwrap_or(-1).max(-1);
    Ok(is_whole.then_some((next_offset, last.position, last.max_timestamp, largest)))
}
