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
    fn new(end: i64, has_whole_file: bool) -> Self {
        DamageSkipper { skipper: Skipper::new(end, has_whole_file) }
    }
}
