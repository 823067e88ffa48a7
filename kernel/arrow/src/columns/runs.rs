//! Values that many consecutive rows share.

/// One value for each run of rows.
pub struct Runs<T> {
    /// Each value, and the index of the row before which its run ends.
    runs: Vec<(T, usize)>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Runs { runs: Vec::new() }
    }
}

impl<T: Copy> Runs<T> {
    /// Adds a run of this value: the rows from the last run up to `rows`.
    pub fn extend_to(&mut self, rows: usize, value: T) {
        if rows > self.rows() {
            self.runs.push((value, rows));
        }
    }

    pub fn rows(&self) -> usize {
        self.runs.last().map_or(0, |&(_, end)| end)
    }

    /// The runs of a property of the values. Neighboring runs with an equal property are merged.
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
