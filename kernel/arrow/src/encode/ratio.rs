//! How well batches will be compressed, as the producer guesses it (CompressionRatioEstimator).

const DETERIORATING_STEP: f32 = 0.05;
const IMPROVING_STEP: f32 = 0.005;
/// MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR: better too small a batch than one too large.
const CAUTION: f32 = 1.05;

/// Of compressed bytes to those before; 1 at first. In the producer it lives as long as the topic is written to.
pub struct Ratio(pub f32);

impl Ratio {
    /// What so many bytes may come to.
    #[inline(always)]
    pub fn compressed(&self, plain_bytes: usize) -> usize {
        // In 32-bit floating point, as Java does it: the borders between batches depend on it.
        (plain_bytes as f32 * self.0 * CAUTION) as usize
    }

    /// Learns from a batch that was compressed.
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
