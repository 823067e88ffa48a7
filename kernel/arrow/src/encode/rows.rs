//! Which rows of which columns become records, and in what order.

use super::columns::Records;

/// Rows here and there are asked for so many ahead of their use: the processor does not foresee where they lie.
const AHEAD: usize = 8;

/// Columns, and those of their rows that are meant.
pub struct Part<'a> {
    records: Records<'a>,
    rows: Rows<'a>,
}

enum Rows<'a> {
    All,
    /// Their numbers, 32 bits in the machine's byte order.
    These(&'a [[u8; 4]]),
}

impl<'a> Part<'a> {
    pub fn all(records: Records<'a>) -> Self {
        Part { records, rows: Rows::All }
    }

    /// The rows of these numbers, of 32 bits in the machine's byte order.
    pub fn of_rows(records: Records<'a>, rows: &'a [[u8; 4]]) -> Result<Self, String> {
        let last = rows.iter().map(|&row| u32::from_ne_bytes(row)).max();
        if last.is_some_and(|last| last as usize >= records.rows) {
            return Err(format!("there are {} rows, one of number {} was asked for", records.rows, last.unwrap()));
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

    /// About how many bytes the rows take without their deltas and lengths; where all are meant, no more.
    pub fn content_bytes(&self) -> usize {
        match self.rows {
            Rows::These(rows) => self.records.content_bytes().div_ceil(self.records.rows.max(1)) * rows.len(),
            Rows::All => self.records.content_bytes(),
        }
    }
}

/// A place among the rows of several parts.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    /// The part of the row it is at, and those behind.
    parts: &'a [Part<'a>],
    at: usize,
    /// How many rows are before it.
    pub row: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(parts: &'a [Part<'a>]) -> Self {
        Cursor { parts, at: 0, row: 0 }.with_a_row()
    }

    /// The row it is at, as its columns and its number in them; None at the end.
    #[inline(always)]
    pub fn get(&self) -> Option<(&'a Records<'a>, usize)> {
        let part = self.parts.first()?;
        let row = match part.rows {
            Rows::All => self.at,
            Rows::These(rows) => u32::from_ne_bytes(rows[self.at]) as usize,
        };
        Some((&part.records, row))
    }

    /// The values from this row on, if all rows of its part are meant.
    pub fn values(&self) -> &'a [u8] {
        match self.parts.first() {
            Some(Part { records, rows: Rows::All }) => records.value.bytes_from(self.at),
            _ => &[],
        }
    }

    /// Has the processor fetch what comes soon. There is a row at this place.
    #[inline(always)]
    pub fn look_ahead(&self) {
        let part = &self.parts[0];
        if let Rows::These(rows) = part.rows
            && let Some(&row) = rows.get(self.at + AHEAD)
        {
            part.records.prefetch(u32::from_ne_bytes(row) as usize);
        }
    }

    /// The next row's place. There is one at this place.
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
