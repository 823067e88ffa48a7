//! The rows that become records, and their order.

use super::columns::Records;

/// How many rows ahead rows in random order are prefetched. The processor cannot predict their addresses.
const AHEAD: usize = 8;

/// Columns, and a selection of their rows.
pub struct Part<'a> {
    records: Records<'a>,
    rows: Rows<'a>,
}

enum Rows<'a> {
    All,
    /// The rows with these indexes, 32 bits in native byte order.
    These(&'a [[u8; 4]]),
}

impl<'a> Part<'a> {
    pub fn all(records: Records<'a>) -> Self {
        Part { records, rows: Rows::All }
    }

    /// The rows with these indexes, 32 bits in native byte order.
    pub fn of_rows(records: Records<'a>, rows: &'a [[u8; 4]]) -> Result<Self, String> {
        let last = rows.iter().map(|&row| u32::from_ne_bytes(row)).max();
        if last.is_some_and(|last| last as usize >= records.rows) {
            return Err(format!("expected indexes of {} rows, found {}", records.rows, last.unwrap()));
        }
        Ok(Part { records, rows: Rows::These(rows) })
    }

    pub fn len(&self) -> usize {
        match self.rows {
            Rows::All => self.records.rows,
            Rows::These(rows) => rows.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes the rows take without their deltas and lengths. If all rows are selected, an upper limit.
    pub fn content_bytes(&self) -> usize {
        match self.rows {
            Rows::These(rows) => self.records.content_bytes().div_ceil(self.records.rows.max(1)) * rows.len(),
            Rows::All => self.records.content_bytes(),
        }
    }
}

/// A position in the rows of several parts.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    /// The part of the current row, and the following parts.
    parts: &'a [Part<'a>],
    at: usize,
    /// How many rows precede the current one.
    pub row: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(parts: &'a [Part<'a>]) -> Self {
        Cursor { parts, at: 0, row: 0 }.with_a_row()
    }

    /// The columns of the current row, and its index in them. None at the end.
    #[inline(always)]
    pub fn get(&self) -> Option<(&'a Records<'a>, usize)> {
        let part = self.parts.first()?;
        let row = match part.rows {
            Rows::All => self.at,
            Rows::These(rows) => u32::from_ne_bytes(rows[self.at]) as usize,
        };
        Some((&part.records, row))
    }

    /// The values from the current row on, if all rows of its part are selected.
    pub fn values(&self) -> &'a [u8] {
        match self.parts.first() {
            Some(Part { records, rows: Rows::All }) => records.value.bytes_from(self.at),
            _ => &[],
        }
    }

    /// Prefetches a following row. There must be a current row.
    #[inline(always)]
    pub fn look_ahead(&self) {
        let part = &self.parts[0];
        if let Rows::These(rows) = part.rows
            && let Some(&row) = rows.get(self.at + AHEAD)
        {
            part.records.prefetch(u32::from_ne_bytes(row) as usize);
        }
    }

    /// The position of the next row. There must be a current row.
    #[inline(always)]
    pub fn next(self) -> Self {
        let next = Cursor { at: self.at + 1, row: self.row + 1, ..self };
        if next.at < self.parts[0].len() { next } else { next.with_a_row() }
    }

    fn with_a_row(mut self) -> Self {
        while self.parts.first().is_some_and(|part| self.at >= part.len()) {
            (self.parts, self.at) = (&self.parts[1..], 0);
        }
        self
    }
}
