//! Features of the processor.

/// Whether the processor has AVX2, BMI1 and BMI2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}

/// Whether the processor has AVX-512 and multiplies polynomials with it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq")
}
