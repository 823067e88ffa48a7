//! native_log._kernel.DamageSkipper: how decoding continues after damage.

use pyo3::prelude::*;

use kafka_log_format::skip::Skipper;

#[pyclass(frozen, module = "native_log._kernel")]
pub struct DamageSkipper {
    pub skipper: Skipper,
}

#[pymethods]
impl DamageSkipper {
    #[new]
    #[pyo3(signature = (end, has_whole_file, *, leaves_newer = false))]
    fn new(end: i64, has_whole_file: bool, leaves_newer: bool) -> Self {
        DamageSkipper { skipper: Skipper::new(end, has_whole_file, leaves_newer) }
    }
}
