//! Estimate how well batches can be compressed, as the producer does (CompressionRatioEstimator).

const DETERIORATING_STEP: f32 = 0.05;
const IMPROVING_STEP: f32 = 0.005;
/// MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR: a batch should rather be too small than too large.
const CAUTION: f32 = 1.05;

/// Compressed size / size, 1 at first. The producer keeps one for each topic.
pub struct Ratio(pub f32);

impl Ratio {
    /// The estimated compressed size of `plain_bytes` bytes.
    #[inline(always)]
    pub fn compressed(&self, plain_bytes: usize) -> usize {
        // In 32-bit floating point as in Java, because the boundaries of batches depend on it.
        (plain_bytes as f32 * self.0 * CAUTION) as usize
    }

    /// Updates the estimate by a compressed batch.
    pub fn observe(&mut self, plain_bytes: usize, compressed_bytes: usize) {
        let observed = compressed_bytes as f32 / plain_bytes as f32;
        if observed > self.0 {
            self.0 = observed.max(self.0 + DETERIORATING_STEP);
        } else {
            self.0 = observed.max(self.0 - IMPROVING_STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_in_small_steps_and_rises_at_once() {
        let mut ratio = Ratio(1.0);
        assert_eq!(ratio.compressed(1001), 1051);
        ratio.observe(1000, 500);
        assert_eq!(ratio.0, 0.995);
        ratio.observe(1000, 994);
        assert_eq!(ratio.0, 0.994);
        ratio.observe(1000, 1000);
        assert_eq!(ratio.0, 0.994 + 0.05);
        ratio.observe(1000, 2000);
        assert_eq!(ratio.0, 2.0);
    }
}
