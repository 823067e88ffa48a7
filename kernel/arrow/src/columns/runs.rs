//! Values that many rows share: kept once for each run of rows.

pub struct Runs<T> {
    /// A value, and the row before which its run ends.
    runs: Vec<(T, usize)>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Runs { runs: Vec::new() }
    }
}

impl<T: Copy> Runs<T> {
    /// The rows since the last run, up to `rows`, have this value.
    pub fn extend_to(&mut self, rows: usize, value: T) {
        if rows > self.rows() {
            self.runs.push((value, rows));
        }
    }

    pub fn rows(&self) -> usize {
        self.runs.last().map_or(0, |&(_, end)| end)
    }

    /// The runs of one property of the values: neighbours that are equal in it become one.
    pub fn of<P: PartialEq>(&self, property: impl Fn(&T) -> P) -> Vec<(P, usize)> {
        let mut merged: Vec<(P, usize)> = Vec::new();
        for (value, end) in &self.runs {
            let value = property(value);
            match merged.last_mut() {
                Some((last, last_end)) if *last == value => *last_end = *end,
                _ => merged.push((value, *end)),
            }
        }
        merged
    }
}
